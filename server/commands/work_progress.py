"""Long work as a person sees it: a bar with its speed on a terminal, a line every few seconds elsewhere.

Only shown once the work takes longer than two seconds. Knows numbers and what they count, no work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from server.commands.progress import PLAIN_INTERVAL_SECONDS, Throttle
from server.commands.terminal import Terminal

SHOW_AFTER_SECONDS = 2.0
_MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class Unit:
    """What is counted. `per`: how many of the number told make one of what is shown."""

    name: str
    per: float = 1.0
    decimals: int = 0

    def amount(self, number: float) -> str:
        return f"{number / self.per:,.{self.decimals}f}"

    def rate(self, number: float) -> str:
        """As an amount; slow work with one decimal, since 0 would be wrong."""
        shown = number / self.per
        return f"{shown:,.1f}" if 0 < shown < 10 else self.amount(number)


MEMORIES = Unit("memories")
MEGABYTES = Unit("MB", _MEGABYTE, 1)

Advance = Callable[[int, int | None], None]
"""Told how many are done, and of how many; None where nobody knows."""


@contextmanager
def work_progress(
    terminal: Terminal, label: str, unit: Unit, *, monotonic: Callable[[], float] = time.monotonic
) -> Iterator[Advance]:
    """A listener that suits the terminal; what it drew is gone when the block ends."""
    if not terminal.can_draw:
        yield _PlainWork(terminal, label, unit, monotonic)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[told]}", markup=False),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=terminal.err, transient=True)
    try:
        yield _DrawnWork(bars, label, unit, monotonic)
    finally:
        bars.stop()


class _Speed:
    """What is told of the work: how far it is and how fast since the first call."""

    def __init__(self, unit: Unit, monotonic: Callable[[], float]) -> None:
        self._unit = unit
        self._monotonic = monotonic
        self._began = monotonic()

    @property
    def seconds(self) -> float:
        return self._monotonic() - self._began

    def told(self, done: int, total: int | None) -> str:
        unit = self._unit
        so_far = unit.amount(done) if total is None else f"{unit.amount(done)} of {unit.amount(total)}"
        rate = done / self.seconds if self.seconds > 0 else 0.0
        return f"{so_far} {unit.name}, {unit.rate(rate)} {unit.name}/s"


class _DrawnWork:
    def __init__(self, bars: Progress, label: str, unit: Unit, monotonic: Callable[[], float]) -> None:
        self._bars = bars
        self._label = label
        self._speed = _Speed(unit, monotonic)
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int | None) -> None:
        if self._task is None:
            if self._speed.seconds < SHOW_AFTER_SECONDS:
                return
            self._bars.start()
            self._task = self._bars.add_task(self._label, total=total, told="")
        self._bars.update(self._task, completed=done, total=total, told=self._speed.told(done, total))


class _PlainWork:
    def __init__(self, terminal: Terminal, label: str, unit: Unit, monotonic: Callable[[], float]) -> None:
        self._terminal = terminal
        self._label = label
        self._speed = _Speed(unit, monotonic)
        self._throttle = Throttle(PLAIN_INTERVAL_SECONDS, monotonic)

    def __call__(self, done: int, total: int | None) -> None:
        if self._speed.seconds >= SHOW_AFTER_SECONDS and self._throttle.is_due():
            self._terminal.note(f"{self._label}: {self._speed.told(done, total)}")
