"""`Idempotency-Key`: however often and from wherever a request comes, it is one turn."""

from __future__ import annotations

import asyncio
import json

import httpx2
import numpy as np
import pytest

from server.audio.codec import encode_wav
from server.errors import StorageError
from server.pipeline.journal import TurnJournal
from tests.devices.conftest import TOKEN, LiveServer, code, eventually
from tests.fakes.engines import FakeLlm, answer

pytestmark = pytest.mark.integration

KEY = {"Idempotency-Key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}
LATER = {"Prefer": "respond-async"}
WAV = {"Content-Type": "audio/wav"}
SPEECH = encode_wav((16_000 * np.sin(np.arange(16_000) / 8)).astype(np.int16), 16_000)


def slow_llm(gate: asyncio.Event) -> FakeLlm:
    return FakeLlm(scripts=[[gate, *answer()]])


async def stored_turns(live: LiveServer) -> list[int]:
    """Every turn there is: ids are given in rising order from 1, in blocks."""
    seen = [await live.client.get(f"/v1/turns/{turn_id}") for turn_id in range(1, 30)]
    return [response.json()["turn_id"] for response in seen if response.status_code == 200]


@pytest.mark.parametrize("body", ["text", "sound"])
async def test_the_same_key_is_the_same_turn(serve, body):
    content = {"json": {"text": "左を見て"}} if body == "text" else {"content": SPEECH}
    headers = KEY if body == "text" else KEY | WAV
    async with serve() as live:
        first = await live.client.post("/v1/turns", headers=headers, **content)
        again = await live.client.post("/v1/turns", headers=headers, **content)
        later = await live.client.post("/v1/turns", headers=headers | LATER, **content)
        fresh = await live.client.post("/v1/turns", headers=headers | {"Idempotency-Key": "another"}, **content)
    assert "idempotency-replayed" not in first.headers
    for response in (again, later):
        assert (response.status_code, response.headers["idempotency-replayed"]) == (200, "true")
        assert response.json() == first.json()
    assert fresh.json()["turn_id"] != first.json()["turn_id"]
    assert len(live.engines.llm.requests) == 2


async def test_a_key_is_remembered_over_a_restart(serve):
    async with serve() as live:
        first = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)).json()
    async with serve() as live:
        again = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
        other = await live.client.post("/v1/turns", json={"text": "bye"}, headers=KEY)
        assert live.engines.llm.requests == []
        fresh = (await live.client.post("/v1/turns", json={"text": "bye"})).json()
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.json() == first
    assert fresh["turn_id"] == first["turn_id"] + 1, "a stop gives back the numbers that were set aside"
    assert code(other) == (422, "idempotency_key_reused")


async def test_two_devices_may_have_the_same_key(serve):
    async with serve() as live:
        one = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)).json()
        two = (await live.client.post("/v1/turns", json={"text": "bye"}, headers=KEY | {"Device-Id": "kitchen"})).json()
    assert (one["transcript"], two["transcript"]) == ("hi", "bye")
    assert one["turn_id"] != two["turn_id"]


@pytest.mark.parametrize(
    "change",
    [
        {"content": b'{"text": "bye"}'},
        {"content": b'{"text": "hi", "speaker": "speaker-1"}'},
        {"headers": {"Session-Id": "another"}},
        {"content": SPEECH, "headers": {"Content-Type": "audio/wav"}},
        {"headers": {"Content-Type": "audio/pcm;rate=16000"}},
    ],
)
async def test_a_key_with_other_content_is_refused_and_costs_nothing(serve, change):
    asked = {"content": b'{"text": "hi"}', "headers": {"Content-Type": "application/json"}}
    changed = {
        "content": change.get("content", asked["content"]),
        "headers": asked["headers"] | change.get("headers", {}) | KEY,
    }
    async with serve() as live:
        first = await live.client.post("/v1/turns", content=asked["content"], headers=asked["headers"] | KEY)
        refused = await live.client.post("/v1/turns", **changed)
        again = await live.client.post("/v1/turns", content=asked["content"], headers=asked["headers"] | KEY)
        assert await stored_turns(live) == [first.json()["turn_id"]]
    assert code(refused) == (422, "idempotency_key_reused")
    assert refused.json()["error"]["retryable"] is False
    assert again.json() == first.json()


async def test_twenty_at_once_are_one_turn(serve):
    async with serve() as live:

        async def insist() -> tuple[int, list[str]]:
            codes = []
            while True:
                response = await live.client.post("/v1/turns", content=SPEECH, headers=KEY | WAV)
                if response.status_code == 200:
                    return response.json()["turn_id"], codes
                assert response.json()["error"]["retryable"] is True
                codes.append(code(response))
                await asyncio.sleep(0.02)

        got = await asyncio.gather(*(insist() for _ in range(20)))
        assert await stored_turns(live) == [got[0][0]]
    assert len({turn_id for turn_id, _ in got}) == 1
    assert {refusal for _, codes in got for refusal in codes} <= {(409, "idempotency_in_progress")}
    assert len(live.engines.asr.heard) == 1
    assert len(live.engines.llm.requests) == 1


async def test_the_database_is_the_last_to_let_a_second_turn_through(serve, monkeypatch):
    """Two requests that both looked before either had stored its turn."""
    looked = 0
    find = TurnJournal.find

    async def blind(self, device_id, key):
        nonlocal looked
        looked += 1
        return None if looked <= 2 else await find(self, device_id, key)

    async with serve() as live:
        monkeypatch.setattr(TurnJournal, "find", blind)
        first = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
        again = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
        other = await live.client.post("/v1/turns", json={"text": "next"})
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.json() == first.json()
    assert other.status_code == 200, "the place of the second one is free again"
    assert len(live.engines.llm.requests) == 2


async def test_a_key_whose_turn_runs_waits_for_it_or_comes_back_later(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        first = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY | LATER)).json()
        later = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY | LATER)
        assert (later.status_code, later.headers["idempotency-replayed"]) == (202, "true")
        assert later.headers["location"] == f"/v1/turns/{first['turn_id']}"
        waiting = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        gate.set()
        waited = await waiting
    assert (waited.status_code, waited.headers["idempotency-replayed"]) == (200, "true")
    assert (waited.json()["turn_id"], waited.json()["outcome"]) == (first["turn_id"], "ok")


async def test_a_known_key_is_answered_by_a_busy_device_and_a_full_server(serve):
    gate = asyncio.Event()
    gate.set()
    env = {"STACKCHAN_LIMITS__RUNNING_TURNS": "1", "STACKCHAN_LIMITS__QUEUED_TURNS": "0"}
    async with serve(llm=slow_llm(gate), env=env) as live:
        first = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
        gate.clear()
        running = (await live.client.post("/v1/turns", json={"text": "next"}, headers=LATER)).json()
        assert running["status"] == "running"
        busy = await live.client.post("/v1/turns", json={"text": "third"})
        full = await live.client.post("/v1/turns", json={"text": "third"}, headers={"Device-Id": "kitchen"})
        again = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
        gate.set()
    assert code(busy) == (409, "device_busy")
    assert code(full) == (429, "overloaded")
    assert (again.status_code, again.json()) == (200, first.json())


async def test_the_first_client_may_vanish(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        post = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY))
        await eventually(lambda: live.engines.llm.requests)
        post.cancel()
        await asyncio.gather(post, return_exceptions=True)
        again = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY))
        await asyncio.sleep(0.1)
        gate.set()
        answered = (await again).json()
        assert await stored_turns(live) == [answered["turn_id"]]
    assert (answered["outcome"], answered["transcript"]) == ("ok", "hi")
    assert len(live.engines.llm.requests) == 1


async def test_a_key_whose_upload_is_arriving_is_in_progress(serve):
    body = json.dumps({"text": "hi"}).encode()
    headers = KEY | {"Content-Type": "application/json"}
    gate = asyncio.Event()

    async def slowly():
        yield body[:4]
        await gate.wait()
        yield body[4:]

    async with serve() as live:
        first = asyncio.create_task(live.client.post("/v1/turns", content=slowly(), headers=headers))
        await eventually(lambda: live.app.state.service.runner._places)
        early = await live.client.post("/v1/turns", content=body, headers=headers)
        busy = await live.client.post("/v1/turns", json={"text": "hi"})
        gate.set()
        answered = await first
        late = await live.client.post("/v1/turns", content=body, headers=headers)
    assert code(early) == (409, "idempotency_in_progress")
    assert early.json()["error"]["retryable"] is True
    assert int(early.headers["retry-after"]) >= 1
    assert code(busy) == (409, "device_busy")
    assert answered.status_code == 200
    assert late.json() == answered.json()


async def test_a_turn_seen_the_moment_it_is_stored_can_be_waited_for(serve, monkeypatch):
    begin = TurnJournal.begin

    async def slowly(self, *arguments, **named):
        turn = await begin(self, *arguments, **named)
        await asyncio.sleep(0.5)
        return turn

    monkeypatch.setattr(TurnJournal, "begin", slowly)
    async with serve() as live:
        first = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY))
        while (await live.client.get("/v1/turns/1")).status_code != 200:
            assert not first.done()
        read, again, sound = await asyncio.gather(
            live.client.get("/v1/turns/1", headers={"Prefer": "wait=10"}),
            live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY),
            live.client.get("/v1/turns/1/audio"),
        )
        answered = await first
    assert answered.status_code == 200
    assert read.json() == again.json() == answered.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert sound.status_code == 200
    assert sound.content[44:], "the sound of the turn, from its beginning"


async def test_a_request_that_was_refused_has_not_used_its_key(serve):
    async with serve() as live:
        refused = await live.client.post("/v1/turns", content=b"no sound", headers=KEY | WAV)
        good = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
    assert code(refused) == (422, "audio_invalid")
    assert (good.status_code, good.json()["transcript"]) == (200, "hi")
    assert "idempotency-replayed" not in good.headers


async def test_a_failed_turn_is_what_its_key_gives(serve, monkeypatch):
    async def full(*_):
        raise StorageError("The disk is full.", code="storage_full", retryable=True)

    async with serve() as live:
        with monkeypatch.context() as patch:
            patch.setattr(TurnJournal, "heard", full)
            refused = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
        again = await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
    assert code(refused) == (507, "storage_full")
    assert again.status_code == 200
    error = again.json()["error"]
    assert (again.json()["status"], error["code"], error["retryable"]) == ("failed", "storage_full", True)


async def test_a_known_key_still_needs_the_right_token(serve):
    async with serve() as live:
        await live.client.post("/v1/turns", json={"text": "hi"}, headers=KEY)
        headers = {"Authorization": f"Bearer {TOKEN}x", "Device-Id": "desk"} | KEY
        async with httpx2.AsyncClient(base_url=live.url, headers=headers) as stranger:
            refused = await stranger.post("/v1/turns", json={"text": "hi"})
    assert code(refused) == (401, "token_invalid")
