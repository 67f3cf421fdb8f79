"""What a turn has that is spoken live rather than uploaded: words heard early, an answer begun early, an end by word.

Plain values between `conversation.py`, which makes them, and the stages of a turn, which use them. Knows no stage, no
device and no clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from server.pipeline.speech_ahead import HeldAnswer


class Playback(Protocol):
    """How the device gets on with the sound of a turn."""

    async def final_ms(self) -> float:
        """How much of the turn's sound was played until it was stopped, in milliseconds; never more than was sent."""

    async def played_out(self) -> None:
        """Return when all that was sent is played, or when nobody is there to play it any more."""


@dataclass(slots=True, eq=False)
class LiveTurn:
    """One turn's. `hear`: waits for the words, of which a part may be known already."""

    playback: Playback
    held: HeldAnswer | None = None
    """An answer that may have been begun; whoever ends the turn drops it."""
    too_long: bool = False
    """The utterance was ended because it was too long, not because nobody spoke any more."""
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    """Why it was interrupted, for the trace."""
    models_free: Callable[[], None] = lambda: None
    """Called when the turn needs no model any more and only plays."""

    def interrupt(self, reason: str) -> None:
        """End the turn where it is. Safe to call twice; the first reason counts."""
        if not self.interrupted.is_set():
            self.reason = reason
            self.interrupted.set()

    async def unless_interrupted(self, work: Awaitable[object]) -> bool:
        """Do `work`, cancelled when the turn is interrupted: False then, also when it has just ended, as what waits for
        the end of a playing that is stopped. Raises what the work raises.
        """
        doing = asyncio.ensure_future(work)
        cut = asyncio.ensure_future(self.interrupted.wait())
        try:
            await asyncio.wait({doing, cut}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cut.cancel()
            doing.cancel()
            await asyncio.gather(doing, cut, return_exceptions=True)
        if doing.cancelled():
            return False
        doing.result()
        return not self.interrupted.is_set()
