"""A turn on its way: what is known of it so far, and waiting for its voice or its end.

Fed with the turn's events. Knows no storage and no wire format.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from server.errors import StackChanError
from server.events import ActionChosen, FaceChosen, SentenceStarted, SpeechProduced, TurnEvent
from server.pipeline.request import OpenTurn, TurnResult
from server.pipeline.slots import Claim


class Progress:
    """What a turn has shown so far."""

    def __init__(self) -> None:
        self.speaks = False
        self._emotion: str | None = None
        self._action: str | None = None
        self._said = ""
        self._spoke_or_ended = asyncio.Event()

    def take(self, event: TurnEvent) -> None:
        if isinstance(event, FaceChosen):
            self._emotion = event.emotion
        elif isinstance(event, ActionChosen):
            self._action = event.action
        elif isinstance(event, SentenceStarted):
            # Pieces come without the space that stood between two sentences of a language that has some.
            gap = " " if self._said[-1:].isascii() and self._said and event.text[:1].isascii() else ""
            self._said += gap + event.text
        elif isinstance(event, SpeechProduced):
            self.speaks = True
            self._spoke_or_ended.set()

    def end(self) -> None:
        """Nothing more will come."""
        self._spoke_or_ended.set()

    def over(self, stored: TurnResult) -> TurnResult:
        """`stored` (of a turn that has not ended) with the face, movement and words shown since."""
        return replace(
            stored,
            emotion=self._emotion or stored.emotion,
            action=self._action or stored.action,
            reply=self._said,
        )

    async def wait_for_speech(self, seconds: float) -> None:
        """Return when the first sound exists, when none will come, or after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._spoke_or_ended.wait()
        except TimeoutError:
            pass


@dataclass(frozen=True, slots=True, eq=False)
class StartedTurn:
    """A turn that is stored and on its way. Cancelling who waits for it does not stop it."""

    turn: OpenTurn
    task: asyncio.Task[TurnResult]
    claim: Claim
    progress: Progress

    async def result(self) -> TurnResult:
        """The turn's end. Raises `StackChanError` (`stopping`) when the server stopped during it."""
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.task.cancelled():
                raise stopping() from None
            raise

    async def wait(self, seconds: float) -> bool:
        """Whether the turn ends within so many seconds."""
        done, _ = await asyncio.wait((self.task,), timeout=seconds)
        return bool(done)


def stopping() -> StackChanError:
    return StackChanError("The server is stopping.", code="stopping", retryable=True, hint="Try again in a minute.")
