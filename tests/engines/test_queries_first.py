"""Whoever waits for an answer goes before what is only kept, on one thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from server.engines.queries_first import QueriesFirst
from server.engines.worker import ModelThread
from server.errors import EmbeddingError, ModelError
from server.events import Samples

pytestmark = pytest.mark.unit


class Desk:
    """Work that is kept, with a gate before its one pause, and questions whose answers are their lengths."""

    def __init__(self) -> None:
        self.thread = ModelThread("desk", EmbeddingError)
        self.questions: QueriesFirst[str] = QueriesFirst(self.thread, self.answer, EmbeddingError, most_texts=3)
        self.batches: list[list[str]] = []
        self.begun = asyncio.Event()
        self.gate = threading.Event()
        self.error: Exception | None = None
        self.loop = asyncio.get_running_loop()

    def answer(self, texts: Sequence[str]) -> Samples:
        self.batches.append(list(texts))
        self.questions.pause()  # a model breathes inside a question, too
        if self.error is not None:
            raise self.error
        return np.array([[len(text)] for text in texts], np.float32)

    def keep(self) -> str:
        self.loop.call_soon_threadsafe(self.begun.set)
        assert self.gate.wait(timeout=10)
        self.questions.pause()
        return f"kept after {self.batches}"


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    await made.thread.start(lambda: None)
    try:
        yield made
    finally:
        made.gate.set()
        await made.thread.close()


async def test_a_question_is_answered_in_the_middle_of_other_work_and_those_that_wait_go_together() -> None:
    async with desk() as one:
        kept = asyncio.create_task(one.thread.call(one.keep))
        await one.begun.wait()
        asked = [asyncio.create_task(one.questions.ask(texts)) for texts in (["a", "猫が"], ["富士通"], ["x", "yy"])]
        await asyncio.sleep(0)
        one.gate.set()
        answers = [(await each).ravel().tolist() for each in asked]
        assert answers == [[1, 2], [3], [1, 2]]
        # No more than three together, and all of them before the work was done.
        assert await kept == "kept after [['a', '猫が', '富士通'], ['x', 'yy']]"


async def test_with_nothing_else_to_do_a_question_is_answered_at_once() -> None:
    async with desk() as one:
        assert (await one.questions.ask(["雨", "rain"])).ravel().tolist() == [1, 4]
        assert (await one.questions.ask([])).shape[0] == 0


async def test_who_gives_up_is_not_answered() -> None:
    async with desk() as one:
        kept = asyncio.create_task(one.thread.call(one.keep))
        await one.begun.wait()
        gone, stays = (asyncio.create_task(one.questions.ask([text])) for text in ("gone", "stays"))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        one.gate.set()
        await asyncio.gather(kept, stays)
        assert one.batches == [["stays"]]


@pytest.mark.parametrize(
    ("error", "told"), [(ValueError("odd"), "ValueError: odd"), (ModelError("no model"), "no model")]
)
async def test_a_failure_is_told_to_each_who_asked_and_the_other_work_goes_on(error: Exception, told: str) -> None:
    async with desk() as one:
        one.error = error
        kept = asyncio.create_task(one.thread.call(one.keep))
        await one.begun.wait()
        asked = [asyncio.create_task(one.questions.ask([text])) for text in "ab"]
        await asyncio.sleep(0)
        one.gate.set()
        for each in asked:
            with pytest.raises((EmbeddingError, ModelError), match=told):
                await each
        assert (await kept).startswith("kept")


async def test_closing_ends_the_waiting() -> None:
    async with desk() as one:
        kept = asyncio.create_task(one.thread.call(one.keep))
        await one.begun.wait()
        asked = asyncio.create_task(one.questions.ask(["a"]))
        await asyncio.sleep(0)
        closing = asyncio.create_task(one.thread.close())
        with pytest.raises(EmbeddingError, match="closed before"):
            await asked
        one.gate.set()
        await asyncio.gather(kept, closing)
    with pytest.raises(EmbeddingError, match="not running"):
        await one.questions.ask(["a"])
