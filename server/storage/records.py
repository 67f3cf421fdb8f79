"""What the query functions return: plain frozen values, detached from any database session."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

from server.events import TurnOutcome, TurnStatus
from server.storage.server_tables import DeviceKind, TokenKind
from server.storage.session_tables import ChannelKind, InputKind, SessionCloseReason, SourceRole, Visibility

RecordT = TypeVar("RecordT")


def record(kind: type[RecordT], row: object) -> RecordT:
    """Copy a row's columns into the record that has fields of the same names."""
    return kind(**{item.name: getattr(row, item.name) for item in fields(cast(Any, kind))})


@dataclass(frozen=True, slots=True)
class Device:
    device_id: str
    name: str
    kind: DeviceKind
    owner_speaker_id: str | None
    created_at: dt.datetime
    last_seen_at: dt.datetime
    revoked_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Timer:
    """One that has not been heard yet."""

    timer_id: int
    device_id: str
    label: str
    """What it is for, in the user's words; empty: not said."""
    language: str
    """ISO 639-1, of the words it was set with."""
    duration_seconds: int
    set_at: dt.datetime
    due_at: dt.datetime
    zone: str | None = None
    """Of a time of the clock: where that clock is; None: it was set for a length of time."""


@dataclass(frozen=True, slots=True)
class Token:
    token_id: str
    kind: TokenKind
    device_id: str | None
    created_at: dt.datetime
    revoked_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Channel:
    channel_id: str
    kind: ChannelKind
    private: bool
    parent_channel_id: str | None
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation in progress, or one that was."""

    session_id: str
    channel_id: str
    device_id: str | None
    label: str | None
    """What the device calls it."""
    opened_at: dt.datetime
    last_active_at: dt.datetime
    closed_at: dt.datetime | None
    close_reason: SessionCloseReason | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange. `latency`, `memory`: as the turn wrote them."""

    turn_id: int
    session_id: str
    channel_id: str
    device_id: str | None
    status: TurnStatus
    outcome: TurnOutcome | None
    input_kind: InputKind
    idempotency_key: str | None
    transcript: str | None
    language: str | None
    reply: str | None
    emotion: str | None
    action: str | None
    error_code: str | None
    error_message: str | None
    audio_duration_ms: int | None
    speech_duration_ms: int | None
    persona_id: str
    started_at: dt.datetime
    ended_at: dt.datetime | None
    latency: Any
    memory: Any
    request_digest: str | None
    """What the idempotency key was first sent with."""


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """One side's exact words."""

    source_turn_id: int
    turn_id: int
    session_id: str
    channel_id: str
    role: SourceRole
    speaker_id: str | None
    text: str
    language: str
    visibility: Visibility
    said_at: dt.datetime
    zone: str
    """IANA zone of the place it was said in."""
    audio_duration_ms: int | None
    interrupted: bool
    tool_calls: Any
