"""Which memories and source turns may be found at all, as SQL conditions: persona, privacy, status, names, dates.

One place, so that no query can forget whose memory it is. Knows no ranking.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, and_, false, or_, select
from sqlalchemy.orm import aliased
from sqlmodel import col

from server.storage.memory_records import MemoryFilter, SourceFilter
from server.storage.recall_tables import RecallEntityRow, RecallItemRow, RecallSpeakerRow
from server.storage.session_tables import SourceTurnRow, TurnRow
from server.storage.sqlite import not_by_index


# The same few askers ask again and again, and building a condition takes longer than most queries with it.
@lru_cache(maxsize=128)
def memory_conditions(wanted: MemoryFilter, *, begin_here: bool = True) -> ColumnElement[bool]:
    """What a row of `recall_items` must fulfil. `begin_here`: False when another table says which rows to look at."""
    item = RecallItemRow
    persona_id: Any = col(item.persona_id)
    memory_id: Any = col(item.memory_id)
    keys = sorted(set(wanted.entity_keys))
    if keys or not begin_here:
        # A name is in few memories, a persona in all of them.
        persona_id = not_by_index(persona_id)
    if not begin_here:
        memory_id = not_by_index(memory_id)
    conditions: list[Any] = [
        persona_id == wanted.persona_id,
        col(item.status).in_(wanted.statuses),
        or_(col(item.visibility) == "house", _own_memory(wanted.speaker_id)),
    ]
    if wanted.said_by is not None:
        conditions.append(_own_memory(wanted.said_by))
    if wanted.memory_type is not None:
        conditions.append(col(item.memory_type) == wanted.memory_type)
    if wanted.occurred_from is not None:
        conditions.append(col(item.occurred_at) >= wanted.occurred_from)
    if wanted.occurred_before is not None:
        conditions.append(col(item.occurred_at) < wanted.occurred_before)
    if wanted.channel_id is not None:
        conditions.append(not_by_index(col(item.channel_id)) == wanted.channel_id)
    if keys:
        named = select(col(RecallEntityRow.memory_id)).where(col(RecallEntityRow.entity_key).in_(keys))
        conditions.append(memory_id.in_(named))
    return and_(*conditions)


@lru_cache(maxsize=128)
def source_conditions(wanted: SourceFilter) -> ColumnElement[bool]:
    """What a row of `source_turns`, joined with its row of `turns`, must fulfil."""
    source = SourceTurnRow
    conditions: list[Any] = [
        not_by_index(col(TurnRow.persona_id)) == wanted.persona_id,
        or_(col(source.visibility) == "house", _own_exchange(wanted.speaker_id)),
    ]
    if wanted.said_from is not None:
        conditions.append(col(source.said_at) >= wanted.said_from)
    if wanted.said_before is not None:
        conditions.append(col(source.said_at) < wanted.said_before)
    if wanted.channel_id is not None:
        conditions.append(not_by_index(col(source.channel_id)) == wanted.channel_id)
    if wanted.except_session_id is not None:
        conditions.append(not_by_index(col(source.session_id)) != wanted.except_session_id)
    return and_(*conditions)


def _own_memory(speaker_id: str | None) -> ColumnElement[bool]:
    if speaker_id is None:
        return false()
    theirs = select(col(RecallSpeakerRow.memory_id)).where(
        col(RecallSpeakerRow.memory_id) == col(RecallItemRow.memory_id),
        col(RecallSpeakerRow.speaker_id) == speaker_id,
    )
    return theirs.exists()


def _own_exchange(speaker_id: str | None) -> ColumnElement[bool]:
    # The robot's side of a private exchange belongs to whom it answered.
    if speaker_id is None:
        return false()
    said = aliased(SourceTurnRow)
    theirs = select(col(said.turn_id)).where(
        col(said.turn_id) == col(SourceTurnRow.turn_id), col(said.speaker_id) == speaker_id
    )
    return theirs.exists()
