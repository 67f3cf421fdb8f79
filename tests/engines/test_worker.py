"""The thread of an engine: its life, its errors, and who may wait for whom."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest

from server.engines.worker import ModelThread
from server.errors import AsrError, ModelError, TtsError

pytestmark = pytest.mark.unit


async def started() -> ModelThread:
    thread = ModelThread("example", TtsError)
    await thread.start(lambda: None)
    return thread


async def test_calls_run_in_order_on_one_other_thread() -> None:
    thread = await started()
    names = await asyncio.gather(*(thread.call(lambda: threading.current_thread().name) for _ in range(5)))
    assert len(set(names)) == 1
    assert names[0].startswith("example")
    await thread.close()


async def test_before_start_and_after_close_it_says_so() -> None:
    thread = ModelThread("example", TtsError)
    for _ in range(2):
        with pytest.raises(TtsError, match="example is not running") as caught:
            await thread.call(lambda: None)
        assert caught.value.code == "engine_unavailable"
        await thread.start(lambda: None)
        await thread.close()
        await thread.close()


async def test_what_a_library_raises_becomes_the_engines_error() -> None:
    thread = await started()
    with pytest.raises(TtsError, match="ZeroDivisionError") as caught:
        await thread.call(lambda: 1 / 0)
    assert caught.value.code == "tts_failed"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    await thread.close()


async def test_own_errors_pass_unchanged() -> None:
    def lacks_model() -> None:
        raise ModelError("no file")

    thread = await started()
    with pytest.raises(ModelError, match="no file"):
        await thread.call(lacks_model)
    await thread.close()


async def test_a_missing_library_names_the_command_that_installs_it() -> None:
    def load() -> None:
        raise ModuleNotFoundError("No module named 'hibari'")

    thread = ModelThread("example", AsrError)
    with pytest.raises(AsrError, match=r"hibari.*pip install") as caught:
        await thread.start(load)
    assert caught.value.code == "engine_unavailable"
    assert not thread.running


async def test_a_failed_start_leaves_nothing_running() -> None:
    thread = ModelThread("failing", AsrError)
    with pytest.raises(AsrError):
        await thread.start(lambda: 1 / 0)
    assert not thread.running
    assert not [one for one in threading.enumerate() if one.name.startswith("failing")]


class Gate:
    """Work that stays busy until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._opened = threading.Event()

    def work(self) -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self._opened.wait(timeout=10)
        return "done"

    def open(self) -> None:
        self._opened.set()


async def test_close_finishes_what_runs_and_cancels_what_waits() -> None:
    thread, gate, ran = await started(), Gate(), []
    running = asyncio.create_task(thread.call(gate.work))
    await gate.begun.wait()
    waiting = asyncio.create_task(thread.call(ran.append, "late"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(thread.close())
    with pytest.raises(TtsError, match="closed before"):
        await waiting
    gate.open()
    assert await running == "done"
    await closing
    assert ran == []


async def test_a_cancelled_caller_takes_its_waiting_work_back() -> None:
    thread, gate, ran = await started(), Gate(), []
    running = asyncio.create_task(thread.call(gate.work))
    await gate.begun.wait()
    waiting = asyncio.create_task(thread.call(ran.append, "late"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open()
    await running
    await thread.close()
    assert ran == []


async def told(thread: ModelThread, function) -> list:
    async with aclosing(thread.stream(function)) as items:
        return [item async for item in items]


async def test_a_stream_gives_what_is_told_while_it_is_told() -> None:
    thread = await started()
    seen = threading.Event()

    def count(tell, stop):
        tell(1)
        assert seen.wait(5)  # the first was read before the second was there
        tell(2)

    got = []
    async with aclosing(thread.stream(count)) as items:
        async for item in items:
            got.append(item)
            seen.set()
    assert got == [1, 2]
    assert await told(thread, lambda tell, stop: None) == []
    await thread.close()


async def test_a_stream_fails_after_all_that_was_told() -> None:
    def fail(tell, stop):
        tell("こん")
        raise ValueError("にちは")

    thread = await started()
    stream = thread.stream(fail)
    assert await anext(stream) == "こん"
    with pytest.raises(TtsError, match="ValueError: にちは"):
        await anext(stream)
    await thread.close()
    with pytest.raises(TtsError, match="not running"):
        await told(thread, fail)


async def test_closing_a_stream_stops_its_work_and_waits_for_nobody() -> None:
    thread = await started()
    go_on, ended = threading.Event(), threading.Event()

    def work(tell, stop):
        tell("begun")
        assert go_on.wait(5)
        if stop.is_set():
            ended.set()
        raise ValueError("nobody wants to know")

    tasks = asyncio.all_tasks()
    stream = thread.stream(work)
    assert await anext(stream) == "begun"
    await stream.aclose()
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 5)
    assert await thread.call(lambda: "free") == "free"
    assert asyncio.all_tasks() == tasks
    await thread.close()


async def test_a_stream_that_waits_for_its_turn_is_taken_back() -> None:
    thread = await started()
    free = threading.Event()
    busy = asyncio.create_task(thread.call(free.wait, 5))
    begun = []
    stream = thread.stream(lambda tell, stop: begun.append(1))
    waiting = asyncio.create_task(anext(stream, None))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await stream.aclose()
    free.set()
    await busy
    await thread.close()
    assert begun == []


async def test_an_engine_that_is_closed_ends_its_streams_with_an_error() -> None:
    thread = await started()

    def until_stopped(tell, stop):
        tell("begun")
        stop.wait(5)

    stream = thread.stream(until_stopped)
    await anext(stream)
    await thread.close()
    with pytest.raises(TtsError, match="closed during its work") as caught:
        await anext(stream)
    assert caught.value.code == "engine_unavailable"
