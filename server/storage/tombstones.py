"""Queries on tombstones, in `server.sqlite`: what was forgotten, so that no restore, import or rebuild brings it back.

They hold ids and no words, and hold for every world: a branch has the same turns. Written before anything is blanked.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from sqlalchemy import or_
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.memory_records import Forgetting, Tombstone
from server.storage.records import record
from server.storage.server_tables import TombstoneRow
from server.storage.sqlite import upsert

_PAGE = 500


async def add(db: AsyncSession, reached: Forgetting, *, now: dt.datetime) -> None:
    """Write down what will be forgotten. Again: the first time stays; hidden turns may become blanked, never back."""
    memories = [{"memory_id": memory_id, "blanked": True, "forgotten_at": now} for memory_id in reached.memory_ids]
    turns = [
        {"source_turn_id": turn, "blanked": blanked, "forgotten_at": now}
        for ids, blanked in ((reached.blanked_source_turn_ids, True), (reached.hidden_source_turn_ids, False))
        for turn in ids
    ]
    new = upsert(TombstoneRow)
    if memories:
        await db.exec(new.on_conflict_do_nothing(index_elements=["memory_id"]), params=memories)
    if turns:
        blanked = or_(col(TombstoneRow.blanked), new.excluded.blanked)
        kept = new.on_conflict_do_update(index_elements=["source_turn_id"], set_={"blanked": blanked})
        await db.exec(kept, params=turns)


async def all_tombstones(db: AsyncSession) -> list[Tombstone]:
    """Every tombstone, oldest first."""
    rows = await db.exec(select(TombstoneRow).order_by(col(TombstoneRow.tombstone_id)))
    return [record(Tombstone, row) for row in rows]


async def applies_to(
    db: AsyncSession, *, memory_ids: Collection[str] = (), source_turn_ids: Collection[int] = ()
) -> tuple[set[str], set[int]]:
    """Which of these memories and source turns were forgotten and must not come in again."""
    memories: set[str] = set()
    turns: set[int] = set()
    ids = list(memory_ids)
    for start in range(0, len(ids), _PAGE):
        wanted = select(TombstoneRow.memory_id).where(col(TombstoneRow.memory_id).in_(ids[start : start + _PAGE]))
        memories |= {found for found in (await db.exec(wanted)).all() if found is not None}
    numbers = list(source_turn_ids)
    for start in range(0, len(numbers), _PAGE):
        page = numbers[start : start + _PAGE]
        among = select(TombstoneRow.source_turn_id).where(col(TombstoneRow.source_turn_id).in_(page))
        turns |= {number for number in (await db.exec(among)).all() if number is not None}
    return memories, turns
