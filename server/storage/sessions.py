"""Queries on sessions: which conversation a channel is in.

One channel has at most one open session. It ends after idle minutes, on request, or when the device calls its
conversation by a new label; in the same transaction a job is left to take in what was said at its end. Takes times as
arguments; knows no clock.
"""

from __future__ import annotations

import datetime as dt

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from ulid import ULID

from server.errors import NotFoundError
from server.storage import jobs
from server.storage.records import Session, record
from server.storage.session_tables import SessionCloseReason, SessionRow


async def open_session(
    db: AsyncSession,
    *,
    channel_id: str,
    device_id: str | None,
    now: dt.datetime,
    idle_close: dt.timedelta,
    label: str | None = None,
) -> Session:
    """The session that words said `now` belong to; ends one that is over and opens a new one where needed."""
    row = await _open_row(db, channel_id)
    if row is not None:
        reason = _ending(row, now, idle_close, label)
        if reason is None:
            # A stamp far ahead was made by a wrong clock; it would keep the conversation open for as long.
            ahead = row.last_active_at - now >= idle_close
            row.last_active_at = now if ahead else max(now, row.last_active_at)
            db.add(row)
            await db.flush()
            return record(Session, row)
        await _close(db, row, reason, now=now, idle_close=idle_close)
        # The unique index allows one open session a channel: the old one must be closed before the new one exists.
        await db.flush()
    row = SessionRow(
        session_id=str(ULID()),
        channel_id=channel_id,
        device_id=device_id,
        label=label,
        opened_at=now,
        last_active_at=now,
    )
    db.add(row)
    await db.flush()
    return record(Session, row)


async def touch_session(db: AsyncSession, session_id: str, *, now: dt.datetime) -> None:
    """Something was said `now`: the idle time starts again. Raises `NotFoundError`."""
    row = await _row(db, session_id)
    row.last_active_at = max(now, row.last_active_at)
    db.add(row)


async def close_session(
    db: AsyncSession, session_id: str, *, now: dt.datetime, reason: SessionCloseReason = "requested"
) -> bool:
    """End a session; False when it had ended. Raises `NotFoundError`."""
    row = await _row(db, session_id)
    if row.closed_at is not None:
        return False
    await _close(db, row, reason, now=now)
    return True


async def close_idle_sessions(db: AsyncSession, *, now: dt.datetime, idle_close: dt.timedelta) -> list[str]:
    """End every session that has been idle too long; returns their ids."""
    idle = select(SessionRow).where(
        col(SessionRow.closed_at).is_(None), col(SessionRow.last_active_at) <= now - idle_close
    )
    closed = []
    for row in (await db.exec(idle)).all():
        await _close(db, row, "idle", now=now, idle_close=idle_close)
        closed.append(row.session_id)
    return closed


async def get_session(db: AsyncSession, session_id: str) -> Session | None:
    row = await db.get(SessionRow, session_id)
    return None if row is None else record(Session, row)


def _ending(
    row: SessionRow, now: dt.datetime, idle_close: dt.timedelta, label: str | None
) -> SessionCloseReason | None:
    """Why this open session is over for words said `now` under `label`; None: it goes on."""
    if now - row.last_active_at >= idle_close:
        return "idle"
    # A device may also send back the session id that it was answered with.
    if label is not None and label not in (row.label, row.session_id):
        return "replaced"
    return None


async def _close(
    db: AsyncSession,
    row: SessionRow,
    reason: SessionCloseReason,
    *,
    now: dt.datetime,
    idle_close: dt.timedelta = dt.timedelta(),
) -> None:
    # An idle session ended when its time ran out, however late that is noticed.
    row.closed_at = row.last_active_at + idle_close if reason == "idle" else now
    row.close_reason = reason
    db.add(row)
    await jobs.enqueue(db, "ingest", row.session_id, now=now)


async def _open_row(db: AsyncSession, channel_id: str) -> SessionRow | None:
    wanted = select(SessionRow).where(SessionRow.channel_id == channel_id, col(SessionRow.closed_at).is_(None))
    return (await db.exec(wanted)).first()


async def _row(db: AsyncSession, session_id: str) -> SessionRow:
    row = await db.get(SessionRow, session_id)
    if row is None:
        raise NotFoundError(f"There is no session {session_id}.")
    return row
