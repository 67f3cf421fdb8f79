"""Tables of `<data>/server.sqlite`: what must never be rewound when a world is restored.

Whose it is, devices, tokens, speakers, the counters ids come from, what was forgotten, and timers. Row classes only;
queries live in one file a domain.
"""

from __future__ import annotations

import datetime as dt
from typing import ClassVar, Literal

from sqlalchemy import CheckConstraint, Index, MetaData, UniqueConstraint
from sqlmodel import Field, SQLModel

from server.storage.schema import new_metadata, one_of
from server.storage.types import CleanText, UtcDateTime

DeviceKind = Literal["robot", "web", "cli", "unknown"]
TokenKind = Literal["owner", "device"]


class ServerTable(SQLModel):
    """Base of the tables in `server.sqlite`."""

    metadata: ClassVar[MetaData] = new_metadata()


class HouseRow(ServerTable, table=True):
    """One row, made with the database: whose this data folder is. Copies of it, on any computer, say the same."""

    __tablename__ = "house"

    house_id: str = Field(primary_key=True, sa_type=CleanText)


class SpeakerRow(ServerTable, table=True):
    __tablename__ = "speakers"

    speaker_id: str = Field(primary_key=True, sa_type=CleanText)
    name: str = Field(sa_type=CleanText)
    created_at: dt.datetime = Field(sa_type=UtcDateTime)


class DeviceRow(ServerTable, table=True):
    __tablename__ = "devices"
    __table_args__ = (one_of("kind", DeviceKind),)

    device_id: str = Field(primary_key=True, sa_type=CleanText)
    name: str = Field(sa_type=CleanText)
    kind: str = Field(sa_type=CleanText)
    owner_speaker_id: str | None = Field(default=None, foreign_key="speakers.speaker_id", sa_type=CleanText)
    created_at: dt.datetime = Field(sa_type=UtcDateTime)
    last_seen_at: dt.datetime = Field(sa_type=UtcDateTime)
    revoked_at: dt.datetime | None = Field(default=None, sa_type=UtcDateTime)


class TokenRow(ServerTable, table=True):
    __tablename__ = "tokens"
    __table_args__ = (one_of("kind", TokenKind),)

    token_id: str = Field(primary_key=True, sa_type=CleanText)
    token_hash: str = Field(unique=True, sa_type=CleanText)
    kind: str = Field(sa_type=CleanText)
    device_id: str | None = Field(default=None, foreign_key="devices.device_id", index=True, sa_type=CleanText)
    created_at: dt.datetime = Field(sa_type=UtcDateTime)
    revoked_at: dt.datetime | None = Field(default=None, sa_type=UtcDateTime)


class IdCounterRow(ServerTable, table=True):
    __tablename__ = "id_counters"

    name: str = Field(primary_key=True, sa_type=CleanText)
    next_id: int


class TombstoneRow(ServerTable, table=True):
    """Something was forgotten, in every world; it holds ids, no words."""

    __tablename__ = "tombstones"
    __table_args__ = (
        CheckConstraint("(memory_id IS NULL) <> (source_turn_id IS NULL)", name="one_id"),
        UniqueConstraint("memory_id"),
        UniqueConstraint("source_turn_id"),
    )

    tombstone_id: int | None = Field(default=None, primary_key=True)
    memory_id: str | None = Field(default=None, sa_type=CleanText)
    source_turn_id: int | None = None
    blanked: bool
    forgotten_at: dt.datetime = Field(sa_type=UtcDateTime)


class TimerRow(ServerTable, table=True):
    """A timer that has not been heard yet. It goes when it was; a restored world must not ring again."""

    __tablename__ = "timers"
    __table_args__ = (
        CheckConstraint("duration_seconds > 0", name="some_time"),
        Index("ix_timers_device_id_due_at", "device_id", "due_at"),
    )

    timer_id: int | None = Field(default=None, primary_key=True)
    device_id: str = Field(foreign_key="devices.device_id", sa_type=CleanText)
    label: str = Field(sa_type=CleanText)
    language: str = Field(sa_type=CleanText)
    duration_seconds: int
    set_at: dt.datetime = Field(sa_type=UtcDateTime)
    due_at: dt.datetime = Field(sa_type=UtcDateTime)
    zone: str | None = Field(default=None, sa_type=CleanText)
