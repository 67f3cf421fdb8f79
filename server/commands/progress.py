"""Downloads as a person sees them: bars on a terminal, a line every few seconds elsewhere.

Both are `ProgressListener`s; calls may come from the thread that does the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from server.commands.terminal import Terminal, printable

if TYPE_CHECKING:
    from server.engines.downloads import ProgressListener

PLAIN_INTERVAL_SECONDS = 5.0


class Throttle:
    """Lets something happen at once and then at most every `interval_seconds`."""

    def __init__(self, interval_seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._interval_seconds = interval_seconds
        self._monotonic = monotonic
        self._last: float | None = None

    def is_due(self) -> bool:
        """Whether it may happen now; if so, the time counts from here."""
        now = self._monotonic()
        if self._last is not None and now - self._last < self._interval_seconds:
            return False
        self._last = now
        return True


@contextmanager
def download_progress(terminal: Terminal) -> Iterator[ProgressListener]:
    """A listener that suits the terminal; its bars are gone or final when the block ends."""
    if not terminal.can_draw:
        yield PlainProgress(lambda line: terminal.note(line))
        return
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=terminal.err,
    )
    with bars:
        yield BarProgress(bars)


class BarProgress:
    """One bar a label."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def started(self, label: str, total_bytes: int) -> None:
        if label in self._tasks:
            self._bars.reset(self._tasks[label], total=total_bytes)
        else:
            self._tasks[label] = self._bars.add_task(printable(label), total=total_bytes)

    def advanced(self, label: str, n: int) -> None:
        if label in self._tasks:
            self._bars.advance(self._tasks[label], n)

    def finished(self, label: str) -> None:
        if label in self._tasks:
            self._bars.stop_task(self._tasks[label])

    def message(self, text: str) -> None:
        self._bars.console.print(printable(text), markup=False, highlight=False)


@dataclass(slots=True)
class _Work:
    total_bytes: int
    started_at: float
    done_bytes: int = 0
    first_bytes: int | None = None
    """Bytes that were there already when the first new ones came: they do not count as speed."""


class PlainProgress:
    """Lines for logs and pipes: the start, at most one line every five seconds, and the end of each label."""

    def __init__(self, write: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._monotonic = monotonic
        self._throttle = Throttle(PLAIN_INTERVAL_SECONDS, monotonic)
        self._work: dict[str, _Work] = {}
        self._lock = threading.Lock()

    def started(self, label: str, total_bytes: int) -> None:
        with self._lock:
            self._work[label] = _Work(total_bytes, self._monotonic())
            self._write(f"{label}: {_megabytes(total_bytes)}")
            # The start counts as a line: the next one comes when there is something to tell.
            self._throttle.is_due()

    def advanced(self, label: str, n: int) -> None:
        with self._lock:
            work = self._work.get(label)
            if work is None:
                return
            work.done_bytes += n
            if work.first_bytes is None:
                work.first_bytes = work.done_bytes
            if work.done_bytes < work.total_bytes and self._throttle.is_due():
                self._write(f"{label}: {self._state(work)}")

    def finished(self, label: str) -> None:
        with self._lock:
            work = self._work.pop(label, None)
            if work is not None and work.done_bytes >= work.total_bytes:
                self._write(f"{label}: done in {self._monotonic() - work.started_at:.1f} s")

    def message(self, text: str) -> None:
        with self._lock:
            self._write(text)

    def _state(self, work: _Work) -> str:
        seconds = self._monotonic() - work.started_at
        percent = 100 * work.done_bytes / work.total_bytes if work.total_bytes else 100
        state = f"{percent:.0f} % of {_megabytes(work.total_bytes)}"
        speed = (work.done_bytes - (work.first_bytes or 0)) / seconds if seconds > 0 else 0
        if speed > 0:
            left_seconds = (work.total_bytes - work.done_bytes) / speed
            state += f", {speed / 1e6:.1f} MB/s, {left_seconds:.0f} s left"
        return state


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
