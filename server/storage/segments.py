"""Queries on segments: which exchanges have been taken in, each once, and which wait. Knows no topics."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from sqlalchemy.orm import aliased
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.errors import StorageError
from server.storage.memory_records import OpenExchange, Segment
from server.storage.recall_tables import SegmentResult, SegmentRow, SegmentTurnRow
from server.storage.records import SourceTurn, record
from server.storage.session_tables import SourceTurnRow, TurnRow


async def open_exchanges(db: AsyncSession, session_id: str, *, limit: int = 100) -> list[OpenExchange]:
    """Exchanges of a session that ended, have the user's words and are in no segment; oldest first.

    Failed ones too: what the user said counts, though the answer was an apology.
    """
    user, robot = aliased(SourceTurnRow), aliased(SourceTurnRow)
    waiting = (
        select(TurnRow, user, robot)
        .join(user, (col(user.turn_id) == col(TurnRow.turn_id)) & (col(user.role) == "user"))
        .outerjoin(robot, (col(robot.turn_id) == col(TurnRow.turn_id)) & (col(robot.role) == "robot"))
        .outerjoin(SegmentTurnRow, col(SegmentTurnRow.turn_id) == col(TurnRow.turn_id))
        .where(
            col(TurnRow.session_id) == session_id,
            col(TurnRow.outcome).is_not(None),
            col(SegmentTurnRow.turn_id).is_(None),
            col(user.text) != "",
        )
        .order_by(col(TurnRow.turn_id))
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    return [
        OpenExchange(
            turn_id=turn.turn_id,
            outcome=turn.outcome,  # type: ignore[arg-type]  # the CHECK constraint says so
            persona_id=turn.persona_id,
            user=record(SourceTurn, said),
            # The outer join leaves it None where nothing was answered, which the query's type does not say.
            robot=None if answered is None else record(SourceTurn, answered),
        )
        for turn, said, answered in (await db.exec(waiting)).all()
    ]


async def privately_spoken(db: AsyncSession, session_id: str) -> list[SourceTurn]:
    """What known speakers said in private rooms in this session so far, taken in or not; oldest first."""
    row = SourceTurnRow
    said = (
        select(row)
        .where(
            col(row.session_id) == session_id,
            col(row.role) == "user",
            col(row.visibility) == "private",
            col(row.speaker_id).is_not(None),
        )
        .order_by(col(row.turn_id))
    )
    return [record(SourceTurn, one) for one in (await db.exec(said)).all()]


async def sessions_with_open_exchanges(db: AsyncSession) -> list[str]:
    """Sessions, also closed ones, that have exchanges in no segment; the longest silent first."""
    waiting = (
        select(TurnRow.session_id)
        .join(SourceTurnRow, (col(SourceTurnRow.turn_id) == col(TurnRow.turn_id)) & (col(SourceTurnRow.role) == "user"))
        .outerjoin(SegmentTurnRow, col(SegmentTurnRow.turn_id) == col(TurnRow.turn_id))
        .where(col(TurnRow.outcome).is_not(None), col(SegmentTurnRow.turn_id).is_(None), col(SourceTurnRow.text) != "")
        .order_by(col(TurnRow.turn_id))
    )
    newest_last = (await db.exec(waiting)).all()
    return list(dict.fromkeys(reversed(newest_last)))[::-1]


async def close_segment(
    db: AsyncSession, session_id: str, turn_ids: Sequence[int], result: SegmentResult, *, now: dt.datetime
) -> Segment:
    """These exchanges have been taken in, with this result; write it in the transaction that stores the memories.

    Raises `StorageError` when one of them is in a segment already or is not of this session: nothing is kept then.
    """
    turn_ids = sorted(set(turn_ids))
    ours = select(TurnRow.turn_id).where(col(TurnRow.turn_id).in_(turn_ids), col(TurnRow.session_id) == session_id)
    if not turn_ids or len((await db.exec(ours)).all()) != len(turn_ids):
        raise StorageError(f"A segment holds turns of its own session {session_id}, at least one.")
    taken = select(SegmentTurnRow.turn_id).where(col(SegmentTurnRow.turn_id).in_(turn_ids))
    if twice := (await db.exec(taken)).all():
        raise StorageError(f"Turns {sorted(twice)} are in a segment already; they are not taken in twice.")
    row = SegmentRow(session_id=session_id, result=result, closed_at=now)
    db.add(row)
    await db.flush()
    assert row.segment_id is not None
    db.add_all([SegmentTurnRow(turn_id=turn_id, segment_id=row.segment_id) for turn_id in turn_ids])
    await db.flush()
    return Segment(row.segment_id, session_id, result, now, tuple(turn_ids))


async def leave_out(db: AsyncSession, turn_ids: Collection[int], *, now: dt.datetime) -> None:
    """Nothing is to be made of these exchanges; those in a segment already stay there."""
    waiting = (
        select(TurnRow.session_id, TurnRow.turn_id)
        .outerjoin(SegmentTurnRow, col(SegmentTurnRow.turn_id) == col(TurnRow.turn_id))
        .where(col(TurnRow.turn_id).in_(sorted(turn_ids)), col(SegmentTurnRow.turn_id).is_(None))
    )
    sessions: dict[str, list[int]] = {}
    for session_id, turn_id in (await db.exec(waiting)).all():
        sessions.setdefault(session_id, []).append(turn_id)
    for session_id, turns in sessions.items():
        await close_segment(db, session_id, turns, "forgotten", now=now)


async def segments_of(db: AsyncSession, session_id: str) -> list[Segment]:
    """A session's segments, in the order they were closed."""
    rows = (
        await db.exec(
            select(SegmentRow, SegmentTurnRow.turn_id)
            .join(SegmentTurnRow, col(SegmentTurnRow.segment_id) == col(SegmentRow.segment_id))
            .where(SegmentRow.session_id == session_id)
            .order_by(col(SegmentRow.segment_id), col(SegmentTurnRow.turn_id))
        )
    ).all()
    found: dict[int | None, tuple[SegmentRow, list[int]]] = {}
    for row, turn_id in rows:
        found.setdefault(row.segment_id, (row, []))[1].append(turn_id)
    return [
        Segment(row.segment_id or 0, row.session_id, row.result, row.closed_at, tuple(turns))  # type: ignore[arg-type]
        for row, turns in found.values()
    ]
