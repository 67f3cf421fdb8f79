"""Real voices: what they say is understood again, odd text never breaks them, a feeling is heard."""

from __future__ import annotations

import asyncio
import os
import time
import unicodedata
from pathlib import Path

import jiwer
import numpy as np
import pytest

from server.audio.resample import resample
from server.engines.asr.faster_whisper import FasterWhisperAsr
from server.engines.base import SpeechRequest, TtsEngine
from server.engines.tts.hibari import HibariTts
from server.engines.tts.mixed import MixedTts
from server.engines.tts.pyopenjtalk import PyopenjtalkTts
from server.errors import ModelError, TtsError

pytestmark = pytest.mark.models

RATE_HZ = MixedTts.sample_rate_hz


@pytest.fixture(scope="module")
def tts():
    engine = MixedTts({"ja": PyopenjtalkTts(), "en": HibariTts()}, {"StackChan": "スタックチャン"})
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def asr():
    folder = Path(os.environ.get("STACKCHAN_MODEL_DIR") or Path.home() / ".cache" / "stackchan") / "whisper-base-ct2"
    assert folder.exists(), f"No model at {folder}. Run `stackchan models pull`."
    engine = FasterWhisperAsr(folder)
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


async def say(tts: TtsEngine, text: str, language: str = "ja", emotion: str = "neutral") -> np.ndarray:
    chunks = [chunk async for chunk in tts.synthesize(SpeechRequest(text, language, emotion))]
    return np.concatenate([chunk.samples for chunk in chunks]) if chunks else np.zeros(0, np.int16)


def active_rms(samples: np.ndarray) -> float:
    """Root mean square of the 10 ms frames that are not silent, full scale 1.0."""
    frame = RATE_HZ // 100
    levels = np.sqrt(np.square(samples[: len(samples) // frame * frame].reshape(-1, frame) / 32_768).mean(axis=1))
    return float(np.sqrt(np.square(levels[levels > 0.01]).mean()))


async def heard(asr: FasterWhisperAsr, samples: np.ndarray, languages: tuple[str, ...] = ("ja", "en")) -> str:
    sound = resample(samples, RATE_HZ, 16_000).astype(np.float32) / 32_768
    return (await asr.transcribe(sound, languages=languages)).text


def letters(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] in "LN")


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        (
            "ja",
            ["こんにちは、今日も元気だよ。", "それは大変だったね、ゆっくり休んで。", "左を向いたよ、何か見えるかな。"],
        ),
        ("en", ["It will rain tomorrow, so please take an umbrella.", "I am looking to the left now."]),
    ],
)
async def test_speech_is_understood_again(
    tts: MixedTts, asr: FasterWhisperAsr, language: str, texts: list[str]
) -> None:
    rates = [jiwer.cer(letters(text), letters(await heard(asr, await say(tts, text, language)))) for text in texts]
    assert np.mean(rates) <= 0.25, rates


async def test_english_words_inside_japanese_are_heard_as_english(tts: MixedTts, asr: FasterWhisperAsr) -> None:
    samples = await say(tts, "彼はThank you very muchと言ったよ。")
    assert "thank you very much" in (await heard(asr, samples, ("en",))).casefold()


async def test_both_voices_are_equally_loud_and_start_at_once(tts: MixedTts) -> None:
    levels = []
    for text, language in [("今日はとても楽しかったよ。", "ja"), ("It is a lovely day outside.", "en")]:
        samples = await say(tts, text, language)
        levels.append(active_rms(samples))
        assert np.abs(samples.astype(int)).max() < 32_767
        assert np.flatnonzero(np.abs(samples) > 300)[0] < 0.1 * RATE_HZ
    assert levels == pytest.approx([0.1, 0.1], rel=0.4)


async def test_a_feeling_changes_the_pace(tts: MixedTts) -> None:
    for text, language in [("今日は散歩に行ったよ。", "ja"), ("I went for a walk today.", "en")]:
        sad, neutral, happy = [len(await say(tts, text, language, emotion)) for emotion in ("sad", "unheard", "happy")]
        assert sad > neutral > happy


async def test_the_same_text_is_the_same_sound(tts: MixedTts) -> None:
    for text, language in [("はい。", "ja"), ("Yes.", "en")]:
        np.testing.assert_array_equal(await say(tts, text, language), await say(tts, text, language))


@pytest.mark.parametrize(
    "text",
    [
        "😊", "👨‍👩‍👧", "\ud83d", "a\ud83db", "\0", "あ\0い", "\x1b[31m", "مرحبا", "שלום", "Привет", "안녕", "e\u0301",
        "か\u3099", "z" + "\u0300" * 50, "\u202eabc", "ー", "っっ", "々", "〇", "。。。", "!?", "1" * 40, "-" * 60,
        "h" * 500, "𠮷野家", "ゔ", "\ufeff", "\n\n", "25℃", "<script>", "**", "ʌ", "℡№㏇", "﷽", "½",
    ],
    ids=lambda text: ascii(text[:6]),
)  # fmt: skip
async def test_odd_text_is_spoken_or_skipped_but_breaks_nothing(tts: MixedTts, text: str) -> None:
    for language in ("ja", "en"):
        assert len(await say(tts, text, language)) < 40 * RATE_HZ


async def test_a_long_text_begins_at_once_and_can_be_stopped(tts: MixedTts) -> None:
    text = "今日はいい天気だから散歩に行こうよ。" * 100
    speech = tts.synthesize(SpeechRequest(text, "ja"))
    started = time.monotonic()
    assert (await anext(speech)).duration_seconds < 10
    await speech.aclose()
    assert time.monotonic() - started < 10  # all of it would take a minute


async def test_a_voice_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(TtsError, match="no voice 'nobody'"):
        await HibariTts("nobody").start()


async def test_a_voice_not_downloaded_is_never_downloaded_here(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="emma"):
        await HibariTts("emma").start()


async def test_closed_voices_say_so() -> None:
    engine = PyopenjtalkTts()
    await engine.start()
    await engine.close()
    await engine.close()
    with pytest.raises(TtsError, match="not running"):
        await say(engine, "はい")
