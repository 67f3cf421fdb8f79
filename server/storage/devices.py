"""Queries on devices: robots and programs that talk to this server."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import bindparam
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.records import Device, record
from server.storage.server_tables import DeviceKind, DeviceRow

_DEVICE = select(DeviceRow).where(col(DeviceRow.device_id) == bindparam("this_device_id"))


async def ensure_device(
    db: AsyncSession, device_id: str, *, now: dt.datetime, kind: DeviceKind = "unknown", name: str | None = None
) -> Device:
    """The device, made when new; it was seen `now`. A known kind replaces `unknown`. It may be revoked: look."""
    row = await _row(db, device_id)
    if row is None:
        row = DeviceRow(device_id=device_id, name=name or device_id, kind=kind, created_at=now, last_seen_at=now)
    else:
        row.last_seen_at = now
        if row.kind == "unknown":
            row.kind = kind
    db.add(row)
    await db.flush()
    return record(Device, row)


async def get_device(db: AsyncSession, device_id: str) -> Device | None:
    row = await _row(db, device_id)
    return None if row is None else record(Device, row)


async def _row(db: AsyncSession, device_id: str) -> DeviceRow | None:
    return (await db.exec(_DEVICE, params={"this_device_id": device_id})).one_or_none()
