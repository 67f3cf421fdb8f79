"""Many streams through one voice-activity model: batches, turns, order, and what becomes of those who leave."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.endpointing import Endpointer, EndpointEvent
from server.engines.vad.batching import BatchedStream, VadBatcher
from server.engines.worker import ModelThread
from server.errors import VadError

pytestmark = pytest.mark.unit

WINDOW = 4


@dataclass
class Counter:
    """A stream's state: how many windows it has had."""

    windows: int = 0


class Model:
    """A window's first sample is its probability; with a state that must be the stream's own, in order."""

    def __init__(self) -> None:
        self.rounds: list[list[float]] = []
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.error: Exception | None = None

    def fresh_state(self) -> Counter:
        return Counter()

    def probabilities(self, states: Sequence[Counter], windows: np.ndarray) -> list[float]:
        self.entered.set()
        assert self.gate.wait(10)
        self.threads.add(threading.get_ident())
        if self.error is not None:
            raise self.error
        assert len({id(state) for state in states}) == len(states) == len(windows), "one window of each stream"
        assert windows.shape[1] == WINDOW
        for state in states:
            state.windows += 1
        self.rounds.append([float(window[0]) for window in windows])
        return [float(window[0]) for window in windows]


@dataclass
class Set:
    batcher: VadBatcher[Counter]
    model: Model
    thread: ModelThread


@pytest.fixture
async def parts() -> AsyncIterator[Set]:
    model, thread = Model(), ModelThread("test", VadError)
    await thread.start(lambda: None)
    yield Set(VadBatcher(thread, model, WINDOW), model, thread)
    model.gate.set()
    await thread.close()


def windows(*values: float) -> np.ndarray:
    return np.repeat(np.array(values, np.float32), WINDOW)


def soon(*calls: object) -> list[asyncio.Task[list[float]]]:
    return [asyncio.ensure_future(call) for call in calls]  # type: ignore[call-overload]


async def held(parts: Set, stream: BatchedStream[Counter] | None = None) -> asyncio.Task[list[float]]:
    """A call that occupies the model until its gate opens."""
    parts.model.gate.clear()
    parts.model.entered.clear()
    (task,) = soon((stream or parts.batcher.open_stream()).push(windows(0.5)))
    assert await asyncio.to_thread(parts.model.entered.wait, 10)
    return task


async def test_whole_windows_are_answered_and_the_rest_waits(parts: Set) -> None:
    stream = parts.batcher.open_stream()
    sound = windows(0.25, 0.5, 0.75)
    assert await stream.push(sound[:3]) == []
    assert await stream.push(sound[3:9]) == [0.25, 0.5]
    assert await stream.push(sound[9:]) == [0.75]
    assert await stream.push(sound[:0]) == []
    assert parts.model.threads.isdisjoint({threading.get_ident()}), "never on the loop"


async def test_streams_that_wait_at_the_same_moment_go_through_together(parts: Set) -> None:
    first = await held(parts)
    streams = [parts.batcher.open_stream() for _ in range(5)]
    tasks = soon(*(stream.push(windows(n / 8, n / 8)) for n, stream in enumerate(streams)))
    await asyncio.sleep(0)
    parts.model.gate.set()
    assert await asyncio.gather(*tasks) == [[n / 8] * 2 for n in range(5)]
    assert await first == [0.5]
    assert [len(looked_at) for looked_at in parts.model.rounds] == [1, 5, 5]


async def test_more_streams_than_one_round_takes_all_have_their_turn(parts: Set) -> None:
    streams = [parts.batcher.open_stream() for _ in range(100)]
    answers = await asyncio.gather(*(stream.push(windows(n / 128, 0.5)) for n, stream in enumerate(streams)))
    assert answers == [[n / 128, 0.5] for n in range(100)]
    assert max(map(len, parts.model.rounds)) == 32


async def test_a_long_recording_does_not_make_a_live_stream_wait(parts: Set) -> None:
    await_first = await held(parts)
    (recording,) = soon(parts.batcher.open_stream().push(windows(*[0.125] * 900)))
    await asyncio.sleep(0)
    parts.model.gate.set()
    await await_first
    live = parts.batcher.open_stream()
    before = len(parts.model.rounds)
    assert await live.push(windows(1.0)) == [1.0]
    assert not recording.done()
    assert len(parts.model.rounds) - before <= 17, "what was under way, and one turn"
    assert len(await recording) == 900


async def test_calls_for_one_stream_keep_their_order(parts: Set) -> None:
    first = await held(parts)
    stream = parts.batcher.open_stream()
    tasks = soon(*(stream.push(windows(n / 16, n / 16)[: 2 * WINDOW - 1]) for n in range(16)))
    await asyncio.sleep(0)
    parts.model.gate.set()
    await asyncio.gather(first, *tasks)
    seen = [looked_at[0] for looked_at in parts.model.rounds[1:]]
    assert seen == sorted(seen)
    assert all(len(looked_at) == 1 for looked_at in parts.model.rounds)


async def test_a_closed_stream_leaves_the_line(parts: Set) -> None:
    first = await held(parts)
    gone, stays = parts.batcher.open_stream(), parts.batcher.open_stream()
    tasks = soon(gone.push(windows(*[0.25] * 50)), stays.push(windows(0.75)))
    await asyncio.sleep(0)
    gone.close()
    gone.close()
    assert await tasks[0] == []
    parts.model.gate.set()
    assert await tasks[1] == [0.75]
    assert await first == [0.5]
    assert await gone.push(windows(0.25)) == []
    assert parts.model.rounds == [[0.5], [0.75]], "its windows cost nothing any more"


async def test_a_stream_closed_under_way_gives_what_was_looked_at(parts: Set) -> None:
    stream = parts.batcher.open_stream()
    task = await held(parts, stream)
    stream.close()
    assert await task == []
    parts.model.gate.set()
    assert await parts.batcher.open_stream().push(windows(0.25)) == [0.25]


async def test_a_cancelled_call_takes_back_what_was_not_looked_at(parts: Set) -> None:
    first = await held(parts)
    stream = parts.batcher.open_stream()
    cancelled, kept = soon(stream.push(windows(*[0.25] * 20)), stream.push(windows(0.75)))
    await asyncio.sleep(0)
    cancelled.cancel()
    parts.model.gate.set()
    assert await kept == [0.75]
    await first
    assert cancelled.cancelled()
    assert parts.model.rounds == [[0.5], [0.75]]


async def test_a_failure_reaches_everybody_in_the_round_and_nobody_after_it(parts: Set) -> None:
    streams = [parts.batcher.open_stream() for _ in range(3)]
    await asyncio.gather(*(stream.push(windows(0.5)) for stream in streams))
    parts.model.error = RuntimeError("out of memory")
    failures = await asyncio.gather(*(stream.push(windows(0.5)) for stream in streams), return_exceptions=True)
    assert [type(failure) for failure in failures] == [VadError] * 3
    assert {failure.code for failure in failures} == {"vad_failed"}  # type: ignore[union-attr]
    parts.model.error = None
    assert await streams[0].push(windows(0.75)) == [0.75]
    assert streams[0].state == Counter(1), "a stream that failed begins afresh"


@pytest.mark.parametrize("nothing", [math.nan, math.inf])
async def test_numbers_that_are_none_are_an_error_of_their_stream_only(parts: Set, nothing: float) -> None:
    bad, good = parts.batcher.open_stream(), parts.batcher.open_stream()
    failed, answered = await asyncio.gather(
        bad.push(windows(0.5, nothing, 0.5)), good.push(windows(0.5)), return_exceptions=True
    )
    assert isinstance(failed, VadError)
    assert answered == [0.5]
    assert await bad.push(windows(0.25)) == [0.25]


async def test_an_engine_that_closes_lets_nobody_wait(parts: Set) -> None:
    first = await held(parts)
    tasks = soon(*(parts.batcher.open_stream().push(windows(0.5)) for _ in range(50)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(parts.thread.close())
    await asyncio.sleep(0)
    parts.model.gate.set()
    await closing
    answers = await asyncio.wait_for(asyncio.gather(first, *tasks, return_exceptions=True), 10)
    assert answers[0] == [0.5]
    assert {answer.code for answer in answers[1:]} == {"engine_unavailable"}  # type: ignore[union-attr]


async def test_sound_of_another_shape_is_refused(parts: Set) -> None:
    with pytest.raises(VadError, match="shape"):
        await parts.batcher.open_stream().push(np.zeros((1, WINDOW), np.float32))


def test_one_engine_serves_one_loop_after_another() -> None:
    model, thread = Model(), ModelThread("test", VadError)
    batcher = VadBatcher(thread, model, WINDOW)
    asyncio.run(thread.start(lambda: None))  # type: ignore[arg-type]
    stream = batcher.open_stream()
    try:
        for value in (0.25, 0.5):
            assert asyncio.run(stream.push(windows(value))) == [value]
    finally:
        asyncio.run(thread.close())


def test_a_loop_that_ends_under_way_leaves_nothing_behind() -> None:
    model, thread = Model(), ModelThread("test", VadError)
    batcher = VadBatcher(thread, model, WINDOW)
    asyncio.run(thread.start(lambda: None))  # type: ignore[arg-type]

    async def leave() -> None:
        model.gate.clear()
        soon(batcher.open_stream().push(windows(*[0.25] * 100)))
        assert await asyncio.to_thread(model.entered.wait, 10)

    try:
        asyncio.run(leave())
        model.gate.set()
        assert asyncio.run(batcher.open_stream().push(windows(0.75))) == [0.75]
    finally:
        asyncio.run(thread.close())


# --- any chunking -------------------------------------------------------------------------------------------------


async def events_of(batcher: VadBatcher[Counter], pieces: list[np.ndarray]) -> list[EndpointEvent]:
    stream, endpointer, events = batcher.open_stream(), Endpointer(), []
    for piece in pieces:
        for probability in await stream.push(piece):
            events += endpointer.push(0.032, probability)
    return events


def cut(sound: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(sound, np.cumsum(sizes)[np.cumsum(sizes) < len(sound)])


@settings(max_examples=40, deadline=None)
@given(
    runs=st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.375, 0.5, 1.0]), st.integers(1, 20)), max_size=20),
    chunkings=st.lists(st.lists(st.integers(1, 40), max_size=300), min_size=2, max_size=5),
)
def test_any_chunking_gives_the_same_events_also_among_others(
    runs: list[tuple[float, int]], chunkings: list[list[int]]
) -> None:
    sound = windows(*[value for value, count in runs for _ in range(count)])

    async def all_at_once() -> list[list[EndpointEvent]]:
        thread = ModelThread("test", VadError)
        await thread.start(lambda: None)
        try:
            batcher = VadBatcher(thread, Model(), WINDOW)
            return await asyncio.gather(*(events_of(batcher, cut(sound, sizes)) for sizes in [[], *chunkings]))
        finally:
            await thread.close()

    whole, *others = asyncio.run(all_at_once())
    assert all(events == whole for events in others)
    endpointer = Endpointer()
    assert whole == [event for value in sound[::WINDOW] for event in endpointer.push(0.032, float(value))]
