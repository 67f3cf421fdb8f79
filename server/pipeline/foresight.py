"""What can be known and prepared of a device's next turn before it is begun.

Reads the conversation so far, hears words while their end is waited for, and begins an answer, and its voice, where
nobody else needs the models. Stores no word and runs no tool. Knows the stages' own functions, so that what is begun
early is what the turn will ask for; not sound, endpoints or devices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from functools import partial
from typing import Protocol

from server.engines.base import Engines, SpeechRequest, StreamingAsr
from server.errors import StackChanError
from server.events import Pcm16, Utterance
from server.persona import Persona
from server.pipeline.ahead import Ahead
from server.pipeline.answer import AnswerReader
from server.pipeline.expected_words import expected_words
from server.pipeline.hearing import understand
from server.pipeline.live_ear import LiveEar, open_ear
from server.pipeline.parts import HotWords, TurnSettings
from server.pipeline.request import Heard, OpenTurn, TurnRequest
from server.pipeline.speaking import synthesized
from server.pipeline.speculation import HeldCompletion
from server.pipeline.speech_ahead import HeldAnswer, OnEarlyCall, SpeechAhead
from server.pipeline.thinking import Thinker
from server.pipeline.trace import TurnTrace

_log = logging.getLogger(__name__)


class ExpectingJournal(Protocol):
    """Where conversations are kept."""

    async def expect(self, request: TurnRequest, now: datetime) -> OpenTurn:
        """The conversation that a turn of this device would belong to now; the number of the turn is 0."""

    async def look_again(self, expected: OpenTurn, now: datetime) -> OpenTurn:
        """The same, with what was said since."""


class Foresight:
    """Looks ahead for every live conversation of a server. `idle`: whether the models have nothing else to do."""

    def __init__(
        self,
        engines: Engines,
        persona: Persona,
        journal: ExpectingJournal,
        settings: TurnSettings,
        thinker: Thinker,
        *,
        clock: Callable[[], datetime],
        hot_words: HotWords | None,
        idle: Callable[[], bool],
        answer_early: bool,
        on_early_call: OnEarlyCall | None = None,
    ) -> None:
        self._engines = engines
        self._persona = persona
        self._journal = journal
        self._settings = settings
        self._thinker = thinker
        self._clock = clock
        self._hot_words = hot_words
        self._idle = idle
        self._answer_early = answer_early
        self._on_early_call = on_early_call
        self._reading: asyncio.Task[None] | None = None

    async def expect(self, device: TurnRequest) -> OpenTurn:
        """The conversation that this device is in, opened when it is new. Raises `AuthError`, `StorageError`."""
        return await self._journal.expect(device, self._clock())

    def read_ahead(self, expected: OpenTurn) -> None:
        """Somebody has begun to speak: let a model that reads slowly read what comes before their words."""
        alone = self._engines.llm.capabilities.one_at_a_time
        if alone and self._idle() and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read_ahead(expected), name="read-ahead")

    async def _read_ahead(self, expected: OpenTurn) -> None:
        try:
            turn = await self._journal.look_again(expected, self._clock())
            last = turn.history.exchanges[-1].language if turn.history.exchanges else self._persona.languages[0]
            heard = Heard("", last)
            history = await self._thinker.history(turn, heard)
            request = self._thinker.request(turn, heard, history)
            if self._engines.llm.capabilities.native_tools:  # they stand before the conversation
                request = await self._thinker.first_request(turn, heard) or request
            # All but the empty words at its end.
            await self._engines.llm.read_ahead(request.messages[:-1], request.tools)
        except StackChanError as error:
            _log.warning("the prompt was not read ahead: %s", error.code)
        except Exception as error:  # an extra must not cost the turn
            _log.error("the prompt could not be read ahead", exc_info=error)

    async def open_ear(self, expected: OpenTurn) -> LiveEar | None:
        """Somebody has begun to speak: an ear for it, where the engine can hear while they speak."""
        if not isinstance(self._engines.asr, StreamingAsr):
            return None
        words = await expected_words(self._hot_words, self._engines.asr, expected)
        return open_ear(self._engines.asr, expected, self._persona, words)

    def ahead(
        self,
        expected: OpenTurn,
        utterance: Utterance,
        trace: TurnTrace,
        *,
        answer: bool = True,
        ear: LiveEar | None = None,
    ) -> Ahead:
        """Hear what may be a whole utterance, and begin its answer unless `answer` is false. `ear`: heard it so far."""
        begin = partial(self._begin, expected) if self._answer_early and answer else None
        return Ahead(self._hear(expected, utterance, trace, ear), begin)

    async def _hear(
        self, expected: OpenTurn, utterance: Utterance, trace: TurnTrace, ear: LiveEar | None
    ) -> Heard | None:
        if ear is not None:
            words, stream = ear.hot_words, ear.stream
        else:
            words, stream = await expected_words(self._hot_words, self._engines.asr, expected), None
        return await understand(utterance, self._engines, self._persona, self._settings, trace, words, stream)

    async def _begin(self, expected: OpenTurn, hearing: asyncio.Future[Heard | None]) -> HeldAnswer | None:
        # What was said before is read while the words are still being heard.
        turn = await self._journal.look_again(expected, self._clock()) if self._idle() else None
        heard = await asyncio.shield(hearing)
        # A model that does one thing at a time must not keep somebody else's turn waiting for a guess.
        if turn is None or heard is None or not self._idle():
            return None
        request = await self._thinker.first_request(turn, heard)
        if request is None or not self._idle():
            return None
        emotions, actions = (
            frozenset(one.id for one in ids) for ids in (self._persona.emotions, self._persona.actions)
        )
        tools = [tool.spec.name for tool in self._thinker.tools]
        speech = SpeechAhead(AnswerReader(emotions, actions, tools), heard.language, self._speak)
        return HeldAnswer(HeldCompletion(self._engines.llm, request, speech.notice), speech, self._on_early_call)

    def _speak(self, request: SpeechRequest) -> AsyncGenerator[Pcm16, None]:
        return synthesized(self._engines.tts, request, self._settings.speech_sample_rate_hz)
