"""One at a time, the most urgent first, and nobody who has gone."""

from __future__ import annotations

import asyncio

import pytest

from server.engines.one_at_a_time import OneAtATime

pytestmark = pytest.mark.unit


async def test_who_is_needed_first_goes_first_and_equals_in_order() -> None:
    turns, order = OneAtATime(), []

    async def work(name: str, rank: int) -> None:
        async with turns.turn(rank):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(name, rank) for name, rank in (("a", 2), ("b", 2), ("c", 0), ("d", 1), ("e", 0))))
    assert order == ["a", "c", "e", "d", "b"]


async def test_a_cancelled_one_has_no_turn_and_holds_up_nobody() -> None:
    turns, order = OneAtATime(), []

    async def work(name: str) -> None:
        async with turns.turn(0):
            order.append(name)
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(work(name)) for name in "abcd"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    tasks[0].cancel()  # it has the turn
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["a", "c", "d"]
    async with turns.turn(0):
        pass


async def test_one_that_is_called_and_cancelled_in_the_same_moment_passes_the_turn_on() -> None:
    turns = OneAtATime()
    waiting: list[asyncio.Task[None]] = []

    async def work() -> None:
        async with turns.turn(0):
            pass

    async with turns.turn(0):
        waiting += [asyncio.create_task(work()) for _ in range(2)]
        await asyncio.sleep(0)
    waiting[0].cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1] is None


async def test_a_failure_gives_the_turn_back() -> None:
    turns = OneAtATime()
    with pytest.raises(ValueError, match="no"):
        async with turns.turn(0):
            raise ValueError("no")
    async with turns.turn(0):
        pass
