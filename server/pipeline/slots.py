"""A fixed number of places to work in, given strictly in the order they were asked for.

Also knows how long places were held lately, to tell others how long they will wait. Knows nothing of turns.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from server.errors import StackChanError

_REMEMBERED = 20
_FIRST_GUESS_SECONDS = 3.0
_LONGEST_WAIT_SECONDS = 60


class Claim:
    """One who wants a place, has it, or has given it back."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._called = asyncio.Event()
        self.held_since: float | None = None
        """Monotonic seconds; None: still waiting."""
        self.refusal: StackChanError | None = None

    async def wait(self) -> None:
        """Return when the place is ours. Raises what `Slots.close` was given."""
        await self._called.wait()
        if self.refusal is not None:
            raise self.refusal

    def release(self) -> None:
        """Give the place, or the hope of one, back. Safe to call twice."""
        self._slots.release(self)

    def call(self, now: float | None, refusal: StackChanError | None = None) -> None:
        self.held_since, self.refusal = now, refusal
        self._called.set()


class Slots:
    """`count` places. `monotonic` returns seconds."""

    def __init__(self, count: int, monotonic: Callable[[], float]) -> None:
        self.count = count
        self._monotonic = monotonic
        self._held: dict[Claim, float] = {}
        self._waiting: deque[Claim] = deque()
        self._durations: deque[float] = deque(maxlen=_REMEMBERED)
        self._closed: StackChanError | None = None

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def claim(self) -> Claim:
        """Stand in line; the place is ours at once (`held_since` is set) when one is free."""
        claim = Claim(self)
        self._waiting.append(claim)
        self._call_next()
        return claim

    def release(self, claim: Claim) -> None:
        if claim in self._held:
            self._durations.append(self._monotonic() - self._held.pop(claim))
        elif claim in self._waiting:
            self._waiting.remove(claim)
        self._call_next()

    def close(self, refusal: StackChanError) -> None:
        """Nobody gets a place any more: those who wait for one are refused."""
        self._closed = refusal
        self._call_next()

    def position(self, claim: Claim) -> int:
        """How many are served before this one; 0 for who has a place or is next."""
        return self._waiting.index(claim) if claim in self._waiting else 0

    def seconds_for(self, places: int) -> int:
        """A fair guess of the time until so many of the places that are held or waited for have been free, 1 to 60."""
        return max(1, min(_LONGEST_WAIT_SECONDS, math.ceil(self._typical_seconds() * places / self.count)))

    def _typical_seconds(self) -> float:
        if self._durations:
            return sum(self._durations) / len(self._durations)
        now = self._monotonic()
        return max([_FIRST_GUESS_SECONDS, *(now - since for since in self._held.values())])

    def _call_next(self) -> None:
        while self._waiting and (self._closed is not None or len(self._held) < self.count):
            claim = self._waiting.popleft()
            if self._closed is not None:
                claim.call(None, self._closed)
            else:
                self._held[claim] = self._monotonic()
                claim.call(self._held[claim])
