"""Places: a few turns run, some wait in line, and everybody else is told when to come back."""

from __future__ import annotations

import asyncio
import json
import threading

import numpy as np
import pytest

from server.audio.codec import encode_wav
from server.devices import uploads
from server.engines.base import LlmText
from server.errors import StorageError
from server.pipeline.journal import TurnJournal
from server.storage.speech import SpeechStore
from tests.devices.conftest import TOKEN, code, eventually
from tests.fakes.engines import FakeLlm, answer

pytestmark = pytest.mark.integration

LATER = {"Prefer": "respond-async"}
ONE_PLACE = {"STACKCHAN_LIMITS__RUNNING_TURNS": "1"}
SPEECH = encode_wav((16_000 * np.sin(np.arange(16_000) / 8)).astype(np.int16), 16_000)


def slow_llm(gate: asyncio.Event) -> FakeLlm:
    return FakeLlm(scripts=[[gate, *answer()]])


async def say(live, device, text="hi", **headers):
    return await live.client.post("/v1/turns", json={"text": text}, headers=LATER | {"Device-Id": device} | headers)


async def ended(live, turn_id):
    return (await live.client.get(f"/v1/turns/{turn_id}", headers={"Prefer": "wait=20"})).json()


async def raw_post(live, head="", body=b"", device="desk"):
    """An open connection that has sent the head of a turn and `body`."""
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = f"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nDevice-Id: {device}\r\n{head}\r\n"
    writer.write(lines.encode() + body)
    await writer.drain()
    return reader, writer


async def close(writer):
    writer.close()
    await writer.wait_closed()


async def places_taken(live, count):
    await eventually(lambda: len(live.app.state.service.runner._places) == count)


async def test_turns_in_line_are_served_in_the_order_they_came(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate), env=ONE_PLACE) as live:
        turns = [(await say(live, f"d{n}", f"number {n}")).json() for n in range(6)]
        assert [turn["status"] for turn in turns] == ["running"] + ["queued"] * 5
        assert [turn["transcript"] for turn in turns] == [f"number {n}" for n in range(6)]
        await asyncio.sleep(0.2)
        waiting = [(await live.client.get(f"/v1/turns/{turn['turn_id']}")).json()["status"] for turn in turns]
        assert waiting == ["running"] + ["queued"] * 5
        gate.set()
        done = [await ended(live, turn["turn_id"]) for turn in turns]
        traces = [(await live.client.get(f"/v1/turns/{turn['turn_id']}/trace")).json()["trace"] for turn in turns]
    assert {turn["outcome"] for turn in done} == {"ok"}
    asked = [request.messages[-1].content for request in live.engines.llm.requests]
    assert [next(n for n in range(6) if f"number {n}" in words) for words in asked] == list(range(6))
    assert [[span["name"] for span in trace["spans"]].count("queued") for trace in traces] == [0] + [1] * 5
    for trace in traces[1:]:
        received, queued = trace["spans"][:2]
        assert (received["name"], received["start_ms"], queued["name"]) == ("receive", 0, "queued")
        assert received["end_ms"] <= queued["start_ms"]
        assert queued["end_ms"] - queued["start_ms"] >= 200, "the others were held for that long"
        assert trace["marks"]["words_stored"] >= queued["end_ms"], "times count from when the request was received"
    assert done[5]["latency_ms"]["queued"] >= 200
    assert done[5]["latency_ms"]["total"] >= done[5]["latency_ms"]["queued"]


async def test_two_run_at_once_when_two_may(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        turns = [(await say(live, f"d{n}")).json() for n in range(3)]
        await eventually(lambda: len(live.engines.llm.requests) == 2)
        await asyncio.sleep(0.1)
        assert len(live.engines.llm.requests) == 2
        assert [turn["status"] for turn in turns] == ["running", "running", "queued"]
        metrics = (await live.client.get("/metrics")).text.splitlines()
        gate.set()
        assert [(await ended(live, turn["turn_id"]))["status"] for turn in turns] == ["done"] * 3
    assert {"stackchan_turns_running 2.0", "stackchan_turns_queued 1.0"} <= set(metrics)


async def test_who_is_sent_away_can_come_back_after_the_time_it_was_told(serve):
    gate = asyncio.Event()
    env = ONE_PLACE | {"STACKCHAN_LIMITS__QUEUED_TURNS": "1"}
    async with serve(llm=slow_llm(gate), env=env) as live:
        turns = [(await say(live, f"d{n}")).json() for n in range(2)]
        refused = await say(live, "late")
        assert code(refused) == (429, "overloaded")
        assert refused.json()["error"]["retryable"] is True
        seconds = int(refused.headers["retry-after"])
        assert 1 <= seconds <= 60
        gate.set()
        await asyncio.sleep(seconds)
        again = await say(live, "late")
        assert again.status_code == 202
        assert (await ended(live, again.json()["turn_id"]))["outcome"] == "ok"
        assert [(await ended(live, turn["turn_id"]))["outcome"] for turn in turns] == ["ok", "ok"]


async def test_those_who_are_sent_away_are_not_all_told_to_come_at_once(serve):
    gate = asyncio.Event()
    env = ONE_PLACE | {"STACKCHAN_LIMITS__QUEUED_TURNS": "0"}
    async with serve(llm=slow_llm(gate), env=env) as live:
        turn = (await say(live, "desk")).json()
        refused = [await say(live, f"d{n}") for n in range(5)]
        again = await say(live, "d0")
        gate.set()
        await ended(live, turn["turn_id"])
    seconds = [int(response.headers["retry-after"]) for response in refused]
    assert seconds == sorted(seconds)
    assert seconds[4] >= 4 * seconds[0]
    assert int(again.headers["retry-after"]) >= seconds[4], "who asks too early goes to the end"


async def test_refusals_come_before_the_body(serve):
    gate = asyncio.Event()
    env = ONE_PLACE | {"STACKCHAN_LIMITS__QUEUED_TURNS": "0"}
    head = "Content-Type: audio/wav\r\nContent-Length: 4000000\r\n"
    async with serve(llm=slow_llm(gate), env=env) as live:
        turn = (await say(live, "desk")).json()
        for device, status in (("desk", b"409"), ("kitchen", b"429")):
            reader, writer = await raw_post(live, head, device=device)
            assert (await asyncio.wait_for(reader.readline(), 5)).split()[1] == status
            await close(writer)
        for refused, status in (
            ("Content-Type: audio/wav\r\nContent-Length: 4194305\r\n", b"413"),
            ("Content-Type: text/html\r\nContent-Length: 10\r\n", b"415"),
            ("Content-Type: audio/wav\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n", b"415"),
            ("Content-Type: audio/wav\r\nIdempotency-Key: a b\r\nContent-Length: 10\r\n", b"400"),
        ):
            reader, writer = await raw_post(live, refused, device="other")
            assert (await asyncio.wait_for(reader.readline(), 5)).split()[1] == status
            await close(writer)
        gate.set()
        assert (await ended(live, turn["turn_id"]))["outcome"] == "ok"


async def test_an_upload_holds_its_place_and_gives_it_back_when_the_client_vanishes(serve):
    head = "Content-Type: audio/wav\r\nContent-Length: 1000\r\n"
    env = ONE_PLACE | {"STACKCHAN_LIMITS__QUEUED_TURNS": "0"}
    async with serve(env=env) as live:
        _, writer = await raw_post(live, head, b"RIFF")
        await places_taken(live, 1)
        busy, full = await say(live, "desk"), await say(live, "kitchen")
        await close(writer)
        await places_taken(live, 0)
        assert (await say(live, "desk")).status_code == 202
        assert (await ended(live, 1))["status"] == "done"
    assert code(busy) == (409, "device_busy")
    assert code(full) == (429, "overloaded")


async def test_an_upload_that_takes_too_long_is_told_so_and_gives_its_place_back(serve, monkeypatch):
    monkeypatch.setattr(uploads, "_UPLOAD_TIMEOUT_SECONDS", 0.3)
    async with serve(env=ONE_PLACE | {"STACKCHAN_LIMITS__QUEUED_TURNS": "0"}) as live:
        reader, writer = await raw_post(live, "Content-Type: audio/wav\r\nContent-Length: 1000\r\n", b"RIFF")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        body = await asyncio.wait_for(reader.readuntil(b"}}"), 5)
        assert (await live.client.post("/v1/turns", json={"text": "hi"})).status_code == 200
        await close(writer)
    assert head.startswith(b"HTTP/1.1 408")
    error = json.loads(body)["error"]
    assert (error["code"], error["retryable"]) == ("body_timeout", True)


async def test_who_sees_the_end_may_speak_again_at_once(serve, monkeypatch):
    end = SpeechStore.end

    async def slowly(self, turn_id, *, keep):
        await asyncio.sleep(0.3)
        await end(self, turn_id, keep=keep)

    monkeypatch.setattr(SpeechStore, "end", slowly)
    async with serve() as live:
        turn = (await say(live, "desk")).json()
        while turn["status"] != "done":
            turn = (await live.client.get(f"/v1/turns/{turn['turn_id']}")).json()
        assert (await say(live, "desk")).status_code == 202


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b"no sound", "audio/wav", (422, "audio_invalid")),
        (b"{", "application/json", (422, "body_invalid")),
        (b"\x00\x01" * 16_000 * 61, "audio/pcm;rate=16000", (413, "audio_too_long")),
    ],
)
async def test_a_refused_upload_gives_its_place_back(serve, body, kind, expected):
    async with serve(env=ONE_PLACE | {"STACKCHAN_LIMITS__QUEUED_TURNS": "0"}) as live:
        for _ in range(3):
            response = await live.client.post("/v1/turns", content=body, headers={"Content-Type": kind})
            assert code(response) == expected
        assert (await live.client.post("/v1/turns", json={"text": "hi"})).status_code == 200


async def test_a_turn_that_cannot_be_stored_gives_everything_back(serve, monkeypatch):
    async def full(*_, **__):
        raise StorageError("The disk is full.", code="storage_full", retryable=True)

    async with serve(env=ONE_PLACE | {"STACKCHAN_LIMITS__QUEUED_TURNS": "0"}) as live:
        for name in ("next_turn_id", "begin"):
            with monkeypatch.context() as patch:
                patch.setattr(TurnJournal, name, full)
                for _ in range(2):
                    assert code(await say(live, "desk")) == (507, "storage_full")
        assert (await live.client.post("/v1/turns", json={"text": "hi"})).status_code == 200
        runner = live.app.state.service.runner
        assert (runner.running, runner.queued, runner._places, runner._opening, runner._live) == (0, 0, {}, {}, {})
        assert live.app.state.service.speech._live == {}


async def test_a_turn_ending_on_a_defect_is_closed_and_the_next_one_runs(serve, monkeypatch):
    async def broken(*_, **__):
        raise RuntimeError("a defect of the test")

    async with serve(env=ONE_PLACE) as live:
        with monkeypatch.context() as patch:
            patch.setattr(TurnJournal, "ended", broken)
            refused = await live.client.post("/v1/turns", json={"text": "hi"})
        turn = (await live.client.get("/v1/turns/1")).json()
        after = await live.client.post("/v1/turns", json={"text": "hi"})
    assert code(refused) == (500, "internal")
    assert (turn["status"], turn["error"]["code"]) == ("failed", "internal")
    assert after.status_code == 200
    assert (turns_counted(live, "failed"), turns_counted(live, "ok")) == (1, 1)


async def test_many_uploads_are_decoded_two_at_a_time(serve, monkeypatch):
    at_once, most = 0, 0
    lock, decode = threading.Lock(), uploads.decode_upload

    def watched(*arguments, **named):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        try:
            threading.Event().wait(0.05)
            return decode(*arguments, **named)
        finally:
            with lock:
                at_once -= 1

    monkeypatch.setattr(uploads, "decode_upload", watched)
    async with serve() as live:
        responses = await asyncio.gather(
            *(
                live.client.post(
                    "/v1/turns", content=SPEECH, headers={"Content-Type": "audio/wav", "Device-Id": f"d{n}"}
                )
                for n in range(10)
            )
        )
    assert [response.status_code for response in responses] == [200] * 10
    assert most == 2


async def test_a_stop_ends_what_waits_and_lets_what_runs_finish(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate), env=ONE_PLACE) as live:
        running = asyncio.create_task(live.client.post("/v1/turns", json={"text": "一つ目"}))
        await places_taken(live, 1)
        queued = (await say(live, "kitchen", "二つ目")).json()
        waiting = asyncio.create_task(
            live.client.post("/v1/turns", json={"text": "三つ目"}, headers={"Device-Id": "hall"})
        )
        await places_taken(live, 3)
        assert queued["status"] == "queued"
        live.app.state.begin_stop(False)
        cut = await asyncio.wait_for(waiting, 5)
        seen = (await live.client.get(f"/v1/turns/{queued['turn_id']}")).json()
        late = await say(live, "bath")
        assert not running.done()
        gate.set()
        finished = await running
    assert code(cut) == (503, "stopping")
    assert "retry-after" in cut.headers
    assert (seen["status"], seen["outcome"], seen["transcript"]) == ("failed", "failed", "二つ目")
    assert (seen["error"]["code"], seen["error"]["retryable"]) == ("stopping", True)
    assert code(late) == (503, "stopping")
    assert (finished.status_code, finished.json()["outcome"]) == (200, "ok")
    assert len(live.engines.llm.requests) == 1
    async with serve() as live:
        again = (await live.client.get(f"/v1/turns/{queued['turn_id']}")).json()
        assert again == seen


def turns_counted(live, outcome):
    return live.app.state.metrics.registry.get_sample_value(
        "stackchan_turns_total", {"outcome": outcome, "input": "text"}
    )


async def test_a_turn_that_a_stop_cuts_off_is_stored_counted_and_logged_as_such(serve, monkeypatch, caplog):
    monkeypatch.setattr("server.start._GRACE_SECONDS", 0.2)
    gate = asyncio.Event()
    caplog.set_level("INFO", logger="server.pipeline.turn_log")
    async with serve(llm=FakeLlm(scripts=[[LlmText('{"emotion"'), gate]])) as live:
        turn = (await say(live, "desk", "左を見て")).json()
        await eventually(lambda: live.engines.llm.requests)
        live.app.state.begin_stop(False)
        cut = await ended(live, turn["turn_id"])
        trace = (await live.client.get(f"/v1/turns/{turn['turn_id']}/trace")).json()["trace"]
    assert (cut["status"], cut["transcript"], cut["error"]["code"]) == ("failed", "左を見て", "stopping")
    assert live.engines.llm.cancelled == 1
    assert [span["name"] for span in trace["spans"]] == ["receive", "llm"]
    assert all(span["end_ms"] >= span["start_ms"] for span in trace["spans"])
    assert list(trace["marks"]) == ["words_stored", "first_token"]
    assert (trace["llm"]["calls"], trace["error"]) == (1, {"code": "stopping", "retryable": True})
    assert (turns_counted(live, "failed"), turns_counted(live, "ok")) == (1, 0)
    errors = live.app.state.metrics.registry.get_sample_value("stackchan_turn_errors_total", {"code": "stopping"})
    assert errors == 1
    (line,) = [record for record in caplog.records if record.name == "server.pipeline.turn_log"]
    assert (line.outcome, line.code) == ("failed", "stopping")
