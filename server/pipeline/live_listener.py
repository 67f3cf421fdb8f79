"""The listening half of a live conversation: microphone sound in, whole utterances out, their words begun early.

Decides when ears are opened and what is done at each silence; knows no turn but whether one runs, no device, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from server.audio.endpointing import (
    EndpointEvent,
    EndpointSettings,
    SilenceNoticed,
    SpeechResumed,
    SpeechStarted,
    UtteranceEnded,
)
from server.engines.base import VadEngine
from server.events import Samples, Utterance
from server.pipeline.ahead import Ahead
from server.pipeline.ears import Ears
from server.pipeline.foresight import Foresight
from server.pipeline.live_ear import LiveEar, OnWords
from server.pipeline.request import OpenTurn
from server.pipeline.trace import TurnTrace

ListenMode = Literal["auto", "manual", "realtime"]
"""Who finds the end of an utterance: the server, the person's finger, or the server with a microphone always open."""


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said, as sound. `ahead`: what was done before its end was certain; whoever gets it ends it."""

    samples: Samples
    trace: TurnTrace
    """Begun at the end of the speech."""
    ahead: Ahead | None = None
    too_long: bool = False


class LiveListener:
    """One device's. What may be whole is heard at the beginning of a silence rather than at its end."""

    def __init__(
        self,
        vad: VadEngine,
        foresight: Foresight,
        settings: EndpointSettings,
        new_trace: Callable[[float], TurnTrace],
    ) -> None:
        self._vad = vad
        self._foresight = foresight
        self._settings = settings
        self._new_trace = new_trace
        self._ears: Ears | None = None
        self._ahead: Ahead | None = None
        self._ear: LiveEar | None = None
        """Of the utterance that goes on, where its words are heard while it is spoken."""
        self.on_words: OnWords = lambda text: None
        self._trace: TurnTrace | None = None
        self._wasted_answers = 0
        """How many were begun in this utterance before it was over: each costs a call of the model."""

    @property
    def is_open(self) -> bool:
        return self._ears is not None

    @property
    def speech_seconds(self) -> float:
        """How much of what is being said was speech; 0.0: nobody speaks."""
        return self._ears.endpointer.speech_seconds if self._ears is not None else 0.0

    async def open(self) -> None:
        """Listen from now on; what was heard before is forgotten. Raises `VadError`."""
        ears, self._ears = self._ears, None
        if ears is not None:
            ears.close()
        self._drop_ear()
        await self._drop_ahead()
        self._ears = Ears(self._vad, self._settings)

    async def shut(self) -> None:
        """Listen to nothing; what was begun early is dropped. Safe to call twice."""
        ears, self._ears = self._ears, None
        if ears is not None:
            ears.close()
        self._drop_ear()
        await self._drop_ahead()

    async def hear(self, samples: Samples, mode: ListenMode, expected: OpenTurn | None) -> list[Said]:
        """Take sound: float32 mono at 16 kHz, any length. Utterances that ended in it. Raises `VadError`.

        `expected`: the conversation that a turn would belong to; None while one runs, and nothing is begun early then.
        """
        ears = self._ears
        if ears is None:
            return []
        events = await ears.hear(samples)
        if self._ears is not ears:
            return []  # shut meanwhile
        if mode == "manual":
            too_long = ears.endpointer.now_seconds >= self._settings.longest_seconds
            return [await self._whole(ears, too_long=True)] if too_long else []
        if self._ear is not None:
            self._ear.push(samples)
        said = [utterance for event in events if (utterance := await self._take(ears, event, expected))]
        ears.forget()
        return said

    async def finish(self, mode: ListenMode) -> Said | None:
        """The microphone was shut: what was being said, if anything. In `manual` all that was heard."""
        ears = self._ears
        if ears is None:
            return None
        if mode == "manual":
            return await self._whole(ears, too_long=False)
        for event in ears.finish():
            if isinstance(event, UtteranceEnded):
                return self._ended(ears, event)
        return None

    async def _take(self, ears: Ears, event: EndpointEvent, expected: OpenTurn | None) -> Said | None:
        if isinstance(event, UtteranceEnded):
            return self._ended(ears, event)
        if isinstance(event, SpeechResumed):
            await self._drop_ahead()
        elif isinstance(event, SpeechStarted):
            await self._drop_ahead()  # of whatever was said before: these are other words
            self._wasted_answers = 0
            if expected is not None:
                self._foresight.read_ahead(expected)
                await self._open_ear(ears, event.start_seconds, expected)
        elif isinstance(event, SilenceNoticed) and expected is not None:
            await self._drop_ahead()
            start_seconds = ears.endpointer.start_seconds
            if start_seconds is None or start_seconds >= event.at_seconds:
                return None  # much sound came at once, and its end is in it, too
            self._trace = self._new_trace(event.at_seconds - event.speech_end_seconds)
            utterance = Utterance(ears.cut(start_seconds, event.at_seconds))
            # Who pauses once in a sentence does so again: one guess is enough.
            answer = not self._wasted_answers
            self._ahead = self._foresight.ahead(expected, utterance, self._trace, answer=answer, ear=self._ear)
        return None

    def _ended(self, ears: Ears, event: UtteranceEnded) -> Said:
        ahead, trace, ear = self._ahead, self._trace, self._ear
        self._ahead = self._trace = self._ear = None
        samples = ears.cut(event.start_seconds, event.end_seconds)
        if ahead is None or trace is None:
            trace = self._new_trace(event.at_seconds - event.speech_end_seconds)
        if ear is not None:
            if ahead is None:
                ahead = self._foresight.ahead(ear.expected, Utterance(samples), trace, answer=False, ear=ear)
            ear.be_silent()
            ahead.heard.add_done_callback(lambda heard: ear.close())
        trace.early_calls_wasted = self._wasted_answers
        return Said(samples, trace, ahead, event.too_long)

    async def _open_ear(self, ears: Ears, start_seconds: float, expected: OpenTurn) -> None:
        """Begin to hear what is being said, from its beginning on."""
        self._drop_ear()
        ear = await self._foresight.open_ear(expected)
        if ear is None:
            return
        if self._ears is not ears:  # shut meanwhile
            ear.close()
            return
        self._ear = ear
        ear.push(ears.cut(start_seconds))
        ear.tell(self.on_words)

    def _drop_ear(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()

    async def _whole(self, ears: Ears, *, too_long: bool) -> Said:
        samples = ears.cut(0.0)
        await self.open()
        return Said(samples, self._new_trace(0.0), None, too_long)

    async def _drop_ahead(self) -> None:
        ahead, self._ahead, self._trace = self._ahead, None, None
        if ahead is not None:
            self._wasted_answers += ahead.began_answer
            await ahead.drop()
