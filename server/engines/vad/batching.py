"""Windows of many streams through one model: whatever waits at the same moment is looked at together.

A stream's windows depend on each other, so a round takes at most one of each stream, the oldest; streams take turns.
Rounds run on the model's thread, a few at a time, so that a whole recording never makes a live stream wait. Nobody
waits for a batch to fill. Knows neither the model nor what its probabilities mean.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from server.engines.worker import ModelThread
from server.errors import StackChanError, VadError
from server.events import Samples

State = TypeVar("State")

_ROUNDS_AT_ONCE = 8
_WINDOWS_AT_ONCE = 32
"""After so many rounds or windows, newcomers are let in: that is about every 2 ms, whatever else waits."""
_WIDEST_ROUND = 32
"""More streams than this go in two rounds: a wider one takes longer and saves nothing."""


class WindowModel(Protocol[State]):
    """What `VadBatcher` needs of a model; both are called on the model's thread."""

    def fresh_state(self) -> State:
        """The state of a stream that begins."""

    def probabilities(self, states: Sequence[State], windows: Samples) -> list[float]:
        """One window of each stream, shape (n, window_samples); moves each state on."""


@dataclass(eq=False, slots=True)
class _Push:
    """The whole windows of one call, shape (n, window_samples), and how far they are."""

    windows: Samples
    done: asyncio.Future[list[float]]
    probabilities: list[float] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return len(self.probabilities) >= len(self.windows)


class BatchedStream(Generic[State]):
    """Implements `VadStream`: one audio stream of a `VadBatcher`. Made by `open_stream()`."""

    def __init__(self, batcher: VadBatcher[State]) -> None:
        self._batcher = batcher
        self._rest: Samples = np.zeros(0, np.float32)
        self._closed = False
        self.state: State | None = None
        """None: fresh. Changed on the model's thread only."""
        self.waiting: deque[_Push] = deque()

    async def push(self, samples: Samples) -> list[float]:
        """Speech probabilities in [0, 1] of the windows that became whole; float32, shape (n,), 16 kHz, any n.

        What is left over waits for the next call. Calls for one stream are answered in the order they were made. A
        call whose stream is closed, before or meanwhile, gives what was looked at. One that is cancelled takes back
        what was not. Raises `VadError`; the stream begins afresh then.
        """
        if self._closed:
            return []
        if samples.ndim != 1:
            raise VadError(f"A piece of sound has the shape (n,), this one {samples.shape}.")
        size = self._batcher.window_samples
        heard = np.concatenate([self._rest, samples.astype(np.float32, copy=False)])
        whole = len(heard) // size * size
        self._rest = heard[whole:].copy()
        return await self._batcher.look(self, heard[:whole].reshape(-1, size)) if whole else []

    def close(self) -> None:
        """Drop what waits. Safe to call twice."""
        self._closed = True
        self._rest = self._rest[:0]
        while self.waiting:
            push = self.waiting.popleft()
            if not push.done.done():
                push.done.set_result(list(push.probabilities))

    def fail(self, error: Exception) -> None:
        """Everything that waits fails, and what comes later meets a fresh state."""
        self.state, self._rest = None, self._rest[:0]
        while self.waiting:
            push = self.waiting.popleft()
            if not push.done.done():
                push.done.set_exception(error)

    def next_push(self) -> _Push | None:
        """The oldest call that still wants something."""
        while self.waiting:
            push = self.waiting[0]
            if not push.done.done() and not push.finished:
                return push
            self.waiting.popleft()
        return None


class VadBatcher(Generic[State]):
    """Lets the streams of one event loop share `model` on `thread`."""

    def __init__(self, thread: ModelThread, model: WindowModel[State], window_samples: int) -> None:
        self.window_samples = window_samples
        self._thread = thread
        self._model = model
        self._line: dict[BatchedStream[State], None] = {}
        """Streams with something to look at; who was looked at goes to the end."""
        self._worker: asyncio.Task[None] | None = None

    def open_stream(self) -> BatchedStream[State]:
        return BatchedStream(self)

    async def look(self, stream: BatchedStream[State], windows: Samples) -> list[float]:
        """Wait until these windows of the stream have had their turns."""
        push = _Push(windows, asyncio.get_running_loop().create_future())
        stream.waiting.append(push)
        self._line.setdefault(stream)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await push.done

    async def _work(self) -> None:
        """Until nobody waits: a few rounds on the thread, then let newcomers in and tell those who are served."""
        try:
            while pushes := self._next_in_line():
                try:
                    await self._thread.call(self._rounds, pushes)
                except StackChanError as error:
                    for stream in pushes:
                        stream.fail(error)
                    continue
                for stream, push in pushes.items():
                    _tell(stream, push)
        finally:  # also when the loop ends under way: nobody may wait for ever
            for stream in self._line:
                stream.fail(VadError("Voice activity was stopped.", code="engine_unavailable"))
            self._line.clear()

    def _next_in_line(self) -> dict[BatchedStream[State], _Push]:
        """The streams of the next rounds, first those who have waited longest, each with its oldest call."""
        for stream in [stream for stream in self._line if stream.next_push() is None]:
            del self._line[stream]
        chosen: dict[BatchedStream[State], _Push] = {}
        for stream in list(self._line)[:_WIDEST_ROUND]:
            push = stream.next_push()
            if push is not None:
                chosen[stream] = push
                self._line[stream] = self._line.pop(stream)
        return chosen

    def _rounds(self, pushes: dict[BatchedStream[State], _Push]) -> None:
        """On the model's thread: one window of each stream a round."""
        looked_at = 0
        for _ in range(_ROUNDS_AT_ONCE):
            going = [(stream, push) for stream, push in pushes.items() if not push.finished and not push.done.done()]
            if not going or looked_at >= _WINDOWS_AT_ONCE:
                return
            looked_at += len(going)
            states = [self._model.fresh_state() if stream.state is None else stream.state for stream, _ in going]
            windows = np.stack([push.windows[len(push.probabilities)] for _, push in going])
            probabilities = self._model.probabilities(states, windows)
            for (stream, push), state, probability in zip(going, states, probabilities, strict=True):
                stream.state = state
                push.probabilities.append(probability)


def _tell(stream: BatchedStream[Any], push: _Push) -> None:
    """Answer a call that is served; numbers that are none would pass for silence, for ever."""
    if not all(map(math.isfinite, push.probabilities)):
        stream.fail(VadError("The voice-activity engine gave numbers that are none."))
    elif push.finished and not push.done.done():
        push.done.set_result(push.probabilities)
