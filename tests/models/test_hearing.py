"""Real voice activity detection and real speech recognition, on human speech and on what is not speech."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from pathlib import Path

import jiwer
import numpy as np
import pytest

from server.audio.codec import decode_upload
from server.audio.segmenter import trim
from server.engines.asr.faster_whisper import FasterWhisperAsr
from server.engines.vad.silero import SileroVad
from server.errors import AsrError, VadError

pytestmark = pytest.mark.models

SPEECH = Path(__file__).parent.parent / "data" / "speech"
JAPANESE = "これはテスト文ですこの機械が日本語をちゃんと聞き取れているかどうかを計ります"
ENGLISH = (
    "Cutting edge LLMs employ transformer architectures to capture the long range dependencies in text, which allows "
    "them to generate more contextually aware and grammatically consistent outputs"
)
BOTH = ("ja", "en")


def model(name: str) -> Path:
    folder = Path(os.environ.get("STACKCHAN_MODEL_DIR") or Path.home() / ".cache" / "stackchan")
    path = folder / name
    assert path.exists(), f"No model at {path}. Run `stackchan models pull`."
    return path


def speech(name: str) -> np.ndarray:
    return decode_upload((SPEECH / name).read_bytes(), "audio/flac", max_seconds=60)


def letters(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] in "LN")


def words(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.replace("'", "").casefold()).split())


def no_speech() -> dict[str, np.ndarray]:
    noise = np.random.default_rng(1)
    times = np.arange(3 * 16_000) / 16_000
    hum = 0.2 * np.sin(2 * np.pi * 50 * times) + 0.1 * np.sin(2 * np.pi * 150 * times)
    notes = 262 * 2 ** (np.floor(times * 4) % 8 / 12)
    sounds = {
        "silence": np.zeros_like(times),
        "noise": noise.normal(0, 0.1, len(times)),
        "hum": hum,
        "melody": 0.3 * np.sin(2 * np.pi * np.cumsum(notes) / 16_000),
    }
    return {name: samples.astype(np.float32) for name, samples in sounds.items()}


@pytest.fixture(scope="module")
def vad():
    engine = SileroVad(model("silero-vad") / "silero_vad.onnx")
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def asr():
    engine = FasterWhisperAsr(model("whisper-base-ct2"))
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


@pytest.mark.parametrize("name", ["human_ja.flac", "human_en.flac"])
async def test_human_speech_is_found_and_trimmed(vad: SileroVad, name: str) -> None:
    samples = speech(name)
    probabilities = await vad.probabilities(samples)
    assert len(probabilities) == -(-len(samples) // 512)
    assert sum(probability > 0.5 for probability in probabilities) > 0.4 * len(probabilities)
    seconds = len(samples) / 16_000
    span = trim(probabilities, 0.032, seconds)
    assert span is not None
    assert 0.2 < span[0] < 1.0
    assert seconds - 1.5 < span[1] < seconds - 0.2


async def test_what_is_not_speech_is_nobody(vad: SileroVad) -> None:
    for name, samples in no_speech().items():
        assert trim(await vad.probabilities(samples), 0.032, 3.0) is None, name


async def test_a_stream_says_the_same_as_the_whole_and_streams_do_not_mix(vad: SileroVad) -> None:
    samples = speech("human_ja.flac")[:32_256]  # 63 windows exactly: the last one must not be lost
    whole = await vad.probabilities(samples)
    first, other = vad.open_stream(), vad.open_stream()
    loud = np.random.default_rng(3).normal(0, 0.3, 960).astype(np.float32)
    streamed = []
    for start in range(0, len(samples), 960):
        some, _ = await asyncio.gather(first.push(samples[start : start + 960]), other.push(loud))
        streamed += some
    assert streamed == pytest.approx(whole, abs=1e-5)
    with pytest.raises(VadError, match="shape"):
        await first.push(loud[None, :])


async def test_streams_looked_at_together_are_told_what_they_are_told_alone(vad: SileroVad) -> None:
    """Speech, its parts and noise in forty streams at once: more than one round takes."""
    parts = [speech(name)[start : start + 24_000] for name in ("human_ja.flac", "human_en.flac")
             for start in range(0, 95_000, 5_000)]  # fmt: skip
    parts += [samples[:24_000] for samples in no_speech().values()]
    alone = [await vad.probabilities(samples) for samples in parts]
    together = await asyncio.gather(*(vad.probabilities(samples) for samples in parts))
    assert len(parts) > 40
    for mine, shared in zip(alone, together, strict=True):
        assert shared == pytest.approx(mine, abs=1e-4)


async def test_japanese_speech_is_heard(asr: FasterWhisperAsr) -> None:
    heard = await asr.transcribe(speech("human_ja.flac"), languages=BOTH)
    assert heard.language == "ja"
    assert heard.language_probability > 0.9
    assert jiwer.cer(letters(JAPANESE), letters(heard.text)) <= 0.15


async def test_english_speech_is_heard(asr: FasterWhisperAsr) -> None:
    heard = await asr.transcribe(speech("human_en.flac"), languages=BOTH)
    assert heard.language == "en"
    assert jiwer.wer(words(ENGLISH), words(heard.text)) <= 0.15


async def test_one_language_is_forced(asr: FasterWhisperAsr) -> None:
    heard = await asr.transcribe(speech("human_ja.flac")[8_000:48_000], languages=["ja"])
    assert (heard.language, heard.language_probability) == ("ja", 1.0)
    assert "テスト" in heard.text


async def test_speech_longer_than_one_window_is_heard_to_its_end(asr: FasterWhisperAsr) -> None:
    english, pause = speech("human_en.flac"), np.zeros(8 * 16_000, np.float32)
    heard = await asr.transcribe(np.concatenate([english, pause, english]), languages=["en"])
    assert "Cutting edge" in heard.text
    assert heard.text.rstrip(".").endswith("consistent outputs")


async def test_nothing_is_heard_where_nobody_speaks(asr: FasterWhisperAsr) -> None:
    sounds = no_speech() | {"empty": np.zeros(0, np.float32), "click": np.ones(1, np.float32)}
    for name, samples in sounds.items():
        assert (await asr.transcribe(samples, languages=BOTH)).text == "", name
    with_words = await asr.transcribe(sounds["silence"], languages=BOTH, hot_words=["富士通", "ポチ", "\ud83d"])
    assert with_words.text == ""


async def test_an_unknown_language_is_refused(asr: FasterWhisperAsr) -> None:
    with pytest.raises(AsrError, match="xx"):
        await asr.transcribe(np.zeros(1_600, np.float32), languages=["ja", "xx"])
