"""Queries on channels, the places of conversations: `stackchan:<device>`, `web:<id>`, `<source>:<channel>`."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import bindparam
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.records import Channel, record
from server.storage.session_tables import ChannelKind, ChannelRow

_CHANNEL = select(ChannelRow).where(col(ChannelRow.channel_id) == bindparam("this_channel_id"))


async def ensure_channel(
    db: AsyncSession,
    channel_id: str,
    *,
    kind: ChannelKind,
    now: dt.datetime,
    private: bool = False,
    parent_channel_id: str | None = None,
) -> Channel:
    """The channel, made when new; an existing one keeps what it was made with."""
    row = (await db.exec(_CHANNEL, params={"this_channel_id": channel_id})).one_or_none()
    if row is None:
        row = ChannelRow(
            channel_id=channel_id, kind=kind, private=private, parent_channel_id=parent_channel_id, created_at=now
        )
        db.add(row)
        await db.flush()
    return record(Channel, row)
