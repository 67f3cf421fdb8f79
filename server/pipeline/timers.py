"""Timers: set and ended in turns, kept as rows, rung at their time on the device that set them.

One that cannot be heard, since its device is not there or the server was down, waits for the next connection: it does
not run any more, and is told as missed. It goes when it was heard: acknowledged, or said three times; or after a week.
A device that holds no connection, and held none in the last day, cannot ring.
Knows no tool and no connection: devices are found by a function.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from server.errors import RequestError, StackChanError
from server.log_context import error_fields
from server.pipeline.announcing import Outcome
from server.pipeline.timer_speech import ringing_text
from server.storage import timers
from server.storage.database import Databases
from server.storage.records import Timer

_log = logging.getLogger(__name__)

LONGEST_SECONDS = 7 * 86_400
MOST_TIMERS = 20
"""Of one device."""
LABEL_CHARACTERS = 60
MOST_RINGS = 3
MISSED_SECONDS = 300
"""One that is due for longer does not run any more."""
CAME_LATELY = timedelta(days=1)
PAUSE_SECONDS = 8.0
"""Between two rings: so long somebody may answer the first."""
# A clock that is set, or a computer that slept, is noticed after so long.
_LONGEST_WAIT_SECONDS = 30.0
_AFTER_FAILURE_SECONDS = 30.0


class Listener(Protocol):
    """A connected device's conversation, as far as a timer needs it."""

    async def announce(self, text: str, language: str) -> Outcome: ...

    async def attended(self, seconds: float) -> bool:
        """Whether somebody touches the device or speaks to it within `seconds`."""


FindListener = Callable[[str], Listener | None]
"""The conversation of a device; None: it is not connected."""


class Timers:
    """Every device's."""

    def __init__(self, databases: Databases, find: FindListener, *, clock: Callable[[], datetime]) -> None:
        self._databases = databases
        self._find = find
        self._clock = clock
        self._waiting: dict[int, Timer] = {}
        self._ringing: dict[str, asyncio.Task[None]] = {}
        """By device: it says one thing at a time."""
        self._over: set[int] = set()
        """Heard or cancelled, and not yet deleted."""
        self._failed_until: dict[str, float] = {}
        self._came_at: dict[str, datetime] = {}
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up those that a stop has left. Raises `StorageError`."""
        async with self._databases.server(write=False) as db:
            kept = await timers.all_timers(db)
        self._waiting = {timer.timer_id: timer for timer in kept}
        forgotten = self._clock() - timedelta(seconds=LONGEST_SECONDS)
        if old := tuple(timer.timer_id for timer in kept if timer.due_at < forgotten):
            await self._remove(old)
        self._watching = asyncio.create_task(self._watch(), name="timers")

    async def close(self) -> None:
        """Stop ringing; what was not heard stays. Safe to call twice."""
        tasks = [*self._ringing.values(), *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._ringing.clear()
        self._watching = None

    def can_ring(self, device_id: str) -> bool:
        """Whether the device holds a connection, or held one lately."""
        came = self._came_at.get(device_id)
        return self._find(device_id) is not None or (came is not None and self._clock() - came <= CAME_LATELY)

    async def set(
        self, device_id: str, due: int | datetime, label: str, language: str, *, said_at: datetime | None = None
    ) -> Timer:
        """Begin one that is `due` so many seconds after `said_at` (None: now), or at a time of the clock, whose zone
        has a name. What has passed while it was thought about rings at once.

        Raises `RequestError` for one that is too far away or past, or too many; `StorageError`.
        """
        now = said_at or self._clock()
        due_at = due.astimezone(UTC) if isinstance(due, datetime) else now + timedelta(seconds=due)
        if not 1 <= (due_at - now).total_seconds() <= LONGEST_SECONDS:
            raise RequestError("a timer takes from 1 second to 7 days from now on", code="arguments_invalid")
        if len(self.of(device_id)) >= MOST_TIMERS:
            raise RequestError(f"{MOST_TIMERS} timers run already; cancel one first", code="arguments_invalid")
        async with self._databases.server() as db:
            timer = await timers.add_timer(
                db,
                device_id,
                label=label.strip()[:LABEL_CHARACTERS],
                language=language,
                now=now,
                due_at=due_at,
                zone=str(due.tzinfo) if isinstance(due, datetime) else None,
            )
        self._waiting[timer.timer_id] = timer
        self._changed.set()
        return timer

    def of(self, device_id: str) -> tuple[Timer, ...]:
        """Those of a device that run or ring, the next one to ring first; none that was missed."""
        since = self._clock() - timedelta(seconds=MISSED_SECONDS)
        mine = (timer for timer in self._waiting.values() if timer.device_id == device_id and timer.due_at > since)
        return tuple(sorted(mine, key=lambda timer: (timer.due_at, timer.timer_id)))

    async def cancel(self, device_id: str, timer_ids: tuple[int, ...]) -> tuple[Timer, ...]:
        """End these of a device; those that it had. Raises `StorageError`."""
        gone = tuple(timer for timer in self.of(device_id) if timer.timer_id in timer_ids)
        if gone:
            await self._remove(tuple(timer.timer_id for timer in gone))
        return gone

    def device_came(self, device_id: str) -> None:
        """A device has connected: it hears what it has missed."""
        now = self._clock()
        self._came_at = {name: at for name, at in self._came_at.items() if now - at <= CAME_LATELY} | {device_id: now}
        self._failed_until.pop(device_id, None)
        self._changed.set()

    async def _remove(self, timer_ids: tuple[int, ...]) -> None:
        """They are over, whatever becomes of their rows: those that could not be deleted go with the next ones."""
        for timer_id in timer_ids:
            self._waiting.pop(timer_id, None)
        self._over.update(timer_ids)
        self._changed.set()
        over = tuple(self._over)
        async with self._databases.server() as db:
            await timers.remove_timers(db, over)
        self._over.difference_update(over)

    # --- ringing ---

    async def _watch(self) -> None:
        while True:
            self._changed.clear()
            seconds = self._ring_what_is_due()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _ring_what_is_due(self) -> float | None:
        """Begin to ring what is due and can be heard; in how many seconds to look again, None: when told to."""
        now, wait = self._clock(), None
        for timer in sorted(self._waiting.values(), key=lambda timer: (timer.due_at, timer.timer_id)):
            left = (timer.due_at - now).total_seconds()
            if left > 0:
                wait = left if wait is None else min(wait, left)
                continue
            rest = self._failed_until.get(timer.device_id, 0.0) - asyncio.get_running_loop().time()
            if rest > 0:
                wait = rest if wait is None else min(wait, rest)
            elif timer.device_id not in self._ringing and (listener := self._find(timer.device_id)) is not None:
                task = asyncio.create_task(self._ring(timer, listener), name=f"timer-{timer.timer_id}")
                self._ringing[timer.device_id] = task
        return None if wait is None else min(wait, _LONGEST_WAIT_SECONDS)

    async def _ring(self, timer: Timer, listener: Listener) -> None:
        try:
            if await self._is_heard(timer, listener):
                await self._remove((timer.timer_id,))
        except StackChanError as error:
            _log.error("a timer could not be rung: %s", error.code, extra=error_fields(error))
            self._failed_until[timer.device_id] = asyncio.get_running_loop().time() + _AFTER_FAILURE_SECONDS
        except Exception as error:  # a defect must not end all timers
            _log.error("a timer could not be rung", exc_info=error)
            self._failed_until[timer.device_id] = asyncio.get_running_loop().time() + _AFTER_FAILURE_SECONDS
        finally:
            self._ringing.pop(timer.device_id, None)
            self._changed.set()

    async def _is_heard(self, timer: Timer, listener: Listener) -> bool:
        """Say it until somebody answers, three times at most. False: the device has gone."""
        for ring in range(MOST_RINGS):
            if timer.timer_id not in self._waiting:
                return True  # cancelled meanwhile
            if self._find(timer.device_id) is not listener:
                return False
            outcome = await listener.announce(ringing_text(timer, self._clock()), timer.language)
            if outcome == "gone":
                return False
            if outcome == "attended" or (ring < MOST_RINGS - 1 and await listener.attended(PAUSE_SECONDS)):
                break
        return True
