"""Tombstones: written once, in the file that is never rewound, without a word of what was forgotten."""

from __future__ import annotations

import datetime as dt

import pytest

from server.storage import tombstones
from server.storage.database import Databases
from server.storage.memory_records import Forgetting, Tombstone
from tests.storage.house import NOW

pytestmark = pytest.mark.integration
LATER = NOW + dt.timedelta(days=1)


async def test_everything_reached_is_written_down_once(databases: Databases) -> None:
    async with databases.server() as db:
        await tombstones.add(db, Forgetting(("mem_a", "mem_b"), (3,), (4, 5), (2,)), now=NOW)
        await tombstones.add(db, Forgetting(("mem_b", "mem_c"), (4,), (3,), (2,)), now=LATER)
        await tombstones.add(db, Forgetting((), (), (), ()), now=LATER)
    async with databases.server(write=False) as db:
        found = await tombstones.all_tombstones(db)
    assert found == [
        Tombstone(1, "mem_a", None, True, NOW),
        Tombstone(2, "mem_b", None, True, NOW),
        Tombstone(3, None, 3, True, NOW),
        Tombstone(4, None, 4, True, NOW),
        Tombstone(5, None, 5, False, NOW),
        Tombstone(6, "mem_c", None, True, LATER),
    ]


async def test_what_must_not_come_in_again(databases: Databases) -> None:
    async with databases.server() as db:
        await tombstones.add(db, Forgetting(("mem_a",), (3,), (4,), (2,)), now=NOW)
        found = await tombstones.applies_to(db, memory_ids=["mem_a", "mem_z"], source_turn_ids=range(2, 3_000))
        assert found == ({"mem_a"}, {3, 4})
        assert await tombstones.applies_to(db) == (set(), set())
