"""Killed with -9 during a turn: what the user said is still there after the restart, and nothing is left running."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.commands.serve_process import ServeProcess

pytestmark = pytest.mark.integration

WORDS = "金曜日に歯医者の予約を入れたよ"
LONG_VOICE = {"SERVE_FAKE": "60"}


def client_of(server: ServeProcess) -> httpx2.Client:
    run = json.loads((server.data_dir / "run.json").read_text())
    headers = {"Authorization": f"Bearer {run['token']}", "Device-Id": "desk"}
    return httpx2.Client(base_url=run["url"], headers=headers, timeout=30)


def begin_turn(server: ServeProcess, words: str) -> int:
    """Say something and return as soon as the server shows it as its own; the turn goes on."""

    def say() -> None:
        try:
            with client_of(server) as client:
                client.post("/v1/turns", json={"text": words})
        except httpx2.TransportError:
            pass  # the server is killed under it

    threading.Thread(target=say, daemon=True).start()
    end = time.monotonic() + 30
    with client_of(server) as client:
        while time.monotonic() < end:
            for turn_id in range(1, 100):
                response = client.get(f"/v1/turns/{turn_id}")
                if response.status_code == 200 and response.json()["transcript"] == words:
                    return turn_id
            time.sleep(0.05)
    raise AssertionError("the words were never shown")


def read_turn(server: ServeProcess, turn_id: int) -> dict[str, Any]:
    with client_of(server) as client:
        answer: dict[str, Any] = client.get(f"/v1/turns/{turn_id}").json()
        return answer


def test_turns_survive_kill_9_with_their_words_and_keys_and_are_closed_as_failed(tmp_path: Path) -> None:
    two_places = {"STACKCHAN_LIMITS__RUNNING_TURNS": "2"}
    words = {"shelf": "富士山に登ってきたよ", "kitchen": "牛乳を買ってきて"}
    taken: dict[str, dict[str, Any]] = {}

    def say(client: httpx2.Client, device: str, **headers: str) -> httpx2.Response:
        key = {"Device-Id": device, "Idempotency-Key": f"key-of-{device}"}
        return client.post("/v1/turns", json={"text": words[device]}, headers=key | headers)

    with ServeProcess(tmp_path, env=LONG_VOICE | two_places) as server:
        server.wait_for("Ready in")
        waited_for = begin_turn(server, WORDS)
        assert read_turn(server, waited_for)["status"] == "running"
        with client_of(server) as client:
            for device in words:
                accepted = say(client, device, Prefer="respond-async")
                assert accepted.status_code == 202
                taken[device] = accepted.json()
            # Its words were stored by then, and it waits for its voice.
            while client.get(f"/v1/turns/{taken['shelf']['turn_id']}").json()["emotion"] != "happy":
                time.sleep(0.05)
        assert (taken["shelf"]["status"], taken["kitchen"]["status"]) == ("running", "queued")
        server.process.kill()
        server.process.wait(10)
    with ServeProcess(tmp_path) as server:
        server.wait_for("Ready in")
        for turn_id, said in {waited_for: WORDS, **{taken[one]["turn_id"]: words[one] for one in words}}.items():
            turn = read_turn(server, turn_id)
            assert (turn["status"], turn["outcome"], turn["transcript"]) == ("failed", "failed", said)
            assert (turn["error"]["code"], turn["error"]["retryable"]) == ("server_stopped", True)
            assert turn["audio"] is None
        with client_of(server) as client:
            after = client.post("/v1/turns", json={"text": "もしもし"}).json()
            assert after["outcome"] == "ok"
            assert after["turn_id"] > max(waited_for, *(turn["turn_id"] for turn in taken.values())), "never used again"
            assert after["session_id"] == read_turn(server, waited_for)["session_id"], "the conversation goes on"
            for device, accepted in taken.items():
                turn = read_turn(server, accepted["turn_id"])
                for headers in ({}, {"Prefer": "respond-async"}):
                    again = say(client, device, **headers)
                    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
                    assert again.json() == turn
                fresh = client.post("/v1/turns", json={"text": words[device]}, headers={"Device-Id": device}).json()
                assert (fresh["outcome"], fresh["session_id"]) == ("ok", turn["session_id"])


def test_every_acknowledged_turn_survives_many_power_cuts(tmp_path: Path) -> None:
    answered: dict[int, str] = {}
    cut: dict[int, str] = {}
    for round_number in range(3):
        with ServeProcess(tmp_path, env=LONG_VOICE if round_number % 2 else {}) as server:
            server.wait_for("Ready in")
            if round_number % 2:
                words = f"{round_number}回目の停電"
                cut[begin_turn(server, words)] = words
            else:
                with client_of(server) as client:
                    for number in range(3):
                        words = f"{round_number}-{number} 覚えておいて"
                        turn = client.post("/v1/turns", json={"text": words}).json()
                        answered[turn["turn_id"]] = words
            server.process.kill()
            server.process.wait(10)
    with ServeProcess(tmp_path) as server:
        server.wait_for("Ready in")
        turns = {turn_id: read_turn(server, turn_id) for turn_id in answered | cut}
    assert len(turns) == 7
    assert {turn_id: turn["transcript"] for turn_id, turn in turns.items()} == answered | cut
    assert {turns[turn_id]["status"] for turn_id in answered} == {"done"}
    assert {turns[turn_id]["status"] for turn_id in cut} == {"failed"}
