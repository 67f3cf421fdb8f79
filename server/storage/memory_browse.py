"""Queries for the owner, who may see all: lists, versions, exact words, samples of what was taken in, and figures.

Nobody's privacy bounds them, so they are never used for somebody who talks to the robot: those ask through
`narrowing.py`. Read only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, String, and_, case, cast, func, or_, true
from sqlalchemy.orm import aliased
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.errors import RequestError
from server.storage.memories import get_many, in_pages
from server.storage.memory_records import EVERY_STATUS, Memory, Segment
from server.storage.recall_tables import (
    MemoryStatus,
    MemoryType,
    RecallEntityRow,
    RecallItemRow,
    RecallSpeakerRow,
    SegmentResult,
    SegmentRow,
    SegmentTurnRow,
)
from server.storage.records import Channel, SourceTurn, Turn, record
from server.storage.session_tables import ChannelRow, SourceTurnRow, TurnRow


@dataclass(frozen=True, slots=True)
class Listing:
    """Which memories a list holds. All conditions hold together."""

    limit: int
    after: str | None = None
    """The last memory of the page before."""
    statuses: tuple[MemoryStatus, ...] = EVERY_STATUS
    memory_type: MemoryType | None = None
    entity_key: str | None = None
    occurred_from: dt.datetime | None = None
    occurred_before: dt.datetime | None = None
    """The end of the range, itself not in it."""
    speaker_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who finds what no other finds: what was told to a persona, and what is private to a speaker."""

    persona_id: str
    speaker_id: str | None


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """How often memory was asked, and how often what it told was corrected afterwards."""

    searches: int
    misses_corrected: int


@dataclass(frozen=True, slots=True)
class WholeTurn:
    """An exchange. `tool_calls`: of its answer, None without any."""

    turn: Turn
    tool_calls: Any


async def listing(db: AsyncSession, wanted: Listing) -> list[Memory]:
    """A page of memories, the newest first. Raises `RequestError` (`after_unknown`)."""
    item = RecallItemRow
    conditions: list[ColumnElement[bool]] = [col(item.status).in_(wanted.statuses)]
    if wanted.memory_type is not None:
        conditions.append(col(item.memory_type) == wanted.memory_type)
    if wanted.occurred_from is not None:
        conditions.append(col(item.occurred_at) >= wanted.occurred_from)
    if wanted.occurred_before is not None:
        conditions.append(col(item.occurred_at) < wanted.occurred_before)
    if wanted.entity_key is not None:
        named = select(RecallEntityRow.memory_id).where(RecallEntityRow.entity_key == wanted.entity_key)
        conditions.append(col(item.memory_id).in_(named))
    if wanted.speaker_id is not None:
        theirs = select(RecallSpeakerRow.memory_id).where(RecallSpeakerRow.speaker_id == wanted.speaker_id)
        conditions.append(col(item.memory_id).in_(theirs))
    if wanted.after is not None:
        last = (await db.exec(select(item).where(item.memory_id == wanted.after))).first()
        if last is None:
            raise RequestError(
                "`after` is no memory that is here.", code="after_unknown", hint="Send `next` of the page before."
            )
        older = and_(col(item.occurred_at) == last.occurred_at, col(item.memory_id) < last.memory_id)
        conditions.append(or_(col(item.occurred_at) < last.occurred_at, older))
    ids = (
        select(item.memory_id)
        .where(*conditions)
        .order_by(col(item.occurred_at).desc(), col(item.memory_id).desc())
        .limit(wanted.limit)
    )
    return await get_many(db, (await db.exec(ids)).all())


async def older_versions(db: AsyncSession, memory_id: str) -> list[Memory]:
    """What this memory superseded, directly or through others; the newest first."""
    item = RecallItemRow
    found: dict[str, None] = {}
    newest: Sequence[str] = [memory_id]
    while newest:
        older = select(item.memory_id).where(col(item.superseded_by).in_(newest))
        newest = [one for one in (await db.exec(older)).all() if one not in found and one != memory_id]
        found |= dict.fromkeys(newest)
    return await get_many(db, list(found))


async def newer_versions(db: AsyncSession, memory_id: str) -> list[Memory]:
    """What superseded this memory, and that in turn; the next one first."""
    found: list[Memory] = []
    known = {memory_id}
    for memory in await get_many(db, [memory_id]):
        following = memory.superseded_by
        while following is not None and following not in known:
            known.add(following)
            newer = await get_many(db, [following])
            found += newer
            following = newer[0].superseded_by if newer else None
    return found


async def exact_words(db: AsyncSession, source_turn_ids: Sequence[int]) -> list[SourceTurn]:
    """These source turns in the order they were said, the blanked ones, without words, among them."""
    found: list[SourceTurn] = []
    for page in in_pages(sorted(set(source_turn_ids))):
        wanted = select(SourceTurnRow).where(col(SourceTurnRow.source_turn_id).in_(page))
        ordered = wanted.order_by(col(SourceTurnRow.source_turn_id)).execution_options(populate_existing=True)
        found += [record(SourceTurn, row) for row in (await db.exec(ordered)).all()]
    return found


async def readers(db: AsyncSession, running: str) -> list[Reader]:
    """Who has to search so that together they find every memory: each persona for the house and for each speaker.

    `running`: the persona that is talked to now; there may be words of today and no memory yet.
    """
    item = RecallItemRow
    personas = select(item.persona_id).where(item.status != "forgotten").distinct().order_by(item.persona_id)
    private = (
        select(item.persona_id, RecallSpeakerRow.speaker_id)
        .join(RecallSpeakerRow, col(RecallSpeakerRow.memory_id) == col(item.memory_id))
        .where(item.visibility == "private", item.status != "forgotten")
        .distinct()
        .order_by(item.persona_id, RecallSpeakerRow.speaker_id)
    )
    known = [running, *(await db.exec(personas)).all()]
    house = [Reader(persona_id, None) for persona_id in dict.fromkeys(known)]
    return house + [Reader(persona_id, speaker) for persona_id, speaker in (await db.exec(private)).all()]


async def recall_figures(db: AsyncSession) -> RecallFigures:
    """Turns that searched memory, and superseded memories that had been told before they were corrected."""
    turn, old, newer = TurnRow, aliased(RecallItemRow), aliased(RecallItemRow)
    searched = func.json_extract(cast(col(turn.memory), String), "$.searched") == 1
    told: Any = func.json_each(cast(col(turn.memory), String), "$.memory_ids").table_valued("value")
    corrected: Any = (
        select(func.count(col(old.memory_id).distinct()))
        .select_from(turn)
        .join(told, true())
        .join(old, col(old.memory_id) == told.c.value)
        .join(newer, col(newer.memory_id) == col(old.superseded_by))
        .where(
            col(turn.memory).is_not(None),
            col(old.status) == "superseded",
            col(turn.started_at) <= col(newer.created_at),
        )
    )
    searches = select(func.count()).where(col(turn.memory).is_not(None), searched)
    return RecallFigures((await db.exec(searches)).one(), (await db.exec(corrected)).one())


async def memory_types(db: AsyncSession) -> dict[str, int]:
    """How many memories of each type there are that are not forgotten."""
    item = RecallItemRow
    counted = select(item.memory_type, func.count()).where(item.status != "forgotten").group_by(item.memory_type)
    return dict((await db.exec(counted)).all())


async def sample_segments(db: AsyncSession, result: SegmentResult, limit: int) -> list[Segment]:
    """Segments with this result whose words are still there, drawn at random."""
    worded = (
        select(SegmentTurnRow.turn_id)
        .join(SourceTurnRow, col(SourceTurnRow.turn_id) == col(SegmentTurnRow.turn_id))
        .where(col(SegmentTurnRow.segment_id) == col(SegmentRow.segment_id), col(SourceTurnRow.text) != "")
    )
    drawn = (
        select(SegmentRow)
        .where(SegmentRow.result == result, worded.exists())
        .order_by(func.random())
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    rows = (await db.exec(drawn)).all()
    turns: dict[int | None, list[int]] = {row.segment_id: [] for row in rows}
    for page in in_pages(list(turns)):
        members = select(SegmentTurnRow).where(col(SegmentTurnRow.segment_id).in_(page))
        for member in (await db.exec(members.order_by(col(SegmentTurnRow.turn_id)))).all():
            turns[member.segment_id].append(member.turn_id)
    return [
        Segment(row.segment_id or 0, row.session_id, row.result, row.closed_at, tuple(turns[row.segment_id]))  # type: ignore[arg-type]  # the CHECK constraint says so
        for row in rows
    ]


async def words_of_turns(db: AsyncSession, turn_ids: Sequence[int]) -> list[SourceTurn]:
    """Both sides' words of these exchanges, the user's first in each."""
    source = SourceTurnRow
    found: list[SourceTurn] = []
    for page in in_pages(sorted(set(turn_ids))):
        wanted = select(source).where(col(source.turn_id).in_(page))
        user_first = case((col(source.role) == "user", 0), else_=1)
        ordered = wanted.order_by(col(source.turn_id), user_first).execution_options(populate_existing=True)
        found += [record(SourceTurn, row) for row in (await db.exec(ordered)).all()]
    return found


async def all_channels(db: AsyncSession) -> list[Channel]:
    """Every channel."""
    rows = await db.exec(select(ChannelRow).order_by(ChannelRow.channel_id))
    return [record(Channel, row) for row in rows.all()]


async def whole_turns(db: AsyncSession, turn_ids: Sequence[int]) -> dict[int, WholeTurn]:
    """These exchanges, each with the tool calls of its answer."""
    turn, robot = TurnRow, aliased(SourceTurnRow)
    found: dict[int, WholeTurn] = {}
    for page in in_pages(sorted(set(turn_ids))):
        wanted = (
            select(turn, col(robot.tool_calls))
            .outerjoin(robot, (col(robot.turn_id) == col(turn.turn_id)) & (col(robot.role) == "robot"))
            .where(col(turn.turn_id).in_(page))
            .execution_options(populate_existing=True)
        )
        for row, tool_calls in (await db.exec(wanted)).all():
            found[row.turn_id] = WholeTurn(record(Turn, row), tool_calls)
    return found
