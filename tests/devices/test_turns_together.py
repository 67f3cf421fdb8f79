"""Turns at once, the start of the server, the conversation so far, and what describes it all."""

from __future__ import annotations

import asyncio
import json

import httpx2
import numpy as np
import pytest

from server.audio.codec import encode_wav
from server.errors import AsrError, LlmError
from tests.devices.conftest import code, first_turn
from tests.fakes.engines import FakeAsr, FakeEngine, FakeLlm, FakeVad, answer

pytestmark = pytest.mark.integration

WAV = {"Content-Type": "audio/wav"}
SPEECH = (16_000 * np.sin(2 * np.pi * 300 * np.arange(16_000) / 16_000)).astype(np.int16)


async def test_a_busy_device_gets_409_and_others_go_on(serve):
    gate = asyncio.Event()
    async with serve(llm=FakeLlm(scripts=[[gate, *answer()]])) as live:
        first = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}))
        await first_turn(live)
        busy = await live.client.post("/v1/turns", json={"text": "again"})
        other = asyncio.create_task(
            live.client.post("/v1/turns", json={"text": "me too"}, headers={"Device-Id": "kitchen"})
        )
        gate.set()
        assert code(busy) == (409, "device_busy")
        assert busy.json()["error"]["retryable"] is True
        assert (await first).status_code == 200
        assert (await other).status_code == 200
        assert (await live.client.post("/v1/turns", json={"text": "now"})).status_code == 200


async def test_too_many_turns_get_429_with_a_time(serve):
    gate = asyncio.Event()
    env = {"STACKCHAN_LIMITS__RUNNING_TURNS": "1", "STACKCHAN_LIMITS__QUEUED_TURNS": "1"}
    async with serve(llm=FakeLlm(scripts=[[gate, *answer()]]), env=env) as live:
        posts = [
            asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}, headers={"Device-Id": f"d{n}"}))
            for n in range(4)
        ]
        done, _ = await asyncio.wait(posts, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.1)
        gate.set()
        answers = [await post for post in posts]
    refused = [response for response in answers if response.status_code == 429]
    assert len(done) >= 1
    assert len(refused) == 2
    assert code(refused[0]) == (429, "overloaded")
    assert int(refused[0].headers["retry-after"]) >= 1
    assert sorted(response.status_code for response in answers) == [200, 200, 429, 429]


async def test_a_device_that_hangs_up_does_not_stop_its_turn(serve):
    gate = asyncio.Event()
    async with serve(llm=FakeLlm(scripts=[[gate, *answer()]])) as live:
        post = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}))
        turn_id = await first_turn(live)
        post.cancel()
        await asyncio.gather(post, return_exceptions=True)
        gate.set()
        for _ in range(200):
            turn = (await live.client.get(f"/v1/turns/{turn_id}")).json()
            if turn["status"] != "running":
                break
            await asyncio.sleep(0.01)
    assert (turn["status"], turn["reply"]) == ("done", "今日はいい天気だから、散歩に行こうよ。")


async def test_while_models_load_the_server_says_so(serve):
    class Slow(FakeVad):
        def __init__(self):
            super().__init__()
            self.gate = asyncio.Event()

        async def start(self):
            await self.gate.wait()

    vad = Slow()
    async with serve(vad=vad, wait=False) as live:
        for _ in range(200):
            try:
                health = await live.client.get("/healthz")
                break
            except httpx2.ConnectError:
                await asyncio.sleep(0.01)
        ready = await live.client.get("/readyz")
        turn = await live.client.post("/v1/turns", json={"text": "hi"})
        vad.gate.set()
        await live.app.state.readiness.wait()
        after = await live.client.get("/readyz")
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert (ready.status_code, ready.json()) == (503, {"status": "starting"})
    assert code(turn) == (503, "starting")
    assert "retry-after" in turn.headers
    assert (after.status_code, after.json()) == (200, {"status": "ready"})


async def test_an_engine_that_cannot_start_is_told_and_everything_is_closed(serve):
    asr = FakeAsr()
    asr.start_error = AsrError("no model here", hint="Look in /somewhere/private.")
    async with serve(asr=asr) as live:
        ready = await live.client.get("/readyz")
        guess = await live.client.get("/readyz", headers={"Authorization": "Bearer guess"})
        nobody = await live.client.get("/readyz", headers={"Authorization": ""})
        turn = await live.client.post("/v1/turns", json={"text": "hi"})
    assert ready.json() == {
        "status": "failed",
        "error": {"code": "asr_failed", "message": "no model here", "hint": "Look in /somewhere/private."},
    }
    for stranger in (guess, nobody):
        assert stranger.status_code == 503
        assert stranger.json()["error"]["code"] == "asr_failed"
        assert "no model here" not in stranger.text
        assert "/home" not in stranger.text
        assert "stackchan doctor" in stranger.json()["error"]["hint"]
    assert code(turn) == (503, "start_failed")
    assert "retry-after" not in turn.headers
    assert "no model here" not in turn.text, "who asks is not known yet"
    assert "stackchan doctor" in turn.json()["error"]["hint"]
    engines: list[FakeEngine] = list(live.engines.all())
    assert [engine.closed for engine in engines] == [1] * 5


async def test_engines_are_started_once_warmed_and_closed(serve):
    async with serve() as live:
        assert [engine.started for engine in live.engines.all()] == [1] * 5
        assert live.engines.llm.warmed[0].role == "system"
    assert [engine.closed for engine in live.engines.all()] == [1] * 5


async def test_the_model_sees_the_conversation_so_far_and_only_its_own(serve):
    async with serve() as live:
        first = (await live.client.post("/v1/turns", json={"text": "一つ目"})).json()
        second = (await live.client.post("/v1/turns", json={"text": "二つ目"})).json()
        other = {"Device-Id": "kitchen"}
        third = (await live.client.post("/v1/turns", json={"text": "台所"}, headers=other)).json()
        fresh = (await live.client.post("/v1/turns", json={"text": "三つ目"}, headers={"Session-Id": "new"})).json()
    prompts = ["\n".join(m.content for m in request.messages[1:]) for request in live.engines.llm.requests]
    assert "一つ目" in prompts[1]
    assert "今日はいい天気だから" in prompts[1]
    assert "一つ目" not in prompts[2]
    assert "一つ目" not in prompts[3]
    assert first["session_id"] == second["session_id"]
    assert len({first["session_id"], third["session_id"], fresh["session_id"]}) == 3
    before, after = live.engines.llm.requests[:2]
    assert after.messages[: len(before.messages)] == before.messages, "the prompt only grows, so that its cache works"


async def test_a_failed_turn_is_not_put_before_the_model(serve):
    async with serve(llm=FakeLlm(scripts=[[LlmError("x")], answer()])) as live:
        await live.client.post("/v1/turns", json={"text": "一つ目"})
        await live.client.post("/v1/turns", json={"text": "二つ目"})
    assert "一つ目" not in "\n".join(m.content for m in live.engines.llm.requests[1].messages)


async def test_the_trace_tells_stages_and_holds_no_words(serve):
    async with serve() as live:
        turn = (await live.client.post("/v1/turns", content=encode_wav(SPEECH, 16_000), headers=WAV)).json()
        trace = (await live.client.get(f"/v1/turns/{turn['turn_id']}/trace")).json()
    names = [span["name"] for span in trace["trace"]["spans"]]
    assert names[:3] == ["receive", "vad", "asr"]
    received, looked = trace["trace"]["spans"][:2]
    assert (received["start_ms"], received["end_ms"] <= looked["start_ms"]) == (0, True)
    assert turn["latency_ms"]["receive"] == round(received["end_ms"])
    assert 0 <= trace["trace"]["speech_start_ms"] < trace["trace"]["speech_end_ms"]
    assert {"llm", "tts"} <= set(names)
    assert trace["trace"]["llm"]["calls"] == 1
    assert "こんにちは" not in json.dumps(trace, ensure_ascii=False)


async def test_the_description_of_the_api_names_every_body_and_error(serve):
    async with serve() as live:
        spec = (await live.client.get("/openapi.json")).json()
        docs = await live.client.get("/docs")
    post = spec["paths"]["/v1/turns"]["post"]
    assert set(post["requestBody"]["content"]) >= {"audio/wav", "audio/flac", "audio/ogg", "application/json"}
    assert set(post["requestBody"]["content"]["application/json"]["schema"]["properties"]) == {"text", "speaker"}
    assert set(post["responses"]) >= {"200", "400", "401", "409", "413", "415", "422", "429", "503"}
    assert "://cdn" not in docs.text, "the page works without the internet"


async def test_nobody_may_sniff_or_frame_the_page(serve):
    async with serve() as live:
        response = await live.client.get("/")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


async def test_a_turn_whose_words_cannot_be_stored_is_refused_and_closed(serve, monkeypatch):
    from server.errors import StorageError
    from server.pipeline.journal import TurnJournal

    async def full(*_):
        raise StorageError("The disk is full.", code="storage_full")

    async with serve() as live:
        with monkeypatch.context() as patch:
            patch.setattr(TurnJournal, "heard", full)
            refused = await live.client.post("/v1/turns", json={"text": "hi"})
        turn = (await live.client.get("/v1/turns/1")).json()
        after = await live.client.post("/v1/turns", json={"text": "hi"})
    assert code(refused) == (507, "storage_full")
    assert (turn["status"], turn["error"]["code"]) == ("failed", "storage_full")
    assert after.status_code == 200
    assert len(live.engines.llm.requests) == 1, "words that were not kept are not answered"


async def test_a_turn_whose_end_cannot_be_stored_is_closed_with_the_next_one(serve, monkeypatch):
    from server.errors import StorageError
    from server.pipeline.journal import TurnJournal
    from server.storage import turns

    async def locked(*_, **__):
        raise StorageError("The database is locked.", retryable=True)

    async with serve() as live:
        with monkeypatch.context() as patch:
            patch.setattr(TurnJournal, "ended", locked)
            patch.setattr(turns, "fail_turn", locked)
            refused = await live.client.post("/v1/turns", json={"text": "一つ目"})
        stuck = (await live.client.get("/v1/turns/1")).json()
        after = (await live.client.post("/v1/turns", json={"text": "二つ目"})).json()
        closed = (await live.client.get("/v1/turns/1")).json()
    assert code(refused) == (500, "storage_failed")
    assert stuck["status"] == "running"
    assert (closed["status"], closed["transcript"]) == ("failed", "一つ目")
    assert after["outcome"] == "ok"
