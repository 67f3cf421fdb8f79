"""Queries on memories: the searchable topics of what was said. SQL is the truth about them; vectors are a cache.

What changes a memory changes its words, its names and its index job in the same transaction. Forgetting is in
`forgetting.py`, finding in `memory_lookup.py` and `word_index.py`. Knows no model, no vectors and no clock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import delete, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from ulid import ULID

from server.errors import NotFoundError, StorageError
from server.storage import jobs, word_index
from server.storage.memory_records import Memory, MemoryChanges, NewMemory
from server.storage.recall_tables import (
    RecallEntityRow,
    RecallItemRow,
    RecallSourceRow,
    RecallSpeakerRow,
)
from server.storage.sqlite import upsert
from server.storage.types import clean_text
from server.storage.words import entity_key

PAGE = 500
"""How many ids or rows one statement takes."""

Item = TypeVar("Item")
_FIELDS = tuple(item.name for item in fields(Memory) if item.name != "source_turn_ids")


def new_memory_id() -> str:
    """An id for a memory: `mem_` and a ULID, so that ids sort by when they were made."""
    return f"mem_{ULID()}"


async def add(db: AsyncSession, new: NewMemory, *, now: dt.datetime) -> Memory:
    """Store a memory with its sources, names and words, and queue its vector; all of it or nothing.

    Raises `StorageError`: no words, no such source turn or channel, or the id is taken.
    """
    topic, summary, entities = _texts(new.topic, new.summary, new.entities)
    speakers = _different(new.speakers)
    row = RecallItemRow(
        memory_id=new.memory_id,
        topic=topic,
        summary=summary,
        entities=list(entities),
        memory_type=new.memory_type,
        occurred_at=new.occurred_at,
        zone=new.zone,
        status="active",
        language=new.language,
        speakers=list(speakers),
        confidence=new.confidence,
        importance=new.importance,
        persona_id=new.persona_id,
        channel_id=new.channel_id,
        visibility=new.visibility,
        index_state="pending",
        revision=1,
        attempts=0,
        created_at=now,
        updated_at=now,
    )
    db.add(row)
    await db.flush()
    await _link_sources(db, new.memory_id, new.source_turn_ids)
    await _link_speakers(db, new.memory_id, speakers)
    await _find_by(db, row)
    await jobs.enqueue(db, "index", new.memory_id, now=now)
    return await _stored(db, new.memory_id)


async def get(db: AsyncSession, memory_id: str) -> Memory | None:
    """The memory, also when it is superseded or forgotten."""
    found = await get_many(db, [memory_id])
    return found[0] if found else None


async def get_many(db: AsyncSession, memory_ids: Sequence[str]) -> list[Memory]:
    """The memories there are, in the order of `memory_ids`."""
    found: dict[str, Memory] = {}
    for page in in_pages(list(dict.fromkeys(memory_ids))):
        rows = await db.exec(
            select(RecallItemRow)
            .where(col(RecallItemRow.memory_id).in_(page))
            .execution_options(populate_existing=True)
        )
        sources = await _sources_of(db, page)
        found |= {row.memory_id: _memory(row, sources.get(row.memory_id, ())) for row in rows}
    return [found[memory_id] for memory_id in dict.fromkeys(memory_ids) if memory_id in found]


async def update_memory(db: AsyncSession, memory_id: str, changes: MemoryChanges, *, now: dt.datetime) -> Memory:
    """Change what a memory says, by hand or after a check. Raises `NotFoundError`; `StorageError` when forgotten."""
    row = await _living(db, memory_id)
    row.topic, row.summary, entities = _texts(
        row.topic if changes.topic is None else changes.topic,
        row.summary if changes.summary is None else changes.summary,
        tuple(row.entities) if changes.entities is None else changes.entities,
    )
    row.entities = list(entities)
    row.memory_type = changes.memory_type or row.memory_type
    row.occurred_at = changes.occurred_at or row.occurred_at
    row.importance = changes.importance or row.importance
    row.confidence = changes.confidence or row.confidence
    await _changed(db, row, now)
    await _find_by(db, row)
    return await _stored(db, memory_id)


async def supersede(db: AsyncSession, old_id: str, new_id: str, *, now: dt.datetime) -> Memory:
    """`new_id` has replaced `old_id`, which is kept as history. Raises `NotFoundError`; `StorageError` when it cannot.

    A memory is replaced once: replacing it again, by itself, or in a circle is refused.
    """
    old, new = await _living(db, old_id), await _living(db, new_id)
    if old.status == "superseded":
        raise StorageError(f"{old_id} was superseded already, by {old.superseded_by}.", hint="Supersede that one.")
    if old_id == new_id or new.status == "superseded":
        raise StorageError(f"{new_id} cannot supersede {old_id}: it must be another memory that is active.")
    old.status, old.superseded_by = "superseded", new_id
    await _changed(db, old, now)
    return await _stored(db, old_id)


async def merge_sources(
    db: AsyncSession,
    memory_id: str,
    source_turn_ids: Iterable[int],
    *,
    now: dt.datetime,
    speakers: Sequence[str] = (),
) -> Memory:
    """The same was said again: its turns and speakers are added. Raises `NotFoundError`; `StorageError` as `add`."""
    row = await _living(db, memory_id)
    await _link_sources(db, memory_id, source_turn_ids)
    together = _different([*row.speakers, *speakers])
    if together != tuple(row.speakers):
        row.speakers = list(together)
        await _link_speakers(db, memory_id, together)
        await _changed(db, row, now)
    else:
        row.updated_at = now
        db.add(row)
        await db.flush()
    return await _stored(db, memory_id)


async def mark_indexed(db: AsyncSession, memory_id: str, revision: int) -> bool:
    """The vector of this `revision` is in the index.

    False: the memory has changed or was forgotten since, so another job follows; of a forgotten one, take the vector
    out again.
    """
    return await _mark(db, memory_id, revision, index_state="indexed", attempts=0, error=None)


async def mark_index_failed(db: AsyncSession, memory_id: str, revision: int, error: str, *, gave_up: bool) -> bool:
    """The vector could not be made; `gave_up`: it is not tried again by itself. `error`: never words that were said."""
    return await _mark(
        db,
        memory_id,
        revision,
        index_state="failed" if gave_up else "pending",
        attempts=RecallItemRow.attempts + 1,
        error=clean_text(error),
    )


async def queue_index(db: AsyncSession, memory_ids: Iterable[str], *, now: dt.datetime) -> int:
    """Ask for the vectors of these memories anew, as after a rebuild that failed for some; the count."""
    count = 0
    for memory in await get_many(db, list(memory_ids)):
        if memory.status != "forgotten":
            await _mark(db, memory.memory_id, memory.revision, index_state="pending", attempts=0, error=None)
            await jobs.enqueue(db, "index", memory.memory_id, now=now)
            count += 1
    return count


async def _living(db: AsyncSession, memory_id: str) -> RecallItemRow:
    wanted = select(RecallItemRow).where(RecallItemRow.memory_id == memory_id)
    row = (await db.exec(wanted.execution_options(populate_existing=True))).first()
    if row is None:
        raise NotFoundError(f"There is no memory {memory_id}.")
    if row.status == "forgotten":
        raise StorageError(f"{memory_id} was forgotten; it is not changed any more.")
    return row


async def _changed(db: AsyncSession, row: RecallItemRow, now: dt.datetime) -> None:
    """Store a change that the vector index must follow."""
    row.revision += 1
    row.index_state, row.attempts, row.error, row.updated_at = "pending", 0, None, now
    db.add(row)
    await db.flush()
    await jobs.enqueue(db, "index", row.memory_id, now=now)


async def _mark(db: AsyncSession, memory_id: str, revision: int, **values: Any) -> bool:
    item = RecallItemRow
    same = (col(item.memory_id) == memory_id, col(item.revision) == revision, col(item.status) != "forgotten")
    marking = update(item).where(*same).values(**values).execution_options(synchronize_session=False)
    return bool((await db.exec(marking)).rowcount)


async def _find_by(db: AsyncSession, row: RecallItemRow) -> None:
    """Names and words of a memory, as they are now."""
    keys = {entity_key(name) for name in row.entities}
    await _replace(db, RecallEntityRow, row.memory_id, [{"entity_key": key} for key in sorted(keys)])
    assert row.item_id is not None
    await word_index.index_memory(db, row.item_id, row.topic, row.summary, row.entities)


async def _link_speakers(db: AsyncSession, memory_id: str, speakers: Iterable[str]) -> None:
    await _replace(db, RecallSpeakerRow, memory_id, [{"speaker_id": speaker} for speaker in speakers])


async def _link_sources(db: AsyncSession, memory_id: str, source_turn_ids: Iterable[int]) -> None:
    links = [{"memory_id": memory_id, "source_turn_id": turn} for turn in dict.fromkeys(source_turn_ids)]
    if links:
        await db.exec(upsert(RecallSourceRow).on_conflict_do_nothing(), params=links)


async def _replace(db: AsyncSession, kind: Any, memory_id: str, values: list[dict[str, str]]) -> None:
    await db.exec(delete(kind).where(kind.memory_id == memory_id).execution_options(synchronize_session=False))
    if values:
        await db.exec(upsert(kind).on_conflict_do_nothing(), params=[{"memory_id": memory_id} | one for one in values])


async def _sources_of(db: AsyncSession, memory_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
    source = RecallSourceRow
    wanted = select(col(source.memory_id), col(source.source_turn_id)).where(col(source.memory_id).in_(memory_ids))
    found: dict[str, list[int]] = {}
    for memory_id, source_turn_id in await db.exec(wanted.order_by(col(source.source_turn_id))):
        found.setdefault(memory_id, []).append(source_turn_id)
    return {memory_id: tuple(turns) for memory_id, turns in found.items()}


async def _stored(db: AsyncSession, memory_id: str) -> Memory:
    return (await get_many(db, [memory_id]))[0]


def _memory(row: RecallItemRow, source_turn_ids: tuple[int, ...]) -> Memory:
    values = {name: getattr(row, name) for name in _FIELDS}
    values |= {"entities": tuple(row.entities), "speakers": tuple(row.speakers)}
    return Memory(**values, source_turn_ids=source_turn_ids)


def _texts(topic: str, summary: str, entities: Iterable[str]) -> tuple[str, str, tuple[str, ...]]:
    """What a memory says, cleaned: something in any case, and each name once however it is written."""
    topic, summary = clean_text(topic).strip(), clean_text(summary).strip()
    if not summary:
        raise StorageError("A memory without a summary cannot be found.", hint="Write what is to be remembered.")
    names: dict[str, str] = {}
    for name in entities:
        if key := entity_key(cleaned := clean_text(name).strip()):
            names.setdefault(key, cleaned)
    return topic, summary, tuple(names.values())


def _different(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(clean_text(value) for value in texts))


def in_pages(values: Sequence[Item], size: int = PAGE) -> Iterator[Sequence[Item]]:
    """`values` in portions that fit into one statement."""
    return (values[start : start + size] for start in range(0, len(values), size))
