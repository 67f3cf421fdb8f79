"""Human speech cut into phrases and joined anew, with pauses of known length: what tests and benchmarks listen to.

The times of the phrases are where their sound begins and ends; those of the words between them are good to 50 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from server.audio.codec import decode_upload
from server.audio.endpointing import UtteranceEnded
from server.events import ASR_SAMPLE_RATE_HZ, Samples

SPEECH = Path(__file__).parent.parent / "data" / "speech"
_FADE_SECONDS = 0.004
_QUIET = {"human_ja.flac": (3.75, 5.25), "human_en.flac": (11.2, 12.1)}
"""Where nobody speaks: the sound of the room."""


@dataclass(frozen=True)
class Word:
    text: str
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Phrase:
    """What is said in one breath, as it stands in its recording."""

    recording: str
    words: tuple[Word, ...]

    @property
    def language(self) -> str:
        return self.recording.removeprefix("human_").removesuffix(".flac")

    @property
    def text(self) -> str:
        return (" " if self.language == "en" else "").join(word.text for word in self.words)


def _phrase(language: str, end_seconds: float, *words: tuple[float, str]) -> Phrase:
    """Each word lasts to the next one."""
    ends = [*(start for start, _ in words[1:]), end_seconds]
    return Phrase(
        f"human_{language}.flac",
        tuple(Word(text, start, end) for (start, text), end in zip(words, ends, strict=True)),
    )


JAPANESE = (
    _phrase("ja", 2.28, (0.99, "これは"), (1.38, "テスト"), (1.63, "文です")),
    _phrase("ja", 3.46, (2.5, "この"), (2.76, "機械が")),
    _phrase("ja", 6.48, (5.31, "日本語を"), (5.98, "ちゃんと")),
    _phrase("ja", 7.08, (6.58, "聞き取れて")),
    _phrase("ja", 8.78, (7.66, "いるか"), (8.13, "どうかを")),
    _phrase("ja", 10.48, (9.77, "計ります")),
)
ENGLISH = (
    _phrase("en", 2.71, (0.77, "Cutting"), (1.06, "edge"), (1.33, "LLMs"), (2.02, "employ"), (2.3, "transformer")),
    _phrase("en", 6.23, (2.78, "architectures"), (3.68, "to"), (3.87, "capture"), (4.2, "the"), (4.4, "long"),
            (4.62, "range"), (4.96, "dependencies"), (5.54, "in"), (5.73, "text")),
    _phrase("en", 8.5, (6.26, "which"), (6.45, "allows"), (6.68, "them"), (6.94, "to"), (7.1, "generate"),
            (7.44, "more"), (7.68, "contextually"), (8.26, "aware")),
    _phrase("en", 10.68, (8.55, "and"), (8.88, "grammatically"), (9.5, "consistent"), (9.98, "outputs")),
)  # fmt: skip


@cache
def human_speech(name: str) -> Samples:
    """`human_ja.flac` or `human_en.flac`, float32 at 16 kHz; not to be written to."""
    samples = decode_upload((SPEECH / name).read_bytes(), "audio/flac", max_seconds=60)
    samples.flags.writeable = False
    return samples


def sound_of(recording: str, start_seconds: float, end_seconds: float) -> Samples:
    """A part of a recording, faded so that its ends do not click."""
    rate = ASR_SAMPLE_RATE_HZ
    sound = human_speech(recording)[round(start_seconds * rate) : round(end_seconds * rate)].copy()
    ramp = np.linspace(0, 1, round(_FADE_SECONDS * rate), dtype=np.float32)
    sound[: len(ramp)] *= ramp
    sound[-len(ramp) :] *= ramp[::-1]
    return sound


def room(recording: str, seconds: float, noise: np.random.Generator, hiss: float = 0.0) -> Samples:
    """The room of a recording for as long as wanted, and `hiss`: RMS of white noise in it, full scale 1.0."""
    quiet = sound_of(recording, *_QUIET[recording])
    count = round(seconds * ASR_SAMPLE_RATE_HZ)
    tiled = np.tile(quiet, count // len(quiet) + 2)
    start = int(noise.integers(len(quiet)))
    background: Samples = tiled[start : start + count] + noise.normal(0, 1, count).astype(np.float32) * hiss
    return background.astype(np.float32)


@dataclass(frozen=True)
class Sentence:
    """Phrases with the pauses between them, and where each word is now. `samples`: float32 at 16 kHz."""

    samples: Samples
    words: tuple[Word, ...]
    text: str

    @property
    def sound_end_seconds(self) -> float:
        return self.words[-1].end_seconds


def joined(
    phrases: Sequence[Phrase],
    pauses_seconds: Sequence[float],
    *,
    lead_seconds: float = 1.0,
    tail_seconds: float = 1.5,
    noise: np.random.Generator,
    hiss: float = 0.0,
) -> Sentence:
    """Say the phrases one after another; `pauses_seconds`: one fewer than phrases."""
    position, words, pieces = lead_seconds, [], []
    for phrase, pause in zip(phrases, [*pauses_seconds, 0.0], strict=True):
        start, end = phrase.words[0].start_seconds, phrase.words[-1].end_seconds
        pieces.append((position, sound_of(phrase.recording, start, end)))
        words += [
            Word(word.text, word.start_seconds - start + position, word.end_seconds - start + position)
            for word in phrase.words
        ]
        position += end - start + pause
    samples = room(phrases[0].recording, position + tail_seconds, noise, hiss)
    for at, sound in pieces:
        first = round(at * ASR_SAMPLE_RATE_HZ)
        samples[first : first + len(sound)] += sound
    separator = " " if phrases[0].language == "en" else ""
    return Sentence(samples, tuple(words), separator.join(phrase.text for phrase in phrases))


def lost_words(words: Sequence[Word], utterances: Sequence[UtteranceEnded], allowed: float = 0.1) -> list[Word]:
    """The words of which more than this share lies in no utterance."""

    def kept(word: Word) -> float:
        return sum(
            max(0.0, min(word.end_seconds, heard.end_seconds) - max(word.start_seconds, heard.start_seconds))
            for heard in utterances
        )

    return [word for word in words if kept(word) < (1 - allowed) * (word.end_seconds - word.start_seconds)]
