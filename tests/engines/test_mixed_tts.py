"""Mixed speech: two scripted voices joined to one sound."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import numpy as np
import pytest

from server.engines.base import SpeechRequest, TtsCapabilities
from server.engines.tts.mixed import MixedTts, pause_after
from server.engines.tts.scripts import Run, split_runs
from server.errors import ModelError, TtsError
from server.events import AudioChunk

pytestmark = pytest.mark.unit


class Voice:
    """Says a tone of `hz`, 0.2 s for every text, between two silences; remembers the requests."""

    def __init__(self, language: str, rate_hz: int, hz: float, silence_seconds: float = 0.3) -> None:
        self.name = language
        self.capabilities = TtsCapabilities(languages=(language,))
        self.said: list[SpeechRequest] = []
        self.running = False
        self.broken = False
        self._rate_hz, self._hz, self._silence_seconds = rate_hz, hz, silence_seconds

    async def start(self) -> None:
        if self.broken:
            raise ModelError("no voice")
        self.running = True

    async def close(self) -> None:
        self.running = False

    async def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        self.said.append(request)
        if self.broken:
            raise TtsError("hoarse")
        times = np.arange(round(0.2 * self._rate_hz)) / self._rate_hz
        tone = np.round(10_000 * np.cos(2 * np.pi * self._hz * times)).astype(np.int16)
        quiet = np.zeros(round(self._silence_seconds * self._rate_hz), np.int16)
        yield AudioChunk(np.concatenate([quiet, tone, quiet]), self._rate_hz)


@pytest.fixture
def japanese() -> Voice:
    return Voice("ja", 48_000, 300)


@pytest.fixture
def english() -> Voice:
    return Voice("en", 24_000, 600)


@pytest.fixture
def tts(japanese: Voice, english: Voice) -> MixedTts:
    return MixedTts({"ja": japanese, "en": english}, {"StackChan": "スタックチャン"})


async def speak(tts: MixedTts, text: str, language: str = "ja", emotion: str = "neutral") -> list[AudioChunk]:
    return [chunk async for chunk in tts.synthesize(SpeechRequest(text, language, emotion))]


def pitch_hz(chunk: AudioChunk) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(chunk.samples)))) * chunk.sample_rate_hz / len(chunk.samples)


async def test_each_part_is_spoken_by_its_voice_at_one_rate(tts: MixedTts, japanese: Voice, english: Voice) -> None:
    chunks = await speak(tts, "StackChanがhelloと言った。", emotion="happy")
    assert japanese.said == [
        SpeechRequest("スタックチャンが", "ja", "happy"),
        SpeechRequest("と言った。", "ja", "happy"),
    ]
    assert english.said == [SpeechRequest("hello", "en", "happy")]
    assert [chunk.sample_rate_hz for chunk in chunks] == [24_000] * 3
    assert [pitch_hz(chunk) for chunk in chunks] == pytest.approx([300, 600, 300], abs=5)


async def test_silence_is_cut_and_pauses_follow_the_punctuation(tts: MixedTts) -> None:
    chunks = await speak(tts, "はい、helloです。")
    # 20 ms before, 200 ms of sound, 60 ms after; then a short clause pause, a join, the pause of a sentence
    assert [chunk.duration_seconds for chunk in chunks] == pytest.approx(
        [0.28 + 0.12, 0.28 + 0.02, 0.28 + 0.22], abs=0.025
    )
    for chunk in chunks:
        assert np.flatnonzero(np.abs(chunk.samples) > 1_000)[0] < 0.035 * 24_000


async def test_joins_do_not_click() -> None:
    """Voices that are cut off at full height: no step of the joined sound is steeper than the tones themselves."""
    tts = MixedTts(
        {"ja": Voice("ja", 48_000, 300, silence_seconds=0), "en": Voice("en", 24_000, 600, silence_seconds=0)}
    )
    sound = np.concatenate([chunk.samples for chunk in await speak(tts, "今日はhelloと言った。")]).astype(int)
    steepest_tone_step = 10_000 * 2 * np.pi * 600 / 24_000
    assert np.abs(np.diff(sound)).max() < 1.1 * steepest_tone_step
    assert sound[0] == sound[-1] == 0


@pytest.mark.parametrize("text", ["", "😊", "。。。", "مرحبا", "\ud83d", "**", "☆★♪"])
async def test_nothing_speakable_gives_no_chunk(tts: MixedTts, japanese: Voice, english: Voice, text: str) -> None:
    assert await speak(tts, text) == []
    assert japanese.said == english.said == []


async def test_sentences_come_one_after_another(tts: MixedTts, japanese: Voice) -> None:
    speech = tts.synthesize(SpeechRequest("はい。いいえ。たぶん。", "ja"))
    await anext(speech)
    assert [request.text for request in japanese.said] == ["はい。"]
    await speech.aclose()
    assert len(japanese.said) == 1


async def test_a_language_without_a_voice_falls_back(japanese: Voice) -> None:
    chunks = await speak(MixedTts({"ja": japanese}), "I am here.", "en")
    assert len(chunks) == 1
    assert japanese.said == [SpeechRequest("I am here.", "ja", "neutral")]


async def test_a_failing_voice_reaches_the_reader(tts: MixedTts, english: Voice) -> None:
    english.broken = True
    with pytest.raises(TtsError, match="hoarse"):
        await speak(tts, "今日はhello")


async def test_too_long_a_text_is_refused_before_any_work(tts: MixedTts, japanese: Voice) -> None:
    with pytest.raises(TtsError, match="too long"):
        await speak(tts, "あ" * 5_000)
    assert japanese.said == []


async def test_voices_start_and_close_together(tts: MixedTts, japanese: Voice, english: Voice) -> None:
    await tts.start()
    assert japanese.running
    assert english.running
    await tts.close()
    await tts.close()
    assert not japanese.running
    assert not english.running
    english.broken = True
    with pytest.raises(ModelError, match="no voice"):
        await tts.start()
    assert not japanese.running


def test_no_voice_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MixedTts({})


@pytest.mark.parametrize(
    ("text", "last", "seconds"),
    [
        ("そう。", True, 0.22),
        ("「そう。」", False, 0.22),
        ("そう、", True, 0.12),
        ("yes,", False, 0.12),
        ("そう", True, 0.12),
        ("hello", False, 0.02),
    ],
)
def test_pauses(text: str, last: bool, seconds: float) -> None:
    assert pause_after(Run(text, "ja"), last=last) == seconds


class Reader:
    """Reads every word as あ; remembers its life."""

    def __init__(self) -> None:
        self.life: list[str] = []

    async def start(self) -> None:
        self.life.append("start")

    async def close(self) -> None:
        self.life.append("close")

    async def runs(self, text: str, language: str, readings: Mapping[str, str]) -> list[Run]:
        self.life.append(text)
        return split_runs(text, language, readings, lambda word: "あ")


async def test_latin_words_are_read_by_the_reader_and_japanese_alone_does_not_ask_it(
    japanese: Voice, english: Voice
) -> None:
    reader = Reader()
    tts = MixedTts({"ja": japanese, "en": english}, {"StackChan": "スタックチャン"}, reader)
    await tts.start()
    assert len(await speak(tts, "StackChanがhelloと言った。今日はいい天気。")) == 2
    await tts.close()
    assert [request.text for request in japanese.said] == ["スタックチャンがあと言った。", "今日はいい天気。"]
    assert english.said == []
    assert reader.life == ["start", "StackChanがhelloと言った。", "close"]
