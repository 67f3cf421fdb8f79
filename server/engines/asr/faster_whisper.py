"""Whisper through faster-whisper (CTranslate2) on the CPU.

Whisper pads every utterance to 30 s, and on a CPU that encoding is most of the time. Here the utterance plus some
silence is encoded (about four times faster for a short one), and only when the model is unsure of what it wrote is the
full window tried as well. The encoded sound serves language detection and every decoding. Hot words are given as a list
in the language's own punctuation, and what is heard with them is taken only for a hot word in it: one that is heard
because it was expected has to fit the sound better than what is heard without, and does not take the place of words
that are heard surely. What the model's own numbers call silence or a repetition comes back as empty text. Whether
anyone spoke at all is the VAD's matter.
"""

from __future__ import annotations

import os
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from server.engines.base import AsrCapabilities, Transcription
from server.engines.worker import ModelThread
from server.errors import AsrError, ModelError
from server.events import ASR_SAMPLE_RATE_HZ, Samples

_FILES = ("model.bin", "config.json", "tokenizer.json", "vocabulary.json")


@dataclass(frozen=True, slots=True)
class WhisperRecipe:
    """The numbers by which windows are cut and results are believed. Measured with whisper base, int8."""

    full_window_seconds: int = 30
    silence_after_seconds: int = 10
    """Encoded with a short utterance. On 29 cuts of human speech 10 s lost 1 point of 95 against the full window,
    5 s lost 4; every bad result was below `sure_log_probability`."""
    sure_log_probability: float = -0.7
    """Below this average, a short window is tried again as a full one."""
    min_log_probability: float = -1.3
    """Below this average it was noise."""
    no_speech_probability: float = 0.6
    no_speech_log_probability: float = -0.8
    """Above the first and below the second together, it was silence."""
    max_compression_ratio: float = 2.4
    """Text that compresses better than this repeats itself."""
    tokens_per_second: float = 14.0
    """More than people say; bounds a run-away repetition."""
    max_hot_words: int = 12
    """The most relevant ones. On spoken names a list of 10 set more right than one of 20, took less time, and changed
    less of the rest."""
    name_gain: float = 0.05
    """By so much the average has to be better with the hot words than without, for one that is only heard with them.
    Of 21 names set right 19 gained more; of ordinary words taken for a name by their sound (寄り道), half did not."""
    sure_word_probability: float = 0.6
    """Words heard without hot words, of which every token has this, are no name that was misheard. Of 14 sentences with
    a name like other words, in two voices, the surest words in place of a name had 0.54 in their least sure token; of
    14 that sound much like one without being one ("maple caught" for Maplecott), ordinary words had 0.63 and 0.79."""
    max_swallowed_ratio: float = 2.0
    """A name in place of more than so many letters for each of its own has swallowed words: a kanji is mostly read as
    two. Of the 14 names none stood for more than twice its letters (月影橋 for 突きかげばし)."""
    split_after_seconds: float = 20.0
    """A longer utterance than one window is cut at its quietest moment between this and the window's end."""


@dataclass(frozen=True, slots=True)
class _Hearing:
    """One decoded window."""

    text: str
    language: str
    language_probability: float
    no_speech_probability: float
    average_log_probability: float
    tokens: tuple[int, ...] = ()


class FasterWhisperAsr:
    """Implements `AsrEngine`. `model_folder`: a CTranslate2 Whisper model. `threads`: None uses up to four cores."""

    name = "faster-whisper"
    capabilities = AsrCapabilities(hot_words=True)

    def __init__(
        self,
        model_folder: Path,
        *,
        beam_size: int = 5,
        threads: int | None = None,
        compute_type: str = "int8",
        recipe: WhisperRecipe | None = None,
    ) -> None:
        self._folder = model_folder
        self._beam_size = beam_size
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._compute_type = compute_type
        self._recipe = recipe or WhisperRecipe()
        self._thread = ModelThread(self.name, AsrError)
        self._model: Any = None

    async def start(self) -> None:
        missing = [name for name in _FILES if not (self._folder / name).is_file()]
        if missing:
            raise ModelError(
                f"The Whisper model in {self._folder} lacks {', '.join(missing)}.", hint="Run: stackchan models pull."
            )
        await self._thread.start(self._load)

    async def close(self) -> None:
        await self._thread.close()
        self._model = None

    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        """Hear one utterance: float32 mono at 16 kHz, shape (n,). Empty text when nothing was said.

        `languages`: ISO 639-1, detected among them by the beginning; one code forces it. Raises `AsrError`.
        """
        if not languages:
            raise AsrError("No language was given to listen for.", hint="Name at least one, for example ja.")
        return await self._thread.call(self._transcribe, samples, tuple(languages), tuple(hot_words))

    def _load(self) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(
            str(self._folder), device="cpu", compute_type=self._compute_type, cpu_threads=self._threads
        )
        self._hear(np.zeros(ASR_SAMPLE_RATE_HZ // 2, np.float32), ("en",), ())

    def _transcribe(self, samples: Samples, languages: tuple[str, ...], hot_words: tuple[str, ...]) -> Transcription:
        unknown = sorted(set(languages) - set(self._model.supported_languages))
        if unknown:
            raise AsrError(f"Whisper does not know the language {', '.join(unknown)}.", hint="Use ISO 639-1 codes.")
        # A lone surrogate would stop the tokenizer.
        cleaned = (word.encode(errors="ignore").decode().strip() for word in hot_words)
        expected = tuple(word for word in cleaned if word)[: self._recipe.max_hot_words]
        heard: list[_Hearing] = []
        for piece in split_at_quiet(samples, self._recipe):
            hearing = self._hear_surely(piece, languages, expected)
            if hearing.text:
                heard.append(hearing)
                languages = (hearing.language,)  # one utterance, one language
        if not heard:
            return Transcription(text="", language=languages[0], no_speech_probability=1.0)
        weights = np.array([len(hearing.text) for hearing in heard], np.float64)
        return Transcription(
            text=("" if heard[0].language in ("ja", "zh") else " ").join(hearing.text for hearing in heard),
            language=heard[0].language,
            language_probability=heard[0].language_probability,
            no_speech_probability=min(hearing.no_speech_probability for hearing in heard),
            average_log_probability=float(
                np.average([hearing.average_log_probability for hearing in heard], weights=weights)
            ),
        )

    def _hear_surely(self, samples: Samples, languages: tuple[str, ...], expected: tuple[str, ...]) -> _Hearing:
        recipe = self._recipe
        hearing = self._hear(samples, languages, expected)
        window_seconds = self._window_seconds(len(samples))
        if (
            hearing.average_log_probability < recipe.sure_log_probability
            and not silent(hearing, recipe)
            and window_seconds < recipe.full_window_seconds
        ):
            again = self._hear(samples, languages, expected, window_seconds=recipe.full_window_seconds)
            hearing = max(hearing, again, key=lambda one: one.average_log_probability)
        return hearing if believable(hearing, recipe) else _Hearing("", hearing.language, 0.0, 1.0, 0.0)

    def _window_seconds(self, sample_count: int) -> int:
        speech_seconds = -(-sample_count // ASR_SAMPLE_RATE_HZ)
        return min(self._recipe.full_window_seconds, speech_seconds + self._recipe.silence_after_seconds)

    def _hear(
        self,
        samples: Samples,
        languages: tuple[str, ...],
        expected: tuple[str, ...],
        *,
        window_seconds: int | None = None,
    ) -> _Hearing:
        """Encode once, choose the language, decode; with hot words and without, if there are any."""
        from faster_whisper.audio import pad_or_trim

        model = self._model
        window_seconds = window_seconds or self._window_seconds(len(samples))
        features = model.feature_extractor(np.ascontiguousarray(samples, np.float32))
        encoded = model.encode(pad_or_trim(features, window_seconds * model.frames_per_second))
        language, probability = languages[0], 1.0
        if len(languages) > 1:
            probability_of = {token[2:-2]: value for token, value in model.model.detect_language(encoded)[0]}
            language = max(languages, key=lambda code: probability_of.get(code, 0.0))
            probability = float(probability_of.get(language, 0.0))
        most_tokens = 16 + int(self._recipe.tokens_per_second * len(samples) / ASR_SAMPLE_RATE_HZ)
        return self._understand(encoded, language, probability, expected, most_tokens)

    def _understand(
        self, encoded: Any, language: str, probability: float, expected: tuple[str, ...], most_tokens: int
    ) -> _Hearing:
        """What is heard without hot words, or with them if one of them is to be believed."""
        plain = self._decode(encoded, language, probability, "", most_tokens)
        if not expected:
            return plain
        helped = self._decode(encoded, language, probability, hint_of(expected, language), most_tokens)
        # Without a hot word in it a hint has changed the words, and is wrong about them more often than right.
        if not any(holds(helped.text, word) for word in expected):
            return plain
        if not fits_better(helped, plain, expected, self._recipe):
            return plain
        names = [word for word in expected if holds(helped.text, word) and not holds(plain.text, word)]
        if any(letters_replaced(name, helped.text, plain.text) > self._recipe.max_swallowed_ratio for name in names):
            return plain
        if names:
            places = places_of(names, helped.tokens, plain.tokens, self._tokenizer(language).decode)
            if places:
                probabilities = self._token_probabilities(encoded, plain)
                if min(probabilities[place] for place in places) >= self._recipe.sure_word_probability:
                    return plain
        return helped

    def _tokenizer(self, language: str) -> Any:
        from faster_whisper.tokenizer import Tokenizer

        model = self._model
        return Tokenizer(model.hf_tokenizer, model.model.is_multilingual, task="transcribe", language=language)

    def _token_probabilities(self, encoded: Any, hearing: _Hearing) -> Sequence[float]:
        """Of each token, how likely it is after those before it; no search, a third of the time of a decoding."""
        start = list(self._tokenizer(hearing.language).sot_sequence)
        frames = 2 * encoded.shape[1]  # the encoder halves them
        aligned = self._model.model.align(encoded, start, [list(hearing.tokens)], frames)[0]
        return [float(probability) for probability in aligned.text_token_probs]

    def _decode(self, encoded: Any, language: str, probability: float, hint: str, most_tokens: int) -> _Hearing:
        from faster_whisper.transcribe import get_suppressed_tokens

        model = self._model
        tokenizer = self._tokenizer(language)
        prompt = model.get_prompt(tokenizer, [], without_timestamps=True, hotwords=hint or None)
        result = model.model.generate(
            encoded,
            [prompt],
            beam_size=self._beam_size,
            max_length=min(model.max_length, len(prompt) + most_tokens),
            return_scores=True,
            return_no_speech_prob=True,
            suppress_blank=True,
            suppress_tokens=get_suppressed_tokens(tokenizer, [-1]),
        )[0]
        tokens = result.sequences_ids[0]
        return _Hearing(
            text=tokenizer.decode(tokens).strip(),
            language=language,
            language_probability=probability,
            no_speech_probability=float(result.no_speech_prob),
            average_log_probability=float(result.scores[0]) * len(tokens) / (len(tokens) + 1),
            tokens=tuple(tokens),
        )


def hint_of(expected: Sequence[str], language: str) -> str:
    """The hot words, most relevant first, as a sentence before the utterance: the most relevant next to it."""
    if not expected:
        return ""
    between, end = ("、", "。") if language in ("ja", "zh") else (", ", ".")
    return between.join(reversed(expected)) + end


def holds(text: str, word: str) -> bool:
    """Whether a text has a hot word, however it is spaced and cased."""
    return bool(_letters(word)) and _letters(word) in _letters(text)


def fits_better(hearing: _Hearing, plain: _Hearing, expected: Sequence[str], recipe: WhisperRecipe) -> bool:
    """Whether what was heard with hot words is believed rather than what was heard without, `plain`."""
    only_expected = any(holds(hearing.text, word) and not holds(plain.text, word) for word in expected)
    return not only_expected or hearing.average_log_probability >= plain.average_log_probability + recipe.name_gain


def letters_replaced(name: str, helped: str, plain: str) -> float:
    """How many letters of `plain` stand for each letter of the `name` and what changed beside it in `helped`."""
    after, before = _letters(helped), _letters(plain)
    start = after.find(_letters(name))
    end = start + len(_letters(name))
    own = replaced = 0
    for change, first, last, plain_first, plain_last in SequenceMatcher(None, after, before, False).get_opcodes():
        if change == "equal":
            shared = max(0, min(last, end) - max(first, start))
            own, replaced = own + shared, replaced + shared
        elif max(first, start) < min(last, end) or (change == "insert" and start < first < end):
            own, replaced = own + last - first, replaced + plain_last - plain_first
    return replaced / max(own, 1)


def places_of(
    names: Sequence[str], helped: Sequence[int], plain: Sequence[int], decode: Callable[[list[int]], str]
) -> list[int]:
    """Where in the tokens of `plain` other words stand for the `names` in `helped`; `decode`: tokens to text."""
    inside: set[int] = set()
    for name in names:
        end = next((n for n in range(1, len(helped) + 1) if holds(decode(list(helped[:n])), name)), 0)
        start = next((n for n in range(end - 1, -1, -1) if holds(decode(list(helped[n:end])), name)), end)
        inside.update(range(start, end))
    changes = SequenceMatcher(None, list(helped), list(plain), autojunk=False).get_opcodes()
    return [
        place
        for change, first, last, plain_first, plain_last in changes
        if change == "replace" and inside.intersection(range(first, last))
        for place in range(plain_first, plain_last)
    ]


def _letters(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


def believable(hearing: _Hearing, recipe: WhisperRecipe) -> bool:
    """Whether a result is speech by the model's own numbers."""
    encoded = hearing.text.encode()
    if not encoded or hearing.average_log_probability < recipe.min_log_probability:
        return False
    return not silent(hearing, recipe) and len(encoded) / len(zlib.compress(encoded)) <= recipe.max_compression_ratio


def silent(hearing: _Hearing, recipe: WhisperRecipe) -> bool:
    """Whether the model itself says that nobody spoke, and is unsure of its words."""
    return (
        hearing.no_speech_probability > recipe.no_speech_probability
        and hearing.average_log_probability < recipe.no_speech_log_probability
    )


def split_at_quiet(samples: Samples, recipe: WhisperRecipe) -> list[Samples]:
    """Pieces of at most one window, cut in the middle of the quietest tenth of a second; shape (n,) each."""
    frame = ASR_SAMPLE_RATE_HZ // 10
    earliest = int(recipe.split_after_seconds * ASR_SAMPLE_RATE_HZ)
    latest = recipe.full_window_seconds * ASR_SAMPLE_RATE_HZ
    pieces: list[Samples] = []
    rest = samples
    while len(rest) > latest:
        power = np.square(rest[earliest:latest]).reshape(-1, frame).mean(axis=1)
        cut = earliest + int(np.argmin(power)) * frame + frame // 2
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest] if len(rest) else pieces
