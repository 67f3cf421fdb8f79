"""VOICEVOX and AivisSpeech as the voice: which speaker and style say a sentence, and that nothing else is changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from server.config import load_settings
from server.engines.base import SpeechRequest
from server.engines.registry import find_engine
from server.engines.tts.endpoints import resolve_voice_server
from server.engines.tts.voicevox import VoicevoxTts, read_styles
from server.errors import TtsError
from server.persona import default_persona_path, load_persona
from tests.fakes.engine_servers import RATE_HZ, TONE, VoicevoxServer
from tests.fakes.http_server import running

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[VoicevoxServer]:
    with running(VoicevoxServer()) as started:
        yield started


@asynccontextmanager
async def voice(server: VoicevoxServer, **options: Any) -> AsyncIterator[VoicevoxTts]:
    settings = load_settings({}, tts={"base_url": server.url})
    made = VoicevoxTts("voicevox", resolve_voice_server("voicevox", settings.tts), timeout_seconds=10.0, **options)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
        await server.until_idle()


async def say(made: Any, text: str = "やあ。", emotion: str = "neutral") -> np.ndarray:
    chunks = [chunk async for chunk in made.synthesize(SpeechRequest(text, "ja", emotion))]
    assert {chunk.sample_rate_hz for chunk in chunks} <= {RATE_HZ}
    return np.concatenate([chunk.samples for chunk in chunks]) if chunks else np.zeros(0, np.int16)


async def test_a_sentence_is_read_and_then_spoken_as_the_server_reads_it(server: VoicevoxServer) -> None:
    async with voice(server) as made:
        assert np.array_equal(await say(made, "元気？ またね。"), np.concatenate([TONE, TONE]))
    assert server.said == ["元気?", "またね。"]
    assert server.styles == [2, 2], "the first speaker's first style"
    assert [request.path.partition("?")[0] for request in server.requests] == [
        "/speakers",
        *("/audio_query", "/synthesis") * 2,
    ]
    assert server.asked[0].json["speedScale"] == 1


@pytest.mark.parametrize(
    ("named", "styles", "emotion", "found"),
    [
        (None, {}, "happy", 2),
        ("四国めたん/あまあま", {}, "neutral", 0),
        ("四国めたん", {"happy": "あまあま"}, "happy", 0),
        ("四国めたん", {"happy": "あまあま"}, "sad", 2),
        ("四国めたん", {"happy": "32"}, "happy", 32),
        ("四国めたん", {"happy": "白上虎太郎/わーい"}, "happy", 32),
        ("四国めたん", {"happy": "ない"}, "happy", 2),
        ("白上虎太郎", {}, "neutral", 12),
        ("白上虎太郎", {}, "happy", 32),
        ("白上虎太郎", {}, "sad", 35),
        ("白上虎太郎", {}, "surprised", 12),
        ("35", {}, "neutral", 35),
        ("35", {}, "happy", 32),
    ],
)
async def test_a_feeling_is_another_style_of_the_speaker(
    server: VoicevoxServer, named: str | None, styles: dict[str, str], emotion: str, found: int
) -> None:
    async with voice(server, voice=named, styles=styles) as made:
        await say(made, emotion=emotion)
    assert server.styles == [found]


@pytest.mark.parametrize(
    ("named", "shown"),
    [("ずんだもん", "四国めたん, 白上虎太郎"), ("白上虎太郎/怒り", "白上虎太郎/わーい"), ("3012", "四国めたん")],
)
async def test_a_voice_it_does_not_have_is_told_with_those_it_has(
    server: VoicevoxServer, named: str, shown: str
) -> None:
    async with voice(server, voice=named) as made:
        with pytest.raises(TtsError) as caught:
            await say(made)
    assert caught.value.code == "tts_refused"
    assert named in caught.value.message
    assert shown in (caught.value.hint or "")


@pytest.mark.parametrize("speakers", [[], {}, None, "no", [{"name": "a"}], [{"name": 3, "styles": [{"id": "x"}]}]])
async def test_a_server_without_speakers_is_told(server: VoicevoxServer, speakers: Any) -> None:
    server.speakers = speakers
    assert read_styles(speakers) == []
    async with voice(server) as made:
        with pytest.raises(TtsError) as caught:
            await say(made)
        assert caught.value.code == "tts_refused"
        server.speakers = VoicevoxServer().speakers
        assert np.array_equal(await say(made), TONE), "asked for again"


async def test_a_server_that_is_away_at_the_start_is_found_later(server: VoicevoxServer, caplog: Any) -> None:
    server.speakers = None
    async with voice(server, voice="白上虎太郎") as made:
        assert "not there yet" in caplog.text
        server.speakers = VoicevoxServer().speakers
        await say(made)
    assert server.styles == [12]


@pytest.mark.parametrize(("name", "port"), [("voicevox", 50021), ("aivisspeech", 10101)])
def test_both_are_where_they_usually_are(name: str, port: int) -> None:
    settings = load_settings({}, tts={"engine": name, "english_engine": "same"})
    made = find_engine(settings, "tts").build(settings, load_persona(default_persona_path()))
    japanese = made._engines["ja"]
    assert (made.name, japanese.name, japanese._service.endpoint.base_url) == (name, name, f"http://127.0.0.1:{port}")
