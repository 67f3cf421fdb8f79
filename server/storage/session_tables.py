"""Tables of `<data>/worlds/<world>/session.sqlite`: what one house remembers.

Row classes only; queries live in one file a domain. Device and speaker ids point into `server.sqlite`, so no foreign
key can guard them.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar, Literal

from sqlalchemy import CheckConstraint, Index, MetaData, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from server.events import TurnOutcome, TurnStatus
from server.storage.schema import new_metadata, one_of
from server.storage.types import CleanJson, CleanText, UtcDateTime

ChannelKind = Literal["stackchan", "web", "pool"]
SessionCloseReason = Literal["idle", "requested", "replaced"]
InputKind = Literal["audio", "text"]
SourceRole = Literal["user", "robot"]
Visibility = Literal["house", "private"]

_OPEN = text("closed_at IS NULL")


class SessionTable(SQLModel):
    """Base of the tables in `session.sqlite`."""

    metadata: ClassVar[MetaData] = new_metadata()


class ChannelRow(SessionTable, table=True):
    __tablename__ = "channels"
    __table_args__ = (one_of("kind", ChannelKind),)

    channel_id: str = Field(primary_key=True, sa_type=CleanText)
    kind: str = Field(sa_type=CleanText)
    private: bool = False
    parent_channel_id: str | None = Field(default=None, foreign_key="channels.channel_id", sa_type=CleanText)
    created_at: dt.datetime = Field(sa_type=UtcDateTime)


class SessionRow(SessionTable, table=True):
    __tablename__ = "sessions"
    __table_args__ = (
        one_of("close_reason", SessionCloseReason),
        CheckConstraint("(close_reason IS NOT NULL) = (closed_at IS NOT NULL)", name="closed_with_reason"),
        # Two requests at once must not open two conversations.
        Index("uq_sessions_open_channel", "channel_id", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
        Index("ix_sessions_channel_id_opened_at", "channel_id", "opened_at"),
    )

    session_id: str = Field(primary_key=True, sa_type=CleanText)
    channel_id: str = Field(foreign_key="channels.channel_id", sa_type=CleanText)
    device_id: str | None = Field(default=None, sa_type=CleanText)
    label: str | None = Field(default=None, sa_type=CleanText)
    opened_at: dt.datetime = Field(sa_type=UtcDateTime)
    last_active_at: dt.datetime = Field(sa_type=UtcDateTime)
    closed_at: dt.datetime | None = Field(default=None, sa_type=UtcDateTime)
    close_reason: str | None = Field(default=None, sa_type=CleanText)


class TurnRow(SessionTable, table=True):
    __tablename__ = "turns"
    __table_args__ = (
        one_of("status", TurnStatus),
        one_of("outcome", TurnOutcome),
        one_of("input_kind", InputKind),
        CheckConstraint("(status IN ('done', 'failed')) = (ended_at IS NOT NULL)", name="ended"),
        CheckConstraint("(outcome IS NOT NULL) = (ended_at IS NOT NULL)", name="outcome_when_ended"),
        UniqueConstraint("channel_id", "idempotency_key"),
        Index("ix_turns_status", "status"),
        Index("ix_turns_session_id_turn_id", "session_id", "turn_id"),
    )

    turn_id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    session_id: str = Field(foreign_key="sessions.session_id", sa_type=CleanText)
    channel_id: str = Field(foreign_key="channels.channel_id", sa_type=CleanText)
    device_id: str | None = Field(default=None, sa_type=CleanText)
    status: str = Field(sa_type=CleanText)
    outcome: str | None = Field(default=None, sa_type=CleanText)
    input_kind: str = Field(sa_type=CleanText)
    idempotency_key: str | None = Field(default=None, sa_type=CleanText)
    transcript: str | None = Field(default=None, sa_type=CleanText)
    language: str | None = Field(default=None, sa_type=CleanText)
    reply: str | None = Field(default=None, sa_type=CleanText)
    emotion: str | None = Field(default=None, sa_type=CleanText)
    action: str | None = Field(default=None, sa_type=CleanText)
    error_code: str | None = Field(default=None, sa_type=CleanText)
    error_message: str | None = Field(default=None, sa_type=CleanText)
    audio_duration_ms: int | None = None
    speech_duration_ms: int | None = None
    persona_id: str = Field(sa_type=CleanText)
    started_at: dt.datetime = Field(sa_type=UtcDateTime)
    ended_at: dt.datetime | None = Field(default=None, sa_type=UtcDateTime)
    latency: Any = Field(default=None, sa_type=CleanJson, nullable=True)
    memory: Any = Field(default=None, sa_type=CleanJson, nullable=True)
    request_digest: str | None = Field(default=None, sa_type=CleanText)


class SourceTurnRow(SessionTable, table=True):
    __tablename__ = "source_turns"
    __table_args__ = (
        one_of("role", SourceRole),
        one_of("visibility", Visibility),
        # One utterance of each side in a turn: a repeated write is refused, not doubled.
        UniqueConstraint("turn_id", "role"),
        Index("ix_source_turns_session_id_source_turn_id", "session_id", "source_turn_id"),
    )

    source_turn_id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    turn_id: int = Field(foreign_key="turns.turn_id")
    session_id: str = Field(foreign_key="sessions.session_id", sa_type=CleanText)
    channel_id: str = Field(foreign_key="channels.channel_id", sa_type=CleanText)
    role: str = Field(sa_type=CleanText)
    speaker_id: str | None = Field(default=None, sa_type=CleanText)
    text: str = Field(sa_type=CleanText)
    language: str = Field(sa_type=CleanText)
    visibility: str = Field(sa_type=CleanText)
    said_at: dt.datetime = Field(sa_type=UtcDateTime)
    zone: str = Field(sa_type=CleanText)
    audio_duration_ms: int | None = None
    interrupted: bool = False
    tool_calls: Any = Field(default=None, sa_type=CleanJson, nullable=True)


class TurnTraceRow(SessionTable, table=True):
    __tablename__ = "turn_traces"

    turn_id: int = Field(primary_key=True, foreign_key="turns.turn_id", sa_column_kwargs={"autoincrement": False})
    trace: Any = Field(sa_type=CleanJson, nullable=False)
