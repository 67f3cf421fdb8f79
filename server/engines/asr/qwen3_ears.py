"""Hearing with a loaded Qwen3-ASR: from sound and prompt to words, of several utterances at once, on one thread.

While a person speaks, what is over of the sound is encoded and read into the decoder's cache (`advance`); when words
are wanted, only the rest is left to do (`hear`). Utterances that are wanted at the same moment share every step, and
one that comes later joins between two steps. Words that were found before in the same utterance are not written again
token by token: they are read as a guess, in the step that reads the end of the sound, and kept as far as the model
agrees. Knows no event loop; whoever waits is called back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from server.engines.asr.qwen3_decoder import Decoder, Part, RowCache
from server.engines.asr.qwen3_encoder import AudioEncoder, Encoded, HeardSound, Interrupted, Stop, encode, never
from server.engines.asr.qwen3_prompt import Answer, Prompt, PromptWriter
from server.engines.base import Transcription
from server.events import ASR_SAMPLE_RATE_HZ, Samples

MOST_TOGETHER = 8
"""Utterances in one step; more wait for one of them to end."""
_PROMPTS_KEPT = 4


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """How long an answer may become: more than people say; bounds a run-away repetition."""

    first_tokens: int = 16
    tokens_per_second: float = 14.0

    def tokens(self, sample_count: int) -> int:
        """Of an utterance of so many samples."""
        return self.first_tokens + int(self.tokens_per_second * sample_count / ASR_SAMPLE_RATE_HZ)


@dataclass(slots=True, eq=False)
class Listening:
    """One utterance that is listened to: its sound, and what of its prompt and sound the decoder has read."""

    sound: HeardSound
    prompt: Prompt
    languages: tuple[str, ...]
    cache: RowCache
    read: list[int] = field(default_factory=list)
    """Versions of the whole windows in the cache, after the tokens before the sound."""
    guess: list[int] = field(default_factory=list)
    """The answer to what was heard of it before."""


@dataclass(slots=True, eq=False)
class Request:
    """Somebody wants the words of the first `sample_count` samples. `answer` is called once, on this thread, unless
    nobody wants it any more."""

    listening: Listening
    sample_count: int
    answer: Callable[[Transcription], None]
    is_wanted: Callable[[], bool]


class _Row:
    """One request under way."""

    def __init__(self, request: Request, answer: Answer, pending: Any, windows: Sequence[Encoded]) -> None:
        self.request = request
        self.answer = answer
        self._cache = request.listening.cache
        self._pending = pending
        """What of the prompt and sound is still to be read; None: all is."""
        self._windows = windows
        self._prompt_length = 0
        self._fed = 0
        """Tokens of the answer that the cache holds, after the prompt."""
        guess, known = request.listening.guess, len(answer.tokens)
        self._guess = guess[known:] if guess[:known] == answer.tokens else []

    def part(self, decoder: Decoder) -> Part:
        import torch

        tokens = decoder.embed([*self.answer.tokens[self._fed :], *self._guess])
        embeddings = tokens if self._pending is None else torch.cat([self._pending, tokens])
        return Part(self._cache, embeddings, 1 + len(self._guess))

    def take(self, logits: Any) -> None:
        """The logits after the last known token, and after each one of the guess."""
        listening, answer = self.request.listening, self.answer
        if self._pending is not None:
            self._prompt_length = self._cache.length - len(answer.tokens) - len(self._guess)
            self._pending = None
            listening.read = [window.version for window in self._windows if window.is_whole_window]
        guess, self._guess = self._guess, []
        self._fed, agreed = len(answer.tokens), 0
        while True:
            new = answer.take(logits[agreed])
            written = answer.tokens[len(answer.tokens) - new :]
            same = 0
            while same < new and guess[agreed + same : agreed + same + 1] == written[same : same + 1]:
                same += 1
            agreed += same
            if answer.done or same < new:
                break
        self._fed += agreed
        self._cache.crop(self._prompt_length + self._fed)

    def finish(self, writer: PromptWriter) -> None:
        """Hand over the words."""
        answer, listening = self.answer, self.request.listening
        listening.guess = list(answer.tokens)
        text = writer.text(answer.words)
        self.request.answer(
            Transcription(
                text=text,
                language=answer.language or listening.languages[0],
                language_probability=answer.language_probability,
                no_speech_probability=1.0 if answer.language is None else answer.nobody_probability,
                average_log_probability=answer.average_log_probability,
            )
        )


class Ears:
    """The parts of one loaded model. `ends`: tokens that end an answer."""

    def __init__(self, encoder: AudioEncoder, decoder: Decoder, writer: PromptWriter, ends: frozenset[int]) -> None:
        self.writer = writer
        self.limits = AnswerLimits()
        self.ends = ends
        self._encoder = encoder
        self._decoder = decoder
        self._prompts: OrderedDict[tuple[int, ...], RowCache] = OrderedDict()
        """What stands before the sound, already read: it is the same for one utterance after the other."""

    def listen(self, languages: Sequence[str], hot_words: Sequence[str]) -> Listening:
        """A new utterance. Raises `AsrError`."""
        prompt = self.writer.write(languages, hot_words)
        return Listening(HeardSound(self._encoder), prompt, tuple(languages), self._fresh_cache(prompt))

    def advance(self, listening: Listening, stop: Stop = never) -> bool:
        """Do one piece of what can be done already; False: there is none. Raises `Interrupted`."""
        if listening.sound.advance(stop):
            return True
        before, cache = listening.prompt.before, listening.cache
        if cache.length < len(before):
            cache.crop(0)
            self._decoder.step([Part(cache, self._decoder.embed(before), 0)], stop)
            self._remember_prompt(listening)
            return True
        windows = listening.sound.finished_windows()
        known = self._known(listening, windows)
        if known == len(windows):
            return False
        self._crop(listening, known)
        self._decoder.step([Part(cache, windows[known].embeddings.to(self._decoder.dtype), 0)], stop)
        listening.read.append(windows[known].version)
        return True

    def hear(
        self, requests: Sequence[Request], newcomers: Callable[[int], Sequence[Request]], stop: Stop = never
    ) -> None:
        """Answer all requests, and those that come meanwhile: `newcomers(most)` gives them. Raises `Interrupted`."""
        rows: list[_Row] = []
        coming = list(requests)
        while coming or rows:
            try:
                rows += self._begin([request for request in coming if request.is_wanted()], stop)
                rows = [row for row in rows if row.request.is_wanted()]
                parts = [row.part(self._decoder) for row in rows]
                steps = self._decoder.step(parts, _either(stop, rows)) if rows else []
            except Interrupted:
                if stop():
                    raise
                rows, steps = [], []  # nobody wants any of them now
            for row, logits in zip(rows, steps, strict=True):
                row.take(logits)
                if row.answer.done:
                    row.finish(self.writer)
            for row in rows:
                self._remember_prompt(row.request.listening)
            rows = [row for row in rows if not row.answer.done]
            coming = list(newcomers(MOST_TOGETHER - len(rows)))

    def _begin(self, requests: Sequence[Request], stop: Stop) -> list[_Row]:
        """Encode what is missing of all of them, and find what the decoder has read of each."""
        import torch

        if not requests:
            return []
        utterances = [(request.listening.sound, request.sample_count) for request in requests]
        rows = []
        for request, windows in zip(requests, encode(self._encoder, utterances, stop), strict=True):
            listening, prompt = request.listening, request.listening.prompt
            pending = []
            if listening.cache.length < len(prompt.before):
                listening.cache.crop(0)
                listening.read = []
                pending.append(self._decoder.embed(prompt.before))
                known = 0
            else:
                known = self._known(listening, windows)
                self._crop(listening, known)
            pending += [window.embeddings.to(self._decoder.dtype) for window in windows[known:]]
            pending.append(self._decoder.embed(prompt.after))
            answer = Answer(prompt, self.ends, self.limits.tokens(request.sample_count))
            rows.append(_Row(request, answer, torch.cat(pending), windows))
        return rows

    @staticmethod
    def _known(listening: Listening, windows: Sequence[Encoded]) -> int:
        """How many of the windows, from the first, are in the cache as they are."""
        known = 0
        for version, window in zip(listening.read, windows, strict=False):
            if version != window.version:
                break
            known += 1
        return known

    def _crop(self, listening: Listening, windows: int) -> None:
        del listening.read[windows:]
        listening.cache.crop(len(listening.prompt.before) + windows * self._encoder.window_positions)

    def _fresh_cache(self, prompt: Prompt) -> RowCache:
        kept = self._prompts.get(prompt.before)
        if kept is None:
            return self._decoder.new_cache()
        self._prompts.move_to_end(prompt.before)
        return kept.copy_of_first(kept.length, self._decoder.first_room)

    def _remember_prompt(self, listening: Listening) -> None:
        before = listening.prompt.before
        if before in self._prompts or listening.cache.length < len(before):
            return
        self._prompts[before] = listening.cache.copy_of_first(len(before))
        while len(self._prompts) > _PROMPTS_KEPT:
            self._prompts.popitem(last=False)


def take_in(listening: Listening, pieces: Sequence[Samples]) -> None:
    """Give an utterance the sound that has come."""
    for piece in pieces:
        listening.sound.push(piece)


def _either(stop: Stop, rows: Sequence[_Row]) -> Stop:
    """Something more urgent waits, or nobody wants any of the rows."""
    return lambda: stop() or not any(row.request.is_wanted() for row in rows)
