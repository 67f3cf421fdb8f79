"""`/v1/turns` from outside: what a device sends, gets, and is told when something is wrong."""

from __future__ import annotations

import asyncio
import io
import json
import wave

import av
import httpx2
import numpy as np
import pytest

from server.audio.codec import encode_wav
from server.engines.base import LlmDone, LlmText
from server.errors import AsrError, LlmError, TtsError
from tests.devices.conftest import TOKEN
from tests.fakes.engines import ANSWER, FakeAsr, FakeEngine, FakeLlm, FakeTts, FakeVad, answer

pytestmark = pytest.mark.integration

SPEECH = (16_000 * np.sin(2 * np.pi * 300 * np.arange(16_000) / 16_000)).astype(np.int16)
WAV = {"Content-Type": "audio/wav"}


def encoded(container: str, codec: str, rate_hz: int = 16_000) -> bytes:
    """One second of sound in another format."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate_hz, layout="mono")
        frame = av.AudioFrame.from_ndarray(SPEECH[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = 16_000
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=rate_hz, frame_size=stream.frame_size)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    return file.getvalue()


def code(response) -> tuple[int, str]:
    body = response.json()
    assert set(body["error"]) == {"code", "message", "retryable", "hint"}
    return response.status_code, body["error"]["code"]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("audio/wav", lambda: encode_wav(SPEECH, 16_000)),
        ("audio/pcm;rate=16000", lambda: SPEECH.tobytes()),
        ("audio/flac", lambda: encoded("flac", "flac")),
        ("audio/ogg", lambda: encoded("ogg", "libopus", 48_000)),
        ("audio/mpeg", lambda: encoded("mp3", "libmp3lame")),
    ],
)
async def test_every_audio_format_is_a_turn(serve, content_type, body):
    async with serve() as live:
        response = await live.client.post("/v1/turns", content=body(), headers={"Content-Type": content_type})
    assert response.status_code == 200, response.text
    seen = response.json()
    assert seen["transcript"] == "こんにちは"
    assert (seen["reply"], seen["emotion"], seen["action"]) == (
        "今日はいい天気だから、散歩に行こうよ。",
        "happy",
        "nod",
    )
    assert (seen["status"], seen["outcome"], seen["error"], seen["language"]) == ("done", "ok", None, "ja")
    assert seen["audio"] == {
        "url": f"/v1/turns/{seen['turn_id']}/audio",
        "format": "wav",
        "sample_rate": 24000,
        "duration_ms": 310,
    }
    assert seen["memory"] == {"searched": False, "memory_ids": [], "source_checked": False}
    assert {"asr", "llm", "first_audio", "total"} <= set(seen["latency_ms"])
    assert len(live.engines.asr.heard[0]) == pytest.approx(16_000, rel=0.1)


async def test_text_is_a_turn_too(serve):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": "左を見て"})
        again = await live.client.get(f"/v1/turns/{response.json()['turn_id']}")
    assert response.json()["transcript"] == "左を見て"
    assert again.json() == response.json()


async def test_silence_is_200_with_no_speech_and_no_model_call(serve):
    async with serve() as live:
        response = await live.client.post("/v1/turns", content=encode_wav(SPEECH * 0, 16_000), headers=WAV)
        seen = response.json()
        sound = await live.client.get(f"/v1/turns/{seen['turn_id']}/audio")
    assert response.status_code == 200
    assert (seen["outcome"], seen["reply"], seen["audio"], seen["error"]) == ("no_speech", "", None, None)
    assert live.engines.llm.requests == []
    assert code(sound) == (404, "audio_not_found")


@pytest.mark.parametrize(
    ("engines", "error_code", "outcome"),
    [
        ({"asr": FakeAsr(error=AsrError("x"))}, "asr_failed", "failed"),
        ({"llm": FakeLlm(scripts=[[LlmError("x")]])}, "llm_failed", "failed"),
        ({"tts": FakeTts(error=TtsError("x"))}, "tts_failed", "ok"),
    ],
)
async def test_a_failing_engine_is_an_answer_not_a_crash(serve, engines, error_code, outcome):
    async with serve(**engines) as live:
        response = await live.client.post("/v1/turns", content=encode_wav(SPEECH, 16_000), headers=WAV)
        again = await live.client.get(f"/v1/turns/{response.json()['turn_id']}")
    seen = response.json()
    assert (response.status_code, seen["outcome"], seen["error"]["code"]) == (200, outcome, error_code)
    assert seen["reply"]
    assert (seen["audio"] is None) == (error_code == "tts_failed")
    assert again.json() == seen


# --- sound ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [16000, 24000])
async def test_the_reply_as_wav(serve, rate):
    async with serve() as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"})).json()
        response = await live.client.get(f"/v1/turns/{turn['turn_id']}/audio", params={"rate": rate})
    assert response.headers["content-type"] == "audio/wav"
    assert int(response.headers["content-length"]) == len(response.content)
    with wave.open(io.BytesIO(response.content)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (rate, 1, 2)
        assert sound.getnframes() == round(rate * turn["audio"]["duration_ms"] / 1000)


async def test_the_reply_as_pcm_and_opus(serve):
    async with serve() as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"})).json()
        url = f"/v1/turns/{turn['turn_id']}/audio"
        pcm = await live.client.get(url, params={"format": "pcm", "rate": 16000})
        opus = await live.client.get(url, params={"format": "opus"})
    assert pcm.headers["content-type"] == "audio/pcm;rate=16000;channels=1"
    samples = np.frombuffer(pcm.content, "<i2")
    assert len(samples) == 16 * turn["audio"]["duration_ms"]
    assert np.median(samples) == pytest.approx(1000, abs=5)
    with av.open(io.BytesIO(opus.content), format="ogg") as file:
        seconds = sum(frame.samples / frame.sample_rate for frame in file.decode(audio=0))
    assert seconds == pytest.approx(turn["audio"]["duration_ms"] / 1000, abs=0.05)


async def test_sound_streams_while_the_turn_still_runs(serve):
    gate = asyncio.Event()
    text, rest = ANSWER[:-9], ANSWER[-9:]
    async with serve(llm=FakeLlm(scripts=[[LlmText(text), gate, LlmText(rest), LlmDone("stop")]])) as live:
        post = asyncio.create_task(live.client.post("/v1/turns", json={"text": "hi"}))
        turn_id = await first_turn(live)
        running = (await live.client.get(f"/v1/turns/{turn_id}")).json()
        assert (running["status"], running["outcome"], running["transcript"]) == ("running", None, "hi")
        async with live.client.stream("GET", f"/v1/turns/{turn_id}/audio?format=pcm") as response:
            pieces = response.aiter_bytes()
            first = await asyncio.wait_for(anext(pieces), 5)
            assert first, "sound arrives before the model has finished"
            assert not post.done()
            gate.set()
            sound = first + b"".join([piece async for piece in pieces])
        turn = (await post).json()
    assert len(sound) == 48 * turn["audio"]["duration_ms"]


async def first_turn(live) -> int:
    """The id of the turn that has just begun; ids of a fresh server begin low."""
    for _ in range(200):
        for turn_id in range(1, 5):
            if (await live.client.get(f"/v1/turns/{turn_id}")).status_code == 200:
                return turn_id
        await asyncio.sleep(0.01)
    raise AssertionError("no turn began")


async def test_sound_is_kept_for_its_time_only(serve):
    async with serve(env={"STACKCHAN_SPEECH__KEEP_MINUTES": "0"}) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"})).json()
        await asyncio.sleep(0.02)
        gone = await live.client.get(f"/v1/turns/{turn['turn_id']}/audio")
        again = (await live.client.get(f"/v1/turns/{turn['turn_id']}")).json()
    assert code(gone) == (410, "audio_expired")
    assert again["audio"] is None
    assert again["reply"] == turn["reply"]


@pytest.mark.parametrize("query", ["format=mp3", "rate=44100", "rate=abc"])
async def test_an_unknown_format_or_rate_is_refused(serve, query):
    async with serve() as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"})).json()
        response = await live.client.get(f"/v1/turns/{turn['turn_id']}/audio?{query}")
    assert code(response) == (422, "body_invalid")


# --- who may what --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (None, (401, "token_missing")),
        ("", (401, "token_missing")),
        ("Bearer", (401, "token_missing")),
        ("Bearer wrong", (401, "token_invalid")),
        (f"Basic {TOKEN}", (401, "token_invalid")),
        (f"Bearer {TOKEN}x", (401, "token_invalid")),
        ("Bearer トークン".encode(), (401, "token_invalid")),
    ],
)
async def test_without_the_right_token_nothing_is_answered(serve, authorization, expected):
    async with serve() as live, httpx2.AsyncClient(base_url=live.url) as stranger:
        headers = {"Device-Id": "desk"} | ({"Authorization": authorization} if authorization is not None else {})
        for request in (
            stranger.build_request("POST", "/v1/turns", json={"text": "hi"}, headers=headers),
            stranger.build_request("GET", "/v1/turns/1", headers=headers),
            stranger.build_request("GET", "/v1/turns/1/audio", headers=headers),
            stranger.build_request("GET", "/v1/turns/1/trace", headers=headers),
        ):
            response = await stranger.send(request)
            assert code(response) == expected
            assert response.headers["www-authenticate"] == "Bearer"
    assert live.engines.llm.requests == []


@pytest.mark.parametrize("device", ["", "a b", "x" * 65, "ロボット".encode(), "../etc"])
async def test_a_bad_device_id_is_named(serve, device):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": "hi"}, headers={"Device-Id": device})
    assert code(response) == (400, "device_id_invalid")


async def test_a_missing_device_id_is_named(serve):
    async with serve() as live, httpx2.AsyncClient(base_url=live.url) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        response = await client.post("/v1/turns", json={"text": "hi"}, headers=headers)
    assert code(response) == (400, "device_id_missing")


@pytest.mark.parametrize("label", ["", "a b", "x" * 129])
async def test_a_bad_session_label_is_named(serve, label):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": "hi"}, headers={"Session-Id": label})
    assert code(response) == (400, "session_id_invalid")


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"not audio at all", "audio/wav", (422, "audio_invalid")),
        (b"RIFF", "audio/wav", (422, "audio_invalid")),
        (b"", "audio/wav", (422, "audio_empty")),
        (b"", "audio/pcm;rate=16000", (422, "audio_empty")),
        (b"\x00" * 320, "audio/pcm;rate=banana", (415, "audio_unsupported")),
        (b"\x00" * 320, "video/mp4", (415, "body_unsupported")),
        (b"<html></html>", "text/html", (415, "body_unsupported")),
        (b"{", "application/json", (422, "body_invalid")),
        (b"[]", "application/json", (422, "body_invalid")),
        (b'{"text": 5}', "application/json", (422, "body_invalid")),
        (b'{"text": "hi", "extra": 1}', "application/json", (422, "body_invalid")),
        (b'{"text": "  "}', "application/json", (422, "text_empty")),
        (json.dumps({"text": "あ" * 2001}).encode(), "application/json", (413, "text_too_long")),
        (b"\x00\x01" * 16_000 * 61, "audio/pcm;rate=16000", (413, "audio_too_long")),
        (b"\x00" * (4 * 1024**2 + 1), "audio/pcm;rate=48000", (413, "audio_too_large")),
    ],
)
async def test_bad_input_gets_a_code_and_no_turn(serve, body, content_type, expected):
    async with serve() as live:
        response = await live.client.post("/v1/turns", content=body, headers={"Content-Type": content_type})
        good = await live.client.post("/v1/turns", json={"text": "hi"})
    assert code(response) == expected
    assert good.status_code == 200
    assert len(live.engines.llm.requests) == 1


async def test_a_body_without_length_is_cut_at_the_limit(serve):
    async def endless():
        for _ in range(200):
            yield b"\x00" * 65_536

    async with serve() as live:
        response = await live.client.post("/v1/turns", content=endless(), headers={"Content-Type": "audio/wav"})
    assert code(response) == (413, "audio_too_large")


@pytest.mark.parametrize("turn_id", ["999", "0", "-1", str(2**63), str(10**40)])
async def test_an_unknown_turn_is_404(serve, turn_id):
    async with serve() as live:
        for tail in ("", "/audio", "/trace"):
            response = await live.client.get(f"/v1/turns/{turn_id}{tail}")
            assert code(response) == (404, "turn_not_found")


async def test_a_turn_number_that_is_no_number(serve):
    async with serve() as live:
        assert code(await live.client.get("/v1/turns/abc")) == (422, "body_invalid")


@pytest.mark.parametrize(
    "text", ["😀👨‍👩‍👧", "\u202eabc", "a\x00b", "é" * 500, "', DROP TABLE turns; --", "\u3000あ\u3000"]
)
async def test_odd_text_is_kept_as_it_was(serve, text):
    async with serve() as live:
        response = await live.client.post("/v1/turns", json={"text": text})
        again = await live.client.get(f"/v1/turns/{response.json()['turn_id']}")
    assert response.status_code == 200
    assert again.json()["transcript"] == response.json()["transcript"]
    assert response.json()["transcript"].replace("\x00", "") == text.strip().replace("\x00", "")


async def test_a_lone_surrogate_is_no_crash(serve):
    async with serve() as live:
        body = b'{"text": "a\\ud800b"}'
        response = await live.client.post("/v1/turns", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 422)
    assert "internal" not in response.text


# --- at once -------------------------------------------------------------------------------------------------------


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
    async with serve(llm=FakeLlm(scripts=[[gate, *answer()]]), env={"STACKCHAN_LIMITS__QUEUED_TURNS": "1"}) as live:
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


# --- start, context, trace -----------------------------------------------------------------------------------------


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
    asr.start_error = AsrError("no model here")
    async with serve(asr=asr) as live:
        ready = await live.client.get("/readyz")
        turn = await live.client.post("/v1/turns", json={"text": "hi"})
    assert ready.json() == {"status": "failed", "error": {"code": "asr_failed", "message": "no model here"}}
    assert code(turn) == (503, "starting")
    assert "no model here" in turn.json()["error"]["message"]
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
    assert names[:2] == ["vad", "asr"]
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
