"""Ids are never given out twice: not by two tasks, two processes, a crash or a lost counter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from server.storage.database import Databases
from server.storage.ids import IdAllocator, raise_counters, reserve_ids
from tests.storage.house import make_session, make_turn

pytestmark = pytest.mark.integration


async def test_blocks_follow_each_other(databases: Databases) -> None:
    async with databases.server() as db:
        assert await reserve_ids(db, "turn", 3) == range(1, 4)
        assert await reserve_ids(db, "turn", 2) == range(4, 6)
        assert await reserve_ids(db, "something_new", 2) == range(1, 3)
        assert await reserve_ids(db, "something_new", 1) == range(3, 4)


async def test_no_ids_is_not_a_number_to_reserve(databases: Databases) -> None:
    async with databases.server() as db:
        with pytest.raises(ValueError, match="at least 1"):
            await reserve_ids(db, "turn", 0)


async def test_block_that_was_not_committed_is_not_taken(databases: Databases) -> None:
    async def reserve_and_fail() -> None:
        async with databases.server() as db:
            await reserve_ids(db, "turn", 5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await reserve_and_fail()
    async with databases.server() as db:
        assert await reserve_ids(db, "turn", 1) == range(1, 2)


async def test_allocator_counts_up_across_blocks(databases: Databases) -> None:
    allocator = IdAllocator(databases.server, "turn", block_size=4)
    assert [await allocator.next_id() for _ in range(10)] == list(range(1, 11))


async def test_two_allocators_at_once_never_collide(databases: Databases) -> None:
    allocators = [IdAllocator(databases.server, "turn", block_size=3) for _ in range(2)]
    taken = await asyncio.gather(*(allocators[number % 2].next_id() for number in range(100)))
    assert len(set(taken)) == 100


async def test_lost_block_is_skipped_after_a_restart(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        assert await IdAllocator(databases.server, "turn", block_size=16).next_id() == 1
    async with await Databases.open(tmp_path, "home") as databases:
        assert await IdAllocator(databases.server, "turn", block_size=16).next_id() == 17


async def test_what_a_stop_gives_back_is_counted_on(tmp_path: Path) -> None:
    taken: list[int] = []
    for count in (3, 0, 14, 1):
        async with await Databases.open(tmp_path, "home") as databases:
            allocator = IdAllocator(databases.server, "turn", block_size=16)
            taken += [await allocator.next_id() for _ in range(count)]
            await allocator.give_back()
            await allocator.give_back()
    assert taken == list(range(1, 19))


async def test_what_somebody_else_could_have_passed_is_not_given_back(databases: Databases) -> None:
    first, second = (IdAllocator(databases.server, "turn", block_size=4) for _ in range(2))
    assert (await first.next_id(), await second.next_id()) == (1, 5)
    await first.give_back()
    assert [await second.next_id() for _ in range(4)] == [6, 7, 8, 9], "2 to 4 are skipped"
    await second.give_back()
    assert await first.next_id() == 10


async def test_lost_server_database_does_not_give_out_used_ids(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        session_id = await make_session(databases)
        await make_turn(databases, 500, session_id)
    (tmp_path / "server.sqlite").unlink()
    async with await Databases.open(tmp_path, "home") as databases:
        assert await IdAllocator(databases.server, "turn").next_id() == 501
        assert await IdAllocator(databases.server, "source_turn").next_id() == 1


async def test_counters_never_go_down(databases: Databases) -> None:
    async with databases.server() as db:
        await raise_counters(db, {"turn": 10, "new": 4})
        await raise_counters(db, {"turn": 3, "new": 4})
        assert await reserve_ids(db, "turn", 1) == range(11, 12)
        assert await reserve_ids(db, "new", 1) == range(5, 6)
