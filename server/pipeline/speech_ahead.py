"""The voice of an answer that is only held: its first clause is made into sound while the endpoint is waited for.

Reads what the model writes as a turn would, up to the first words that can be spoken. Nothing of it is heard before a
turn asks for the very same words. Knows no model, no voice and no turn: sound comes from a function.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Literal

from server.engines.base import LlmDelta, LlmText, Need, SpeechRequest
from server.events import Pcm16
from server.pipeline.answer import AnswerReader, EmotionRead, ReplyRead
from server.pipeline.sentences import SentenceCutter
from server.pipeline.speakable import speakable
from server.pipeline.speculation import HeldCompletion, HeldSpeech

_log = logging.getLogger(__name__)

Speak = Callable[[SpeechRequest], AsyncGenerator[Pcm16, None]]
"""A piece of text as int16 mono at the rate of speech."""

Fate = Literal["used", "wasted"]
OnEarlyCall = Callable[[Fate], None]
"""Told of each call of the model that was begun before it was asked for."""


class SpeechAhead:
    """One answer's. `language`: ISO 639-1, the turn's. Must end in `sound_of` or `drop`."""

    def __init__(self, reader: AnswerReader, language: str, speak: Speak) -> None:
        self.held: HeldSpeech | None = None
        self._reader = reader
        self._language = language
        self._speak = speak
        self._cutter = SentenceCutter()
        self._emotion = "neutral"
        self._over = False

    @property
    def fate(self) -> Fate | None:
        """For the trace: None when nothing was spoken."""
        return None if self.held is None else "used" if self.held.used else "wasted"

    def notice(self, delta: LlmDelta) -> None:
        """The model has written more. Never raises."""
        if self._over or not isinstance(delta, LlmText):
            return
        try:
            self._read(delta.text)
        except Exception as error:  # an extra must not cost the answer
            self._over = True
            _log.error("an answer could not be spoken early", exc_info=error)

    async def sound_of(self, request: SpeechRequest) -> AsyncGenerator[Pcm16, None] | None:
        """The sound of the first piece that a turn speaks, if it is of exactly this; else it is thrown away. Once."""
        self._over = True
        held = self.held
        if held is None or held.used:
            return None
        if held.request == request and not held.failed:
            return held.take()
        await held.drop()
        return None

    async def drop(self) -> None:
        """Nobody needs it. Safe to call twice."""
        self._over = True
        if self.held is not None:
            await self.held.drop()

    def _read(self, text: str) -> None:
        for part in self._reader.feed(text):
            if isinstance(part, EmotionRead):
                self._emotion = part.emotion
            elif isinstance(part, ReplyRead):
                for piece in self._cutter.feed(part.text):
                    if spoken := speakable(piece, self._language):
                        self._over = True
                        request = SpeechRequest(spoken, self._language, self._emotion, Need.NEXT)
                        self.held = HeldSpeech(request, self._speak(request))
                        return


class HeldAnswer:
    """An answer that was begun: what the model writes, and the sound of its first words. Must end in `drop`.

    `on_end`: told once what became of the model's work; must not raise.
    """

    def __init__(
        self, completion: HeldCompletion, speech: SpeechAhead | None = None, on_end: OnEarlyCall | None = None
    ) -> None:
        self.completion = completion
        self.speech = speech
        self._on_end = on_end

    @property
    def fate(self) -> Fate:
        """What has become of the model's work until now."""
        return "used" if self.completion.used else "wasted"

    async def drop(self) -> None:
        """What nobody took is thrown away; returns when the engines have let go. Safe to call twice."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.fate)
        await self.completion.drop()
        if self.speech is not None:
            await self.speech.drop()
