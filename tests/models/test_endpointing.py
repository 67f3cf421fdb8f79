"""Live endpointing of human speech: from wire frames to utterances, with the real voice activity detection."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import jiwer
import numpy as np
import pytest

from server.audio.endpointing import (
    Endpointer,
    EndpointEvent,
    EndpointSettings,
    SilenceNoticed,
    SpeechStarted,
    UtteranceEnded,
)
from server.audio.frames import FrameCutter
from server.audio.levels import MouthLevels
from server.audio.resample import resample
from server.audio.segmenter import SegmenterSettings
from server.audio.stream_intake import StreamIntake
from server.engines.asr.faster_whisper import FasterWhisperAsr
from server.engines.base import SpeechRequest
from server.engines.tts.hibari import HibariTts
from server.engines.tts.pyopenjtalk import PyopenjtalkTts
from server.engines.vad.silero import SileroVad
from tests.audio.spoken import ENGLISH, JAPANESE, Phrase, Sentence, joined, lost_words, room, sound_of

pytestmark = pytest.mark.models

WINDOW_SECONDS = 0.032
SENTENCES = [JAPANESE[:2], JAPANESE[2:], ENGLISH[:2], ENGLISH[2:]]


def model(name: str) -> Path:
    folder = Path(os.environ.get("STACKCHAN_MODEL_DIR") or Path.home() / ".cache" / "stackchan")
    path = folder / name
    assert path.exists(), f"No model at {path}. Run `stackchan models pull`."
    return path


@pytest.fixture(scope="module")
def vad() -> Iterator[SileroVad]:
    engine = SileroVad(model("silero-vad") / "silero_vad.onnx")
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


def wire(samples: np.ndarray, format: str, frame_ms: int) -> list[bytes]:
    """What a device would send of it."""
    cutter = FrameCutter(format, 16_000, frame_ms)  # type: ignore[arg-type]
    return cutter.push(np.round(np.clip(samples, -1, 1) * 32_767).astype(np.int16)) + cutter.finish()


async def listen(
    vad: SileroVad, frames: Sequence[bytes], format: str = "pcm16", settings: EndpointSettings | None = None
) -> list[EndpointEvent]:
    """One device's frames, as they come."""
    intake, stream, endpointer = StreamIntake(format, 16_000), vad.open_stream(), Endpointer(settings)  # type: ignore[arg-type]
    events: list[EndpointEvent] = []
    for frame in frames:
        for probability in await stream.push(intake.push(frame)):
            events += endpointer.push(WINDOW_SECONDS, probability)
    stream.close()
    return events


def ends(events: Sequence[EndpointEvent]) -> list[UtteranceEnded]:
    return [event for event in events if isinstance(event, UtteranceEnded)]


def said(phrases: Sequence[Phrase], pause: float, seed: int = 1, hiss: float = 0.0) -> Sentence:
    noise = np.random.default_rng(seed)
    lead = 0.6 + 0.1 * float(noise.random())
    return joined(phrases, [pause] * (len(phrases) - 1), lead_seconds=lead, noise=noise, hiss=hiss)


def with_silence(ms: int) -> EndpointSettings:
    return EndpointSettings(SegmenterSettings(end_silence_seconds=ms / 1000))


@pytest.mark.parametrize("phrases", SENTENCES, ids=lambda phrases: phrases[0].text)
@pytest.mark.parametrize("pause", [0.1, 0.2, 0.3, 0.4])
async def test_a_pause_inside_a_sentence_does_not_end_it(
    vad: SileroVad, phrases: Sequence[Phrase], pause: float
) -> None:
    """With the silence that is the default, 500 ms, at five places of the sound in the windows."""
    sentences = [said(phrases, pause, seed) for seed in range(5)]
    heard = await asyncio.gather(*(listen(vad, wire(sentence.samples, "pcm16", 60)) for sentence in sentences))
    for sentence, events in zip(sentences, heard, strict=True):
        (ended,) = ends(events)
        assert lost_words(sentence.words, [ended]) == []
        assert ended.start_seconds <= sentence.words[0].start_seconds
        assert ended.end_seconds >= sentence.sound_end_seconds - 0.02
        assert 0.4 < ended.at_seconds - sentence.sound_end_seconds < 0.75
        last_silence = [event for event in events if isinstance(event, SilenceNoticed)][-1]
        assert last_silence.at_seconds - sentence.sound_end_seconds < 0.25


async def test_the_silence_that_is_set_decides_which_pauses_end(vad: SileroVad) -> None:
    found = {}
    for silence_ms in (200, 500, 1000):
        for pause in (0.4, 0.8):
            sentence = said(JAPANESE[:2], pause)
            events = await listen(vad, wire(sentence.samples, "pcm16", 20), settings=with_silence(silence_ms))
            found[silence_ms, pause] = len(ends(events))
            assert lost_words(sentence.words, ends(events)) == [], "a cut loses no word either"
    assert found == {(200, 0.4): 2, (500, 0.4): 1, (1000, 0.4): 1, (200, 0.8): 2, (500, 0.8): 2, (1000, 0.8): 1}


@pytest.mark.parametrize(
    ("recording", "start"), [("human_ja.flac", 1.0), ("human_ja.flac", 5.32), ("human_en.flac", 0.78)]
)
async def test_300_ms_of_a_human_voice_are_an_utterance(vad: SileroVad, recording: str, start: float) -> None:
    samples = room(recording, 2.5, np.random.default_rng(2))
    samples[16_000:20_800] += sound_of(recording, start, start + 0.3)
    (ended,) = ends(await listen(vad, wire(samples, "pcm16", 60)))
    assert ended.start_seconds <= 1.0
    assert ended.end_seconds >= 1.3


@pytest.mark.parametrize(
    ("voice", "words"), [(PyopenjtalkTts, ("はい", "いいえ", "ねえ", "ええ")), (HibariTts, ("Yes.", "No.", "Hey"))]
)
async def test_a_short_word_is_an_utterance(
    vad: SileroVad, voice: type[PyopenjtalkTts | HibariTts], words: Sequence[str]
) -> None:
    """はい sounds for 250 ms. Said at five places within a window, through Opus."""
    engine = voice()
    await engine.start()
    language = "ja" if voice is PyopenjtalkTts else "en"
    for word in words:
        chunks = [chunk async for chunk in engine.synthesize(SpeechRequest(word, language))]
        spoken = np.concatenate([chunk.samples for chunk in chunks]).astype(np.float32) / 32_768
        spoken = resample(spoken, chunks[0].sample_rate_hz, 16_000)
        loud = np.flatnonzero(np.abs(spoken) > 0.02)
        for at in range(16_000, 16_500, 100):
            samples = room("human_ja.flac", 3.0, np.random.default_rng(3))
            samples[at : at + len(spoken)] += spoken
            (ended,) = ends(await listen(vad, wire(samples, "opus", 60), "opus"))
            assert ended.start_seconds <= (at + loud[0]) / 16_000, word
            assert ended.end_seconds >= (at + loud[-1]) / 16_000 - 0.02, word
    await engine.close()


async def test_clicks_knocks_and_the_room_are_nobody(vad: SileroVad) -> None:
    noise = np.random.default_rng(4)
    samples = room("human_ja.flac", 8.0, noise, hiss=0.003)
    for at, length in ((1.0, 1), (2.0, 40), (3.0, 400), (4.0, 1_200)):
        first = round(at * 16_000)
        samples[first : first + length] += noise.normal(0, 0.3, length).astype(np.float32) * np.exp(
            -np.arange(length, dtype=np.float32) / (length / 4)
        )
    assert await listen(vad, wire(samples, "pcm16", 60)) == []


@pytest.mark.parametrize("frame_ms", [10, 20, 40, 60, 100, 120])
async def test_frames_of_any_size_give_the_same_events(vad: SileroVad, frame_ms: int) -> None:
    sentence = said(JAPANESE[2:], 0.4)
    whole = await listen(vad, wire(sentence.samples, "pcm16", 32))
    cut = await listen(vad, wire(sentence.samples, "pcm16", frame_ms))
    assert cut[: len(whole)] == whole
    assert len(whole) >= 3
    (ended,) = ends(await listen(vad, wire(sentence.samples, "opus", frame_ms), "opus"))
    (same,) = ends(whole)
    assert (ended.start_seconds, ended.end_seconds) == pytest.approx((same.start_seconds, same.end_seconds), abs=0.1)
    assert lost_words(sentence.words, [ended]) == []


async def test_many_robots_at_once_are_heard_as_one_alone(vad: SileroVad) -> None:
    sentences = [said(SENTENCES[seed % 4], 0.3, seed) for seed in range(24)]
    alone = [await listen(vad, wire(sentence.samples, "pcm16", 60)) for sentence in sentences[:4]]
    together = await asyncio.gather(*(listen(vad, wire(sentence.samples, "pcm16", 60)) for sentence in sentences))
    assert together[:4] == alone
    for sentence, events in zip(sentences, together, strict=True):
        assert lost_words(sentence.words, ends(events)) == []


async def test_one_sentence_after_another_in_one_stream(vad: SileroVad) -> None:
    sentences = [said(phrases, 0.3, seed, hiss=0.002) for seed, phrases in enumerate(SENTENCES)]
    events = await listen(vad, wire(np.concatenate([sentence.samples for sentence in sentences]), "pcm16", 60))
    assert len(ends(events)) == 4
    assert sum(isinstance(event, SpeechStarted) for event in events) == 4


def letters(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] in "LN")


@pytest.mark.parametrize("phrases", [JAPANESE, ENGLISH], ids=["ja", "en"])
async def test_what_was_cut_out_is_understood(vad: SileroVad, phrases: Sequence[Phrase]) -> None:
    sentence = said(phrases, 0.3)
    (ended,) = ends(await listen(vad, wire(sentence.samples, "opus", 60), "opus"))
    asr = FasterWhisperAsr(model("whisper-base-ct2"))
    await asr.start()
    try:
        part = sentence.samples[round(ended.start_seconds * 16_000) : round(ended.end_seconds * 16_000)]
        heard = await asr.transcribe(part, languages=("ja", "en"))
    finally:
        await asr.close()
    assert heard.language == phrases[0].language
    assert jiwer.cer(letters(sentence.text), letters(heard.text)) <= 0.15


@pytest.mark.parametrize(
    ("voice", "text"),
    [
        (PyopenjtalkTts, "今日はいい天気だから、散歩に行こうよ。"),
        (HibariTts, "It is a lovely day, let us take a walk."),
    ],
)
async def test_the_mouth_of_a_voice_uses_its_range(voice: type[PyopenjtalkTts | HibariTts], text: str) -> None:
    engine = voice()
    await engine.start()
    chunks = [
        chunk async for chunk in engine.synthesize(SpeechRequest(text, "ja" if voice is PyopenjtalkTts else "en"))
    ]
    await engine.close()
    mouth = MouthLevels(chunks[0].sample_rate_hz)
    levels = np.array([level for chunk in chunks for level in mouth.push(chunk.samples)] + mouth.finish())
    speaking = levels[levels > 0]
    low, middle, high = np.percentile(speaking, [10, 50, 90])
    assert low < 0.45
    assert 0.45 < middle < 0.85
    assert high > 0.75
    assert (levels == 0).any(), "it shuts between words"
