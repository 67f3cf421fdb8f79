"""Queries on timers, in `server.sqlite`. Takes times as arguments; knows no clock and no device that is connected."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import delete
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.records import Timer, record
from server.storage.server_tables import TimerRow


async def add_timer(
    db: AsyncSession,
    device_id: str,
    *,
    label: str,
    language: str,
    now: dt.datetime,
    due_at: dt.datetime,
    zone: str | None = None,
) -> Timer:
    """A timer of `now` that is due at least a second later. `zone`: its time was said by the clock, there."""
    row = TimerRow(
        device_id=device_id,
        label=label,
        language=language,
        duration_seconds=max(1, round((due_at - now).total_seconds())),
        set_at=now,
        due_at=due_at,
        zone=zone,
    )
    db.add(row)
    await db.flush()
    return record(Timer, row)


async def all_timers(db: AsyncSession) -> list[Timer]:
    """Those of every device, the next one to ring first."""
    rows = await db.exec(select(TimerRow).order_by(col(TimerRow.due_at), col(TimerRow.timer_id)))
    return [record(Timer, row) for row in rows]


async def remove_timers(db: AsyncSession, timer_ids: tuple[int, ...]) -> None:
    """Take these away; those that are gone already are no error."""
    await db.exec(delete(TimerRow).where(col(TimerRow.timer_id).in_(timer_ids)))
