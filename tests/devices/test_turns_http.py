"""`/v1/turns` from outside: what a device sends, gets, and is told when something is wrong."""

from __future__ import annotations

import asyncio
import io
import wave

import av
import numpy as np
import pytest

from server.audio.codec import encode_wav
from server.engines.base import LlmDone, LlmText
from server.errors import AsrError, LlmError, TtsError
from tests.devices.conftest import code, first_turn
from tests.fakes.engines import ANSWER, FakeAsr, FakeLlm, FakeTts

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
        "duration_ms": 190,
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


async def test_speech_comes_at_the_rate_it_was_made_unless_another_is_asked_for(serve):
    async with serve(env={"STACKCHAN_TTS__SPEECH_SAMPLE_RATE_HZ": "16000"}) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"})).json()
        plain = await live.client.get(turn["audio"]["url"])
        asked = await live.client.get(turn["audio"]["url"], params={"rate": 24000})
    assert turn["audio"]["sample_rate"] == 16_000
    with wave.open(io.BytesIO(plain.content)) as sound:
        assert sound.getframerate() == 16_000
    with wave.open(io.BytesIO(asked.content)) as sound:
        assert sound.getframerate() == 24_000


async def test_speech_the_disk_does_not_take_is_still_heard(serve, tmp_path):
    async with serve() as live:
        (tmp_path / "data" / "speech").write_text("in the way")
        turn = (await live.client.post("/v1/turns", json={"text": "hi"})).json()
        response = await live.client.get(turn["audio"]["url"], params={"format": "pcm"})
    assert response.status_code == 200
    assert len(response.content) == 48 * turn["audio"]["duration_ms"]
