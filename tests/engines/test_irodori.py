"""Irodori-TTS as the voice: what it is asked, one sentence at a time, and what becomes of those nobody wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from server.config import load_settings
from server.engines.base import Need, SpeechRequest
from server.engines.registry import engine_names, find_engine
from server.engines.tts.endpoints import resolve_voice_server
from server.engines.tts.irodori import IrodoriTts
from server.engines.tts.mixed import MixedTts
from server.errors import EngineError, TtsError
from server.persona import default_persona_path, load_persona
from tests.fakes.engine_servers import RATE_HZ, TONE, IrodoriServer, events, sound_event, wav
from tests.fakes.http_replies import fail, never
from tests.fakes.http_server import Connection, running

pytestmark = pytest.mark.integration

PERSONA = load_persona(default_persona_path())


@pytest.fixture
def server() -> Iterator[IrodoriServer]:
    with running(IrodoriServer()) as started:
        yield started


@asynccontextmanager
async def voice(server: IrodoriServer, **options: Any) -> AsyncIterator[IrodoriTts]:
    settings = load_settings({}, profile="qwen", tts={"base_url": server.url})
    options = {"emoji": PERSONA.voice_emoji, "timeout_seconds": 10.0} | options
    made = IrodoriTts(resolve_voice_server("irodori", settings.tts), **options)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
        await server.until_idle()


async def say(made: Any, text: str, emotion: str = "neutral", need: Need = Need.NOW) -> np.ndarray:
    chunks = [chunk async for chunk in made.synthesize(SpeechRequest(text, "ja", emotion, need))]
    assert {chunk.sample_rate_hz for chunk in chunks} <= {RATE_HZ}
    return np.concatenate([chunk.samples for chunk in chunks]) if chunks else np.zeros(0, np.int16)


def slowly(seconds: float = 0.05) -> Any:
    """A synthesis that takes a while; `overlaps` counts those that ran beside another one."""

    async def behave(connection: Connection) -> None:
        behave.running += 1  # type: ignore[attr-defined]
        behave.most = max(behave.most, behave.running)  # type: ignore[attr-defined]
        try:
            await asyncio.sleep(seconds)
            await events(sound_event(), {"chunks": 1})(connection)
        finally:
            behave.running -= 1  # type: ignore[attr-defined]

    behave.running = behave.most = 0  # type: ignore[attr-defined]
    return behave


async def test_a_sentence_is_asked_for_with_the_servers_own_fields(server: IrodoriServer) -> None:
    async with voice(server, seed=11, voice="sample") as made:
        assert np.array_equal(await say(made, "こんにちは。"), TONE)
    assert server.asked[0].path == "/v1/audio/speech"
    assert server.asked[0].json == {
        "model": "irodori-tts",
        "input": "こんにちは。",
        "voice": "sample",
        "response_format": "wav",
        "stream_format": "sse",
        "irodori": {"seed": 11, "chunking_enabled": False},
    }


@pytest.mark.parametrize(
    ("emotion", "begin"),
    [
        ("neutral", ""),
        ("happy", "😊"),
        ("sad", "😭"),
        ("angry", "😠"),
        ("doubt", "🤔"),
        ("sleepy", "😪"),
        ("surprised", "😲"),
        ("nobody's", ""),
    ],
)
async def test_a_feeling_stands_before_every_sentence(server: IrodoriServer, emotion: str, begin: str) -> None:
    async with voice(server) as made:
        await say(made, "うん😀、そうだよ。またね。", emotion)
    assert server.said == [f"{begin}うん 、そうだよ。", f"{begin}またね。"]


@pytest.mark.parametrize("text", ["", "…", "😀🎉", "\ud83d", "   \n"])
async def test_what_makes_no_sound_is_not_asked_for(server: IrodoriServer, text: str) -> None:
    async with voice(server) as made:
        assert len(await say(made, text, "happy")) == 0
    assert server.requests == []


async def test_an_older_server_is_asked_for_plain_files_from_then_on(server: IrodoriServer) -> None:
    server.streams = False
    async with voice(server) as made:
        for _ in range(2):
            assert np.array_equal(await say(made, "やあ。"), TONE)
    assert ["stream_format" in request.json for request in server.requests] == [True, False, False]


async def test_a_server_that_passes_over_what_it_does_not_know_is_understood(server: IrodoriServer) -> None:
    server.play(wav())
    async with voice(server) as made:
        assert np.array_equal(await say(made, "やあ。"), TONE)


async def test_a_voice_it_does_not_have_is_told(server: IrodoriServer) -> None:
    async with voice(server, voice="mei") as made:
        with pytest.raises(TtsError) as caught:
            await say(made, "やあ。")
    assert caught.value.code == "tts_refused"
    assert "mei" in caught.value.message


FULL = {"error": {"message": "Synthesis queue is full. Retry after a moment.", "code": "synthesis_queue_timeout"}}


async def test_a_full_queue_among_the_events_is_waited_for(server: IrodoriServer) -> None:
    server.play(events(FULL), fail(503, "Model is still loading."), events(sound_event(), {"chunks": 1}))
    async with voice(server) as made:
        assert np.array_equal(await say(made, "やあ。"), TONE)
    assert len(server.asked) == 3


async def test_a_server_that_says_when_is_asked_again_then_and_not_before(server: IrodoriServer) -> None:
    server.play(fail(503, retry_after="0.3"), wav())
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with voice(server) as made:
        assert np.array_equal(await say(made, "やあ。"), TONE)
        assert loop.time() - begun >= 0.3
        server.play(fail(503, retry_after="60"))
        with pytest.raises(TtsError) as caught:
            await say(made, "やあ。")
    assert (caught.value.code, caught.value.retry_after_seconds) == ("tts_overloaded", 60), "nobody waits in vain"
    assert len(server.asked) == 3


async def test_a_queue_that_stays_full_is_left_in_time(server: IrodoriServer) -> None:
    server.play(events(FULL))
    async with voice(server, timeout_seconds=1.0) as made:
        with pytest.raises(TtsError) as caught:
            await say(made, "やあ。")
    assert (caught.value.code, caught.value.retryable) == ("tts_overloaded", True)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([sound_event()], "tts_cut"),
        ([], "tts_cut"),
        ([{"error": {"message": "died", "code": "stream_error"}}], "tts_failed"),
        ([{"audio_base64": "!!!"}, {"chunks": 1}], "tts_failed"),
        ([{"audio_base64": "UklGRg=="}, {"chunks": 1}], "tts_cut"),
    ],
)
async def test_events_that_are_not_whole_are_an_error(server: IrodoriServer, values: list[Any], code: str) -> None:
    server.play(events(*values))
    async with voice(server) as made:
        with pytest.raises(TtsError) as caught:
            await say(made, "やあ。")
    assert caught.value.code == code


async def test_one_sentence_is_on_the_way_and_the_most_urgent_is_next(server: IrodoriServer) -> None:
    behave = slowly()
    server.play(behave)
    async with voice(server) as made:
        first = asyncio.create_task(say(made, "はじめ。"))
        await server.until_asked()
        kept = asyncio.create_task(say(made, "あとで。", need=Need.KEPT))
        soon = asyncio.create_task(say(made, "つぎ。", need=Need.NEXT))
        await asyncio.sleep(0.01)
        now = asyncio.create_task(say(made, "いま。", need=Need.NOW))
        await asyncio.gather(first, kept, soon, now)
    assert behave.most == 1
    assert server.said == ["はじめ。", "いま。", "つぎ。", "あとで。"]


async def test_what_nobody_wants_any_more_is_never_sent(server: IrodoriServer) -> None:
    server.play(slowly(0.1))
    async with voice(server) as made:
        first = asyncio.create_task(say(made, "はじめ。"))
        await server.until_asked()
        dropped = [asyncio.create_task(say(made, f"{number}番。")) for number in range(5)]
        await asyncio.sleep(0.01)
        for task in dropped:
            task.cancel()
        last = await say(made, "さいご。")
        assert np.array_equal(last, await first)
    assert server.said == ["はじめ。", "さいご。"]


async def test_an_answer_that_was_broken_off_is_not_heard_and_keeps_nobody_waiting(server: IrodoriServer) -> None:
    server.play(never(), events(sound_event(), {"chunks": 1}))
    async with voice(server) as made:
        aborted = asyncio.create_task(say(made, "とめて。"))
        await server.until_asked()
        aborted.cancel()
        await asyncio.gather(aborted, return_exceptions=True)
        await server.until_idle()
        async with asyncio.timeout(5):
            assert np.array_equal(await say(made, "つぎ。"), TONE)


# --- as the profile's voice ---


def test_the_real_set_up_speaks_with_it() -> None:
    settings = load_settings({}, profile="qwen")
    assert engine_names(settings)["tts"] == "irodori"
    made = find_engine(settings, "tts").build(settings, PERSONA)
    assert (made.name, made._engines["ja"]._service.endpoint.base_url) == ("irodori", "http://127.0.0.1:8088/v1")
    assert list(made.capabilities.languages) == ["ja", "en"]


def test_english_is_hibaris_the_same_voices_or_told_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def languages(**tts: Any) -> list[str]:
        settings = load_settings({}, profile="qwen", tts=tts)
        made = find_engine(settings, "tts").build(settings, PERSONA)
        assert isinstance(made, MixedTts)
        return list(made.capabilities.languages)

    assert languages(english_engine="same") == ["ja"]
    assert languages(english_engine="hibari") == ["ja", "en"]
    monkeypatch.setattr("server.engines.servers._is_installed", lambda package: False)
    assert languages() == ["ja"]
    with pytest.raises(EngineError) as caught:
        languages(english_engine="hibari")
    assert (caught.value.code, "tts.english_engine" in (caught.value.hint or "")) == ("engine_unavailable", True)


async def test_without_an_english_voice_it_says_english_too_and_latin_words_in_kana(server: IrodoriServer) -> None:
    settings = load_settings({}, profile="qwen", tts={"base_url": server.url, "english_engine": "same"})
    made = find_engine(settings, "tts").build(settings, PERSONA)
    await made.start()
    try:
        request = SpeechRequest("StackChanだよ。I am here.", "ja", "happy")
        assert {chunk.sample_rate_hz async for chunk in made.synthesize(request)} == {24_000}
    finally:
        await made.close()
    assert server.said == ["😊スタックチャンだよ。", "😊I am here."]
