"""Queries that find memories: by narrowing, by their turns, by the names in them; and counts for the owner.

Writing them is in `memories.py`, finding them by words in `word_index.py`. Knows no ranking by meaning.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, true
from sqlalchemy import text as sql_text
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage import jobs
from server.storage.memories import PAGE, get_many, in_pages
from server.storage.memory_records import Memory, MemoryCounts, MemoryFilter, SourceFilter
from server.storage.narrowing import memory_conditions, source_conditions
from server.storage.recall_tables import RecallEntityRow, RecallItemRow, RecallSourceRow, SegmentRow
from server.storage.session_tables import SourceTurnRow, TurnRow
from server.storage.words import entity_key, fold

_MOST_SPEAKERS = 64
# From one id to the next: a DISTINCT would read an index entry of every memory.
_SPEAKERS = sql_text(
    "WITH RECURSIVE known(id) AS (SELECT min(speaker_id) FROM recall_speakers UNION ALL"
    " SELECT (SELECT min(speaker_id) FROM recall_speakers WHERE speaker_id > known.id) FROM known"
    f" WHERE known.id IS NOT NULL) SELECT id FROM known WHERE id IS NOT NULL LIMIT {_MOST_SPEAKERS}"
)


class Standing(NamedTuple):
    """Of a memory, what its rank depends on."""

    status: str
    occurred_at: dt.datetime
    speakers: tuple[str, ...]


async def of_source_turns(db: AsyncSession, source_turn_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Which memories each source turn belongs to, newest first, without forgotten ones; turns of none are left out."""
    return {turn_id: tuple(ids) for turn_id, ids in (await of_source_turns_within(db, source_turn_ids, None)).items()}


async def of_source_turns_within(
    db: AsyncSession, source_turn_ids: Sequence[int], wanted: MemoryFilter | None
) -> dict[int, dict[str, bool]]:
    """Which memories each source turn belongs to, as `of_source_turns`, and for each whether it fulfils `wanted`."""
    item, source = RecallItemRow, RecallSourceRow
    within: Any = true() if wanted is None else memory_conditions(wanted, begin_here=False)
    found: dict[int, dict[str, bool]] = {}
    for page in in_pages(list(dict.fromkeys(source_turn_ids))):
        rows = await db.exec(
            select(col(source.source_turn_id), col(source.memory_id), within)
            .join(item, col(item.memory_id) == col(source.memory_id))
            .where(col(source.source_turn_id).in_(page), col(item.status) != "forgotten")
            .order_by(col(item.occurred_at).desc(), col(item.memory_id).desc())
        )
        for source_turn_id, memory_id, fulfils in rows:
            found.setdefault(source_turn_id, {})[memory_id] = bool(fulfils)
    return found


async def standing(db: AsyncSession, memory_ids: Sequence[str]) -> dict[str, Standing]:
    """What ranking must know of these memories; a fraction of the work of reading them."""
    item = RecallItemRow
    found: dict[str, Standing] = {}
    for page in in_pages(list(dict.fromkeys(memory_ids))):
        rows = await db.exec(
            select(col(item.memory_id), col(item.status), col(item.occurred_at), col(item.speakers)).where(
                col(item.memory_id).in_(page)
            )
        )
        found |= {memory_id: Standing(status, at, tuple(speakers)) for memory_id, status, at, speakers in rows}
    return found


async def narrow(db: AsyncSession, wanted: MemoryFilter) -> list[str]:
    """The ids of all memories that fulfil `wanted`, in no order."""
    ids = select(func.json_group_array(col(RecallItemRow.memory_id))).where(memory_conditions(wanted))
    # One text instead of a row for each: a third of the time at 100,000.
    found: list[str] = json.loads((await db.exec(ids)).one())
    return found


async def at_least(db: AsyncSession, wanted: MemoryFilter, count: int) -> bool:
    """Whether `count` memories or more fulfil `wanted`; looks no further than that."""
    some = select(col(RecallItemRow.memory_id)).where(memory_conditions(wanted)).offset(count - 1).limit(1)
    return (await db.exec(some)).first() is not None


async def speakers_named(db: AsyncSession, text: str) -> tuple[str, ...]:
    """Ids of people whose memories there are and whom `text` names; an id that is no name is in no text."""
    said = f" {' '.join(fold(text).split())} "
    known: Any = await db.exec(_SPEAKERS)  # type: ignore[call-overload]
    return tuple(one for one in known.scalars() if _names(said, fold(one)))


async def anything(db: AsyncSession, wanted: MemoryFilter, said: SourceFilter) -> bool:
    """Whether a memory fulfils `wanted`, or the words of a user fulfil `said`; looks no further than the first."""
    memory = select(col(RecallItemRow.memory_id)).where(memory_conditions(wanted)).limit(1)
    if (await db.exec(memory)).first() is not None:
        return True
    source = SourceTurnRow
    words = (
        select(col(source.source_turn_id))
        .join(TurnRow, col(TurnRow.turn_id) == col(source.turn_id))
        .where(col(source.role) == "user", col(source.text) != "", source_conditions(said))
        .limit(1)
    )
    return (await db.exec(words)).first() is not None


async def pending_index(db: AsyncSession, limit: int) -> list[Memory]:
    """Memories whose vector is missing or old, oldest first; those given up are not among them."""
    wanted = (
        select(col(RecallItemRow.memory_id))
        .where(col(RecallItemRow.index_state) != "indexed")
        .where(col(RecallItemRow.index_state) == "pending", col(RecallItemRow.status) != "forgotten")
        .order_by(col(RecallItemRow.memory_id))
        .limit(limit)
    )
    return await get_many(db, (await db.exec(wanted)).all())


async def page(db: AsyncSession, *, after: str = "", limit: int = PAGE) -> list[Memory]:
    """Memories that are not forgotten, by id: the next `limit` after the id `after`. For rebuild, export and audit."""
    wanted = (
        select(col(RecallItemRow.memory_id))
        .where(col(RecallItemRow.memory_id) > after, col(RecallItemRow.status) != "forgotten")
        .order_by(col(RecallItemRow.memory_id))
        .limit(limit)
    )
    return await get_many(db, (await db.exec(wanted)).all())


async def entities_near(db: AsyncSession, memory_ids: Sequence[str], *, limit: int = 20) -> list[str]:
    """The names in these memories (nearest first), each once, those of nearer memories first."""
    names: dict[str, str] = {}
    for memory in await get_many(db, memory_ids):
        for name in memory.entities:
            names.setdefault(entity_key(name), name)
    return list(names.values())[:limit]


async def sharing_entities(
    db: AsyncSession, wanted: MemoryFilter, *, limit: int, leave_out: Collection[str] = ()
) -> list[Memory]:
    """Memories that fulfil `wanted`, those that share most of its `entity_keys` first, then the newest.

    What a new memory may contradict or repeat. Empty without `entity_keys`.
    """
    item, entity = RecallItemRow, RecallEntityRow
    keys = sorted(set(wanted.entity_keys))
    ranked = (
        select(col(item.memory_id))
        .join(entity, col(entity.memory_id) == col(item.memory_id))
        .where(
            col(entity.entity_key).in_(keys),
            memory_conditions(wanted, begin_here=False),
            col(item.memory_id).not_in(list(leave_out)),
        )
        .group_by(col(item.memory_id))
        .order_by(func.count().desc(), func.max(col(item.occurred_at)).desc(), col(item.memory_id).desc())
        .limit(limit)
    )
    return await get_many(db, (await db.exec(ranked)).all())


async def counts(db: AsyncSession) -> MemoryCounts:
    """Figures for the owner: turns, memories, what waits and what was left out."""
    item = RecallItemRow
    living = select(col(item.index_state), func.count()).where(col(item.status) != "forgotten")
    exchanges = select(func.count()).where(col(TurnRow.ended_at).is_not(None), col(TurnRow.transcript).is_not(None))
    return MemoryCounts(
        exchanges=(await db.exec(exchanges)).one(),
        source_turns=(await db.exec(select(func.count(col(SourceTurnRow.source_turn_id))))).one(),
        memories=await _tally(db, select(col(item.status), func.count()).group_by(col(item.status))),
        index_states=await _tally(db, living.group_by(col(item.index_state))),
        jobs=await jobs.counts(db),
        segments=await _tally(db, select(col(SegmentRow.result), func.count()).group_by(col(SegmentRow.result))),
    )


async def _tally(db: AsyncSession, grouped: Any) -> dict[Any, int]:
    return dict((await db.exec(grouped)).all())


def _names(said: str, name: str) -> bool:
    """Whether a name stands in folded text: as a whole word where it is written in letters that have spaces."""
    if len(name) < 2:
        return False
    if not name.isascii():
        return name in said
    return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", said) is not None
