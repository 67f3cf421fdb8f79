"""Any `/v1/audio/speech` as the voice: sound while it arrives, in the form the server has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from server.audio.codec import wav_header
from server.config import load_settings
from server.engines.base import SpeechRequest
from server.engines.registry import engine_names, find_engine
from server.errors import ConfigError, TtsError
from server.persona import default_persona_path, load_persona
from tests.fakes.engine_servers import RATE_HZ, TONE, WAV, SpeechServer, wav
from tests.fakes.http_replies import broken_off, fail, in_pieces, raw_answer
from tests.fakes.http_server import Connection, running

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[SpeechServer]:
    with running(SpeechServer()) as started:
        yield started


@asynccontextmanager
async def voice(server: SpeechServer, **tts: Any) -> AsyncIterator[Any]:
    settings = load_settings({}, tts={"base_url": server.url, "timeout_seconds": 10} | tts)
    made = find_engine(settings, "tts").build(settings, load_persona(default_persona_path()))
    await made.start()
    try:
        yield made
    finally:
        await made.close()
        await server.until_idle()


async def say(made: Any, text: str = "やあ。Hello!", language: str = "ja") -> tuple[np.ndarray, set[int]]:
    chunks = [chunk async for chunk in made.synthesize(SpeechRequest(text, language, "happy"))]
    return np.concatenate([chunk.samples for chunk in chunks]), {chunk.sample_rate_hz for chunk in chunks}


async def test_a_reply_is_asked_for_as_it_is(server: SpeechServer) -> None:
    async with voice(server) as made:
        await say(made)
    async with voice(server, model="kokoro", voice="af_sky", format="pcm") as made:
        await say(made, "Hi \ud83d there😀.", "en")
    assert [request.json for request in server.asked] == [
        {"model": "tts-1", "response_format": "wav", "input": "やあ。Hello!"},
        {"model": "kokoro", "response_format": "pcm", "voice": "af_sky", "input": "Hi there ."},
    ]


@pytest.mark.parametrize("length", [0, None, 0x7FFF_FFDB], ids=["zero", "all-bits", "largest"])
@pytest.mark.parametrize("step", [1001, 4096])
async def test_a_stream_without_a_length_is_the_whole_sound(
    server: SpeechServer, length: int | None, step: int
) -> None:
    body = wav_header(RATE_HZ, length) + TONE.tobytes()
    server.play(in_pieces(body, {"Content-Type": "audio/wav"}, step=step))
    async with voice(server) as made:
        samples, rates = await say(made)
    assert np.array_equal(samples, TONE)
    assert rates == {RATE_HZ}


async def test_raw_samples_have_the_rate_of_the_settings_however_they_are_cut(server: SpeechServer) -> None:
    server.play(in_pieces(TONE.tobytes(), {"Content-Type": "application/octet-stream"}, step=333))
    async with voice(server, format="pcm") as made:
        assert (await say(made))[1] == {24_000}
    async with voice(server, format="pcm", pcm_sample_rate_hz=RATE_HZ) as made:
        samples, rates = await say(made)
    assert np.array_equal(samples, TONE)
    assert rates == {RATE_HZ}


async def test_a_wav_file_in_place_of_raw_samples_is_understood(server: SpeechServer) -> None:
    async with voice(server, format="pcm") as made:
        samples, rates = await say(made)
    assert np.array_equal(samples, TONE)
    assert rates == {RATE_HZ}


@pytest.mark.parametrize("format", ["wav", "pcm"])
async def test_it_is_heard_before_its_end(server: SpeechServer, format: str) -> None:
    body = (wav_header(24_000, None) if format == "wav" else b"") + TONE.tobytes()
    kind = {"Content-Type": f"audio/{format}"}

    async def half(connection: Connection) -> None:
        await connection.begin(200, kind)
        await connection.piece(body[:5001])
        await connection.server.hold_here()
        await connection.piece(body[5001:])
        await connection.end()

    server.play(half)
    async with voice(server, format=format) as made:
        chunks = made.synthesize(SpeechRequest("やあ。", "ja"))
        first = await anext(chunks)
        assert len(first.samples) > 2000
        server.release()
        rest = [chunk.samples async for chunk in chunks]
    assert np.array_equal(np.concatenate([first.samples, *rest]), TONE)


async def test_pieces_of_a_few_bytes_become_chunks_that_are_worth_playing(server: SpeechServer) -> None:
    server.play(in_pieces(WAV, {"Content-Type": "audio/wav"}, step=97))
    async with voice(server) as made:
        chunks = [chunk async for chunk in made.synthesize(SpeechRequest("やあ。", "ja"))]
    assert all(chunk.duration_seconds >= 0.04 for chunk in chunks[:-1])
    assert len(chunks) <= 5


async def test_what_was_heard_before_a_break_stays_and_the_break_is_told(server: SpeechServer) -> None:
    server.play(broken_off(WAV[:9001], {"Content-Type": "audio/wav"}))
    heard = []

    async def listen(made: Any) -> None:
        async for chunk in made.synthesize(SpeechRequest("やあ。", "ja")):
            heard.append(chunk)

    async with voice(server) as made:
        with pytest.raises(TtsError) as caught:
            await listen(made)
    assert caught.value.code == "tts_cut"
    assert heard
    assert len(server.asked) == 1


async def test_a_wav_file_that_ends_too_soon_is_a_break_even_if_the_connection_is_whole(server: SpeechServer) -> None:
    server.play(raw_answer(200, WAV[:9001], {"Content-Type": "audio/wav"}))
    async with voice(server) as made:
        with pytest.raises(TtsError) as caught:
            await say(made)
    assert caught.value.code == "tts_cut"


@pytest.mark.parametrize("kind", ["audio/mpeg", "audio/ogg"])
async def test_compressed_sound_is_refused_with_what_to_do(server: SpeechServer, kind: str) -> None:
    server.play(raw_answer(200, b"ID3\x04\x00" + b"\xff" * 500, {"Content-Type": kind}))
    async with voice(server, format="pcm") as made:
        with pytest.raises(TtsError) as caught:
            await say(made)
    assert caught.value.code == "tts_refused"
    assert kind in caught.value.message
    assert "STACKCHAN_TTS__FORMAT" in (caught.value.hint or "")


async def test_a_text_without_words_is_not_asked_for_and_one_without_end_is_refused(server: SpeechServer) -> None:
    async with voice(server) as made:
        assert [chunk async for chunk in made.synthesize(SpeechRequest("😀…", "ja"))] == []
        with pytest.raises(TtsError):
            await say(made, "あ" * 3000)
    assert server.requests == []


async def test_sentences_of_several_robots_do_not_wait_for_each_other(server: SpeechServer) -> None:
    async def together(connection: Connection) -> None:
        if len(server.asked) == 3:
            server.release()
        await connection.server.hold_here()
        await wav()(connection)

    server.play(together)
    async with voice(server) as made:
        async with asyncio.timeout(5):
            await asyncio.gather(*(say(made) for _ in range(3)))


async def test_a_missing_voice_is_told_as_the_server_tells_it(server: SpeechServer) -> None:
    server.play(fail(400, "voice: field required", code="missing"))
    async with voice(server) as made:
        with pytest.raises(TtsError) as caught:
            await say(made)
    assert "voice: field required" in caught.value.message


def test_an_address_chooses_it_unless_the_profiles_voice_is_a_server_too() -> None:
    url = "http://127.0.0.1:1/v1"
    assert engine_names(load_settings({}, tts={"base_url": url}))["tts"] == "openai-speech"
    assert engine_names(load_settings({}, profile="qwen", tts={"base_url": url}))["tts"] == "irodori"
    assert engine_names(load_settings({}, tts={"base_url": url, "engine": "voicevox"}))["tts"] == "voicevox"


@pytest.mark.parametrize(
    ("tts", "name"),
    [
        ({"engine": "openai-speech"}, "STACKCHAN_TTS__BASE_URL"),
        ({"base_url": "http://:1/v1"}, "STACKCHAN_TTS__BASE_URL"),
        ({"base_url": "http://box/v1", "api_key": "two words"}, "STACKCHAN_TTS__API_KEY"),
    ],
)
def test_what_cannot_work_names_the_setting(tts: dict[str, Any], name: str) -> None:
    settings = load_settings({}, tts=tts)
    with pytest.raises(ConfigError) as caught:
        find_engine(settings, "tts").build(settings, load_persona(default_persona_path()))
    assert name in caught.value.message
    assert caught.value.hint
