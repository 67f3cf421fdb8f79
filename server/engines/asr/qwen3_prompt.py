"""What Qwen3-ASR is asked and what it answers, as tokens.

The prompt is the model's own, from its processor: words to expect, the sound, and then `language Japanese<asr_text>`
and the words. That opening is not left to the model alone: only the languages that may be spoken, and `None` for
nobody, are to choose from, so that a short Japanese word is never Chinese, and the model can say that nobody spoke even
where there is one language only. Knows no sound and no torch but the processor's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from server.errors import AsrError

MOST_HOT_WORDS = 12
"""The most relevant ones: on spoken names Whisper set more right with 10 than with 20, and a longer prompt is read
longer. No weights of Qwen3-ASR were at hand to measure it there."""
_NOBODY = "None"


@dataclass(frozen=True, slots=True)
class Opening:
    """One way the answer may begin, as tokens; `language` in ISO 639-1, None: nobody spoke."""

    tokens: tuple[int, ...]
    language: str | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens before and after the sound, and how the answer may begin."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    openings: tuple[Opening, ...]


class PromptWriter:
    """Of one `Qwen3ASRProcessor`."""

    def __init__(self, processor: Any) -> None:
        from transformers.models.qwen3_asr.processing_qwen3_asr import LANGUAGE_CODE_TO_NAME

        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._names: dict[str, str] = LANGUAGE_CODE_TO_NAME
        self._special = [token for token in self._tokenizer.get_added_vocab() if token]

    def check_languages(self, languages: Sequence[str]) -> None:
        """Raises `AsrError` for none, and for one that the model does not know."""
        if not languages:
            raise AsrError("No language was given to listen for.", hint="Name at least one, for example ja.")
        if unknown := sorted(set(languages) - set(self._names)):
            raise AsrError(
                f"Qwen3-ASR does not know the language {', '.join(unknown)}.",
                hint=f"It knows: {', '.join(sorted(self._names))}.",
            )

    def write(self, languages: Sequence[str], hot_words: Sequence[str]) -> Prompt:
        """The prompt for an utterance in one of these languages. Raises `AsrError`."""
        self.check_languages(languages)
        (text,) = self._processor.apply_transcription_request(
            audio=[np.zeros(1, np.float32)], prompt=self._expected(hot_words), tokenize=False
        )
        before, sound, after = text.partition(self._processor.audio_token)
        if not sound:
            raise AsrError("The model's prompt has no place for sound.", hint="Its chat template is another model's.")
        answers = [(f"language {self._names[code]}<asr_text>", code) for code in dict.fromkeys(languages)]
        openings = [Opening(self._tokens(words), code) for words, code in answers]
        nobody = Opening(self._tokens(f"language {_NOBODY}<asr_text>"), None)
        return Prompt(self._tokens(before), self._tokens(after), (*openings, nobody))

    def text(self, tokens: Sequence[int]) -> str:
        """The words that tokens are."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()

    def _expected(self, hot_words: Sequence[str]) -> str | None:
        words = []
        for word in hot_words:
            cleaned = " ".join(word.encode(errors="ignore").decode().split())  # a lone surrogate stops the tokenizer
            # A thing that is called like one of the model's own marks would end the prompt.
            if cleaned and not any(mark in cleaned for mark in self._special):
                words.append(cleaned)
        return ", ".join(words[:MOST_HOT_WORDS]) or None

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


class Answer:
    """The answer of one utterance while it is written: what comes next, by the model's logits and the rules here.

    `most_tokens`: of the words, against a model that repeats itself for ever.
    """

    def __init__(self, prompt: Prompt, ends: frozenset[int], most_tokens: int) -> None:
        self._openings = list(prompt.openings)
        self._ends = ends
        self._left = most_tokens
        self.tokens: list[int] = []
        self.opening_length = 0
        self._position = 0
        self.language: str | None = None
        self.language_probability = 1.0
        self.nobody_probability = 0.0
        self.done = False
        self._log_probabilities: list[float] = []
        self._go_on()

    @property
    def words(self) -> list[int]:
        """The tokens after the opening."""
        return self.tokens[self.opening_length :]

    @property
    def average_log_probability(self) -> float:
        """Of the words; 0 when there are none."""
        found = self._log_probabilities
        return sum(found) / len(found) if found else 0.0

    def take(self, logits: Any) -> int:
        """The model's logits (vocabulary,) after `tokens`: decides the next ones, and returns how many are new."""
        before = len(self.tokens)
        if self._choosing:
            self._choose(logits)
        else:
            token = int(logits.argmax())
            self._log_probabilities.append(float(logits[token] - logits.logsumexp(-1)))
            if token in self._ends or not self._left:
                self.done = True
            else:
                self.tokens.append(token)
                self._left -= 1
        return len(self.tokens) - before

    @property
    def _choosing(self) -> bool:
        return not self.opening_length

    def _choose(self, logits: Any) -> None:
        """Between openings that differ here. Probabilities are among those that may come."""
        following = {opening.tokens[self._position]: opening for opening in self._openings}
        allowed = list(following)
        probabilities = logits[allowed].softmax(-1).tolist()
        best = max(range(len(allowed)), key=probabilities.__getitem__)
        kept = [opening for opening in self._openings if opening.tokens[self._position] == allowed[best]]
        for token, probability in zip(allowed, probabilities, strict=True):
            if all(o.language is None for o in self._openings if o.tokens[self._position] == token):
                self.nobody_probability = max(self.nobody_probability, probability)
        self.language_probability *= probabilities[best]
        self._openings = kept
        self._go_on()

    def _go_on(self) -> None:
        """Write what all openings that are left have in common."""
        while True:
            nexts = {opening.tokens[self._position : self._position + 1] for opening in self._openings}
            if len(nexts) != 1:
                return
            (token,) = nexts
            if not token:
                break
            self.tokens += token
            self._position += 1
        self.opening_length = len(self.tokens)
        self.language = self._openings[0].language
        if self.language is None:
            self.done = True
