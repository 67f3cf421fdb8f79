"""Turns that are answered later: 202, asking again, and the sound while it is made."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import numpy as np
import pytest

from server.audio.codec import encode_wav
from server.engines.base import LlmDone, LlmText
from server.errors import LlmError, TtsError
from server.pipeline.runner import TurnRunner
from server.storage import devices, tokens
from tests.devices.conftest import code
from tests.fakes.engines import ANSWER, FakeLlm, FakeTts, answer

pytestmark = pytest.mark.integration

LATER = {"Prefer": "respond-async"}
WAV = {"Content-Type": "audio/wav"}
SILENCE = encode_wav(np.zeros(16_000, np.int16), 16_000)
REPLY = "今日はいい天気だから、散歩に行こうよ。"


def slow_llm(gate: asyncio.Event) -> FakeLlm:
    return FakeLlm(scripts=[[gate, *answer()]])


async def ended(live, turn_id, seconds=10):
    response = await live.client.get(f"/v1/turns/{turn_id}", headers={"Prefer": f"wait={seconds}"})
    assert response.json()["status"] in ("done", "failed"), response.text
    return response.json()


async def test_a_turn_taken_with_202_becomes_what_a_waiting_client_would_have_got(serve):
    async with serve() as live:
        waited = (await live.client.post("/v1/turns", json={"text": "左を見て"})).json()
        accepted = await live.client.post("/v1/turns", json={"text": "左を見て"}, headers=LATER)
        first = accepted.json()
        assert accepted.status_code == 202
        assert accepted.headers["location"] == f"/v1/turns/{first['turn_id']}"
        assert accepted.headers["preference-applied"] == "respond-async"
        assert int(accepted.headers["retry-after"]) >= 1
        assert first["status"] in ("queued", "running")
        assert (first["outcome"], first["transcript"], first["error"]) == (None, "左を見て", None)
        turn = await ended(live, first["turn_id"])
        assert turn["reply"] == REPLY
        changing = ("turn_id", "audio", "latency_ms")
        assert {k: v for k, v in turn.items() if k not in changing} == {
            k: v for k, v in waited.items() if k not in changing
        }
        assert turn["audio"]["duration_ms"] == waited["audio"]["duration_ms"]
        sounds = [
            (await live.client.get(each["audio"]["url"], params={"format": "pcm"})).content for each in (waited, turn)
        ]
    assert len(sounds[0]) == 48 * waited["audio"]["duration_ms"]
    assert sounds[0] == sounds[1]


async def test_a_turn_that_ends_within_the_wait_is_a_plain_200(serve):
    async with serve() as live:
        response = await live.client.post(
            "/v1/turns", json={"text": "hi"}, headers={"Prefer": "respond-async, wait=20"}
        )
    assert response.status_code == 200
    assert response.headers["preference-applied"] == "respond-async, wait=20"
    assert (response.json()["status"], response.json()["reply"]) == ("done", REPLY)


async def test_a_turn_that_does_not_is_202_after_the_wait(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        began = time.monotonic()
        response = await live.client.post("/v1/turns", json={"text": "hi"}, headers={"Prefer": "respond-async, wait=1"})
        waited = time.monotonic() - began
        gate.set()
        turn = await ended(live, response.json()["turn_id"])
    assert response.status_code == 202
    assert 1 <= waited < 5
    assert turn["outcome"] == "ok"


async def test_wait_alone_does_not_change_who_waits_for_the_answer(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        post = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}, headers={"Prefer": "wait=0"}))
        await asyncio.sleep(0.3)
        assert not post.done()
        gate.set()
        response = await post
    assert (response.status_code, response.json()["status"]) == (200, "done")
    assert "preference-applied" not in response.headers


async def test_a_turn_shows_its_words_face_and_speech_before_it_ends(serve):
    thinking, speaking = asyncio.Event(), asyncio.Event()
    text, rest = ANSWER[:-9], ANSWER[-9:]
    script = [thinking, LlmText(text), speaking, LlmText(rest), LlmDone("stop")]
    async with serve(llm=FakeLlm(scripts=[script])) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "散歩は？"}, headers=LATER)).json()
        url = f"/v1/turns/{turn['turn_id']}"
        early = (await live.client.get(url)).json()
        assert (early["status"], early["transcript"], early["reply"]) == ("running", "散歩は？", "")
        assert (early["emotion"], early["action"], early["audio"]) == ("neutral", "none", None)
        thinking.set()
        spoken = await live.client.get(url, params={"until": "speech"}, headers={"Prefer": "wait=10"})
        assert spoken.headers["preference-applied"] == "wait=10"
        assert int(spoken.headers["retry-after"]) >= 1
        seen = spoken.json()
        assert (seen["status"], seen["outcome"], seen["emotion"], seen["action"]) == ("running", None, "happy", "nod")
        assert seen["reply"] == "今日はいい天気だから、"
        assert seen["audio"] == {"url": f"{url}/audio", "format": "wav", "sample_rate": 24000, "duration_ms": None}
        speaking.set()
        done = await ended(live, turn["turn_id"])
    assert (done["status"], done["reply"], done["audio"]["duration_ms"]) == ("done", REPLY, 190)


async def test_asking_again_waits_no_longer_than_it_said(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)).json()
        began = time.monotonic()
        response = await live.client.get(f"/v1/turns/{turn['turn_id']}", headers={"Prefer": "wait=1"})
        assert 1 <= time.monotonic() - began < 5
        assert response.json()["status"] == "running"
        gate.set()
        done = await ended(live, turn["turn_id"])
        began = time.monotonic()
        again = await live.client.get(f"/v1/turns/{turn['turn_id']}", headers={"Prefer": "wait=20"})
        assert time.monotonic() - began < 5, "a turn that has ended is not waited for"
    assert again.json() == done
    assert "retry-after" not in again.headers


async def test_sound_asked_for_before_there_is_any_begins_with_the_first_one(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate), env={"STACKCHAN_LIMITS__RUNNING_TURNS": "1"}) as live:
        other = {"Device-Id": "kitchen"} | LATER
        running = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)).json()
        queued = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=other)).json()
        assert (running["status"], queued["status"]) == ("running", "queued")
        sounds = [
            asyncio.create_task(live.client.get(f"/v1/turns/{turn['turn_id']}/audio", params={"format": "pcm"}))
            for turn in (running, queued)
        ]
        await asyncio.sleep(0.3)
        assert not any(sound.done() for sound in sounds)
        gate.set()
        heard = await asyncio.gather(*sounds)
        turns = [await ended(live, turn["turn_id"]) for turn in (running, queued)]
    for turn, sound in zip(turns, heard, strict=True):
        assert (sound.status_code, len(sound.content)) == (200, 48 * turn["audio"]["duration_ms"])


@pytest.mark.parametrize("kind", ["silence", "mute"])
async def test_sound_of_a_turn_that_gets_none_is_404_in_the_end(serve, kind):
    gate = asyncio.Event()
    tts = FakeTts(error=TtsError("x"))
    tts.wait = gate
    async with serve(tts=tts, llm=slow_llm(gate), env={"STACKCHAN_LIMITS__RUNNING_TURNS": "1"}) as live:
        await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER | {"Device-Id": "kitchen"})
        if kind == "silence":
            response = await live.client.post("/v1/turns", content=SILENCE, headers=LATER | WAV)
        else:
            response = await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)
        turn = response.json()
        assert turn["status"] == "queued"
        sound = asyncio.create_task(live.client.get(f"/v1/turns/{turn['turn_id']}/audio"))
        await asyncio.sleep(0.2)
        assert not sound.done()
        gate.set()
        refused = await sound
        done = await ended(live, turn["turn_id"])
    assert code(refused) == (404, "audio_not_found")
    assert done["audio"] is None
    assert done["outcome"] == ("no_speech" if kind == "silence" else "ok")


async def test_sound_that_does_not_begin_in_a_fair_time_is_to_be_asked_for_again(serve):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        live.app.state.service.speech._first_sound_seconds = 0.2
        turn = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)).json()
        early = await live.client.get(f"/v1/turns/{turn['turn_id']}/audio")
        gate.set()
        await ended(live, turn["turn_id"])
        late = await live.client.get(f"/v1/turns/{turn['turn_id']}/audio")
    assert code(early) == (409, "audio_pending")
    assert early.json()["error"]["retryable"] is True
    assert int(early.headers["retry-after"]) >= 1
    assert late.status_code == 200


async def test_sound_that_has_begun_ends_cleanly_when_the_voice_fails(serve):
    class Hoarse(FakeTts):
        async def synthesize(self, request):
            if request.text.startswith("散歩"):
                raise TtsError("hoarse")
            async for chunk in super().synthesize(request):
                yield chunk

    gate = asyncio.Event()
    script = [LlmText(ANSWER[:-9]), gate, LlmText(ANSWER[-9:]), LlmDone("stop")]
    async with serve(llm=FakeLlm(scripts=[script]), tts=Hoarse()) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)).json()
        async with live.client.stream("GET", f"/v1/turns/{turn['turn_id']}/audio?format=pcm") as response:
            pieces = response.aiter_bytes()
            sound = await anext(pieces)
            gate.set()
            sound += b"".join([piece async for piece in pieces])
        done = await ended(live, turn["turn_id"])
    assert response.status_code == 200
    assert len(sound) == 2 * 240 * len("今日はいい天気だから、")
    assert (done["outcome"], done["error"]["code"], done["audio"]) == ("ok", "tts_failed", None)
    assert done["reply"] == REPLY


async def test_a_turn_that_fails_is_told_to_who_asks_again(serve):
    async with serve(llm=FakeLlm(scripts=[[LlmError("x")]])) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)).json()
        done = await ended(live, turn["turn_id"])
    assert (done["status"], done["outcome"], done["error"]["code"]) == ("failed", "failed", "llm_failed")
    assert done["reply"]


async def test_who_reads_the_sound_slowly_does_not_hold_the_turn(serve):
    gate = asyncio.Event()

    class Talkative(FakeTts):
        async def synthesize(self, request):
            async for chunk in super().synthesize(request):
                for _ in range(100):  # 20 s a clause at 48 kHz: more than sockets keep
                    yield chunk

    async with serve(tts=Talkative(), llm=slow_llm(gate)) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)).json()
        host, port = live.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        token = live.client.headers["authorization"]
        path = f"/v1/turns/{turn['turn_id']}/audio?format=pcm"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n".encode())
        gate.set()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        done = await ended(live, turn["turn_id"])
        after = await live.client.post("/v1/turns", json={"text": "hi"})
        writer.close()
        await writer.wait_closed()
    assert (done["outcome"], done["audio"]["duration_ms"]) == ("ok", 19_000)
    assert after.status_code == 200


async def test_another_devices_turn_cannot_be_asked_for(serve):
    now = datetime.now(UTC)
    async with serve() as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"}, headers=LATER)).json()
        async with live.app.state.service.journal._databases.server() as db:
            await devices.ensure_device(db, "kitchen", now=now)
            token = await tokens.create_token(db, kind="device", device_id="kitchen", now=now)
        theirs = {"Authorization": f"Bearer {token}", "Prefer": "wait=1"}
        for tail in ("", "/audio", "/trace"):
            refused = await live.client.get(f"/v1/turns/{turn['turn_id']}{tail}", headers=theirs)
            assert code(refused) == (404, "turn_not_found")


async def test_a_turn_that_ends_while_it_is_looked_up_is_read_again(serve, monkeypatch):
    gate = asyncio.Event()
    async with serve(llm=slow_llm(gate)) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "左を見て"}, headers=LATER)).json()
        find = TurnRunner.find

        async def find_too_late(runner, turn_id):
            started = await find(runner, turn_id)
            gate.set()
            await started.wait(10)
            return None

        monkeypatch.setattr(TurnRunner, "find", find_too_late)
        assert (await ended(live, turn["turn_id"]))["outcome"] == "ok"
