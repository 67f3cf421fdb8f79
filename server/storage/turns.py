"""Queries on turns, source turns and traces.

The order matters and is the caller's: `create_turn` -> `add_user_turn`, committed before any reply is sent ->
`finish_turn` or `fail_turn`, once. Knows no pipeline and no clock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import bindparam, func, insert, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.errors import NotFoundError, StorageError
from server.events import TurnOutcome, TurnStatus
from server.storage import jobs, word_index
from server.storage.ids import SOURCE_TURN_IDS, TURN_IDS
from server.storage.records import SourceTurn, Turn, record
from server.storage.schema import table_of
from server.storage.session_tables import (
    ChannelRow,
    InputKind,
    SourceRole,
    SourceTurnRow,
    TurnRow,
    TurnTraceRow,
)
from server.storage.types import clean_text

SERVER_STOPPED = "server_stopped"
_UNFINISHED = ("queued", "running")

# The statements of every turn, made once: making one costs more than SQLite takes for it. What is set comes with the
# parameters.
_TURNS = table_of(TurnRow)
_ADD_TURN = insert(_TURNS)
_CHANGE_TURN = (
    update(_TURNS)
    .where(_TURNS.c.turn_id == bindparam("this_turn_id"), _TURNS.c.status.in_(_UNFINISHED))
    .returning(_TURNS)
)
_STATUS = select(TurnRow.status).where(col(TurnRow.turn_id) == bindparam("this_turn_id"))
_SAID_SOMETHING = select(SourceTurnRow.session_id).where(
    col(SourceTurnRow.turn_id).in_(bindparam("turn_ids", expanding=True)), col(SourceTurnRow.role) == "user"
)
_IS_PRIVATE = select(ChannelRow.private).where(col(ChannelRow.channel_id) == bindparam("this_channel_id"))
_ADD_SOURCE_TURN = insert(table_of(SourceTurnRow))
_ADD_TRACE = insert(table_of(TurnTraceRow))


@dataclass(frozen=True, slots=True)
class RobotWords:
    """What the robot said in a turn: what was played, when it was interrupted."""

    source_turn_id: int
    text: str
    language: str
    said_at: dt.datetime
    zone: str
    audio_duration_ms: int | None = None
    interrupted: bool = False
    tool_calls: Sequence[Any] | None = None
    """Every tool call of the turn, as JSON values."""


async def create_turn(
    db: AsyncSession,
    *,
    turn_id: int,
    session_id: str,
    channel_id: str,
    device_id: str | None,
    input_kind: InputKind,
    persona_id: str,
    started_at: dt.datetime,
    status: TurnStatus = "running",
    transcript: str | None = None,
    idempotency_key: str | None = None,
    request_digest: str | None = None,
) -> Turn:
    """Store a new turn. Raises `StorageError` when the id or the channel's idempotency key is taken.

    `transcript`: words that are known before the turn runs, because they were typed.
    """
    values: dict[str, Any] = {
        **dict.fromkeys(_TURNS.c.keys()),
        "turn_id": turn_id,
        "session_id": session_id,
        "channel_id": channel_id,
        "device_id": device_id,
        "status": status,
        "input_kind": input_kind,
        "transcript": None if transcript is None else clean_text(transcript),
        "idempotency_key": idempotency_key,
        "request_digest": request_digest,
        "persona_id": persona_id,
        "started_at": started_at,
    }
    await db.exec(_ADD_TURN, params=values)
    return Turn(**values)


async def start_turn(db: AsyncSession, turn_id: int) -> None:
    """A queued turn is now running. Raises `NotFoundError`, or `StorageError` when it has ended."""
    await _change(db, turn_id, status="running")


async def add_user_turn(
    db: AsyncSession,
    turn_id: int,
    source_turn_id: int,
    *,
    text: str,
    language: str,
    speaker_id: str | None,
    said_at: dt.datetime,
    zone: str,
    audio_duration_ms: int | None = None,
) -> SourceTurn:
    """Store the user's words, and as the turn's transcript; a private channel makes them private.

    Raises `NotFoundError`, or `StorageError` when the turn has ended or has the user's words already.
    """
    text = clean_text(text)  # the column does it too; here, so that what is returned is what is stored
    turn = await _change(db, turn_id, transcript=text, language=language, audio_duration_ms=audio_duration_ms)
    return await _add_source_turn(
        db,
        turn,
        source_turn_id=source_turn_id,
        role="user",
        text=text,
        language=language,
        said_at=said_at,
        zone=zone,
        speaker_id=speaker_id,
        audio_duration_ms=audio_duration_ms,
    )


async def finish_turn(
    db: AsyncSession,
    turn_id: int,
    *,
    outcome: TurnOutcome,
    ended_at: dt.datetime,
    robot: RobotWords | None = None,
    reply: str | None = None,
    emotion: str | None = None,
    action: str | None = None,
    speech_duration_ms: int | None = None,
    latency: Any = None,
    memory: Any = None,
    trace: Any = None,
    error_code: str | None = None,
    error_message: str | None = None,
) -> Turn:
    """End a turn: the robot's words, status, outcome, trace and the job to remember it, in one transaction.

    The status of outcome `failed` is `failed`. `reply`: what was answered; None: the robot's words. Raises
    `NotFoundError`, or `StorageError` when it had ended.
    """
    said = robot.text if reply is None and robot is not None else reply
    turn = await _change(
        db,
        turn_id,
        status="failed" if outcome == "failed" else "done",
        outcome=outcome,
        ended_at=ended_at,
        reply=None if said is None else clean_text(said),
        emotion=emotion,
        action=action,
        speech_duration_ms=speech_duration_ms,
        latency=latency,
        memory=memory,
        error_code=error_code,
        error_message=error_message,
    )
    if robot is not None:
        await _add_source_turn(
            db,
            turn,
            source_turn_id=robot.source_turn_id,
            role="robot",
            text=clean_text(robot.text),
            language=robot.language,
            said_at=robot.said_at,
            zone=robot.zone,
            audio_duration_ms=robot.audio_duration_ms,
            interrupted=robot.interrupted,
            tool_calls=None if robot.tool_calls is None else list(robot.tool_calls),
        )
    if trace is not None:
        await db.exec(_ADD_TRACE, params={"turn_id": turn_id, "trace": trace})
    await _queue_ingestion(db, [turn_id], ended_at)
    return record(Turn, turn)


async def fail_turn(
    db: AsyncSession,
    turn_id: int,
    *,
    error_code: str,
    error_message: str,
    ended_at: dt.datetime,
    robot: RobotWords | None = None,
    trace: Any = None,
) -> Turn:
    """End a turn that failed; `robot`: the apology, if it was spoken. Raises as `finish_turn`."""
    return await finish_turn(
        db,
        turn_id,
        outcome="failed",
        ended_at=ended_at,
        robot=robot,
        trace=trace,
        error_code=error_code,
        error_message=error_message,
    )


async def close_running_turns(db: AsyncSession, *, now: dt.datetime) -> list[int]:
    """At start: every turn the last process left open ends as failed (`server_stopped`); its words are kept and queued.

    Returns their ids.
    """
    closing = (
        update(TurnRow)
        .where(col(TurnRow.status).in_(_UNFINISHED))
        .values(
            status="failed",
            outcome="failed",
            ended_at=now,
            error_code=SERVER_STOPPED,
            error_message="The server stopped during this turn.",
        )
        .returning(col(TurnRow.turn_id))
        .execution_options(synchronize_session=False)
    )
    closed = sorted((await db.exec(closing)).scalars())
    await _queue_ingestion(db, closed, now)
    return closed


async def get_turn(db: AsyncSession, turn_id: int) -> Turn | None:
    row = await db.get(TurnRow, turn_id, populate_existing=True)
    return None if row is None else record(Turn, row)


async def find_turn_by_key(db: AsyncSession, channel_id: str, idempotency_key: str) -> Turn | None:
    """The turn this channel started under the key."""
    wanted = select(TurnRow).where(TurnRow.channel_id == channel_id, TurnRow.idempotency_key == idempotency_key)
    row = (await db.exec(wanted.execution_options(populate_existing=True))).first()
    return None if row is None else record(Turn, row)


async def get_trace(db: AsyncSession, turn_id: int) -> Any:
    """The trace as it was stored, or None."""
    row = await db.get(TurnTraceRow, turn_id)
    return None if row is None else row.trace


async def recent_source_turns(db: AsyncSession, session_id: str, limit: int) -> list[SourceTurn]:
    """The last `limit` source turns of a session, newest last."""
    wanted = select(SourceTurnRow).where(SourceTurnRow.session_id == session_id)
    rows = (await db.exec(wanted.order_by(col(SourceTurnRow.source_turn_id).desc()).limit(limit))).all()
    return [record(SourceTurn, row) for row in reversed(rows)]


async def highest_ids(db: AsyncSession) -> dict[str, int]:
    """The highest id in use, by counter name; 0 when there is none."""
    turn = (await db.exec(select(func.max(TurnRow.turn_id)))).one()
    source_turn = (await db.exec(select(func.max(SourceTurnRow.source_turn_id)))).one()
    return {TURN_IDS: turn or 0, SOURCE_TURN_IDS: source_turn or 0}


async def _queue_ingestion(db: AsyncSession, turn_ids: Sequence[int], now: dt.datetime) -> None:
    """What the user said in these turns is to be remembered; silence is not."""
    said = (await db.exec(_SAID_SOMETHING, params={"turn_ids": list(turn_ids)})).all()
    for session_id in dict.fromkeys(said):
        await jobs.enqueue(db, "ingest", session_id, now=now)


async def _change(db: AsyncSession, turn_id: int, **values: Any) -> Any:
    """Set columns of a turn that has not ended; its row."""
    changed = (await db.exec(_CHANGE_TURN, params={"this_turn_id": turn_id, **values})).one_or_none()
    if changed is not None:
        return changed
    status = (await db.exec(_STATUS, params={"this_turn_id": turn_id})).one_or_none()
    if status is None:
        raise NotFoundError(f"There is no turn {turn_id}.")
    raise StorageError(f"Turn {turn_id} has ended already ({status}); it is not changed any more.")


async def _add_source_turn(
    db: AsyncSession,
    turn: Any,
    *,
    source_turn_id: int,
    role: SourceRole,
    text: str,
    language: str,
    said_at: dt.datetime,
    zone: str,
    speaker_id: str | None = None,
    audio_duration_ms: int | None = None,
    interrupted: bool = False,
    tool_calls: Any = None,
) -> SourceTurn:
    private = (await db.exec(_IS_PRIVATE, params={"this_channel_id": turn.channel_id})).one()
    said = SourceTurn(
        source_turn_id=source_turn_id,
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        channel_id=turn.channel_id,
        role=role,
        speaker_id=speaker_id,
        text=text,
        language=language,
        visibility="private" if private else "house",
        said_at=said_at,
        zone=zone,
        audio_duration_ms=audio_duration_ms,
        interrupted=interrupted,
        tool_calls=tool_calls,
    )
    await db.exec(_ADD_SOURCE_TURN, params={item.name: getattr(said, item.name) for item in fields(said)})
    await word_index.index_source_turn(db, source_turn_id, text)
    return said
