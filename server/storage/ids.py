"""Integer ids that are never given out twice, not after a crash and not by two processes.

A counter in `server.sqlite` says which ids are free; a process reserves a block, committed before its first use.
One that is stopped gives back what it has not used; of one that dies the block is skipped. Knows no table that uses
the ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from sqlalchemy import update
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.server_tables import IdCounterRow

TURN_IDS = "turn"
SOURCE_TURN_IDS = "source_turn"
BLOCK_SIZE = 16


async def reserve_ids(db: AsyncSession, name: str, count: int) -> range:
    """Take `count` ids from the counter `name` (made when new); they are the caller's once `db` commits."""
    if count < 1:
        raise ValueError("count must be at least 1")
    taken = (
        update(IdCounterRow)
        .where(col(IdCounterRow.name) == name)
        .values(next_id=IdCounterRow.next_id + count)
        .returning(col(IdCounterRow.next_id))
        .execution_options(synchronize_session=False)
    )
    after = (await db.exec(taken)).scalar_one_or_none()
    if after is None:
        after = 1 + count
        db.add(IdCounterRow(name=name, next_id=after))
        await db.flush()
    return range(after - count, after)


async def raise_counters(db: AsyncSession, used: Mapping[str, int]) -> None:
    """Lift each counter above the highest id in use; counters never go down."""
    for name, highest in used.items():
        row = await db.get(IdCounterRow, name)
        if row is None:
            db.add(IdCounterRow(name=name, next_id=highest + 1))
        elif row.next_id <= highest:
            row.next_id = highest + 1
            db.add(row)


class IdAllocator:
    """Hands out ids one by one from reserved blocks. One per process and counter."""

    def __init__(
        self,
        server: Callable[[], AbstractAsyncContextManager[AsyncSession]],
        name: str,
        *,
        block_size: int = BLOCK_SIZE,
    ) -> None:
        """`server`: opens a writing session on `server.sqlite` (`databases.server`)."""
        self._server = server
        self._name = name
        self._block_size = block_size
        self._block = iter(range(0))
        self._lock = asyncio.Lock()

    async def next_id(self) -> int:
        """The next free id. Raises `StorageError`."""
        async with self._lock:
            free = next(self._block, None)
            if free is None:
                async with self._server() as db:
                    block = await reserve_ids(db, self._name, self._block_size)
                self._block = iter(block)
                free = next(self._block)
            return free

    async def give_back(self) -> None:
        """At the end: what is left of the block goes back, so that the next start counts on. Raises `StorageError`.

        Only while nobody has taken the next block; else these numbers are skipped, as after a kill.
        """
        async with self._lock:
            left, self._block = list(self._block), iter(range(0))
            if not left:
                return
            unused = (
                update(IdCounterRow)
                .where(col(IdCounterRow.name) == self._name, col(IdCounterRow.next_id) == left[-1] + 1)
                .values(next_id=left[0])
                .execution_options(synchronize_session=False)
            )
            async with self._server() as db:
                await db.exec(unused)
