"""What comes in with an import: plain frozen values, checked by whoever read them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from server.events import TurnOutcome
from server.storage.memory_records import MemoryFacts
from server.storage.session_tables import ChannelKind, InputKind, SourceRole, Visibility


@dataclass(frozen=True, slots=True)
class ImportedChannel:
    channel_id: str
    kind: ChannelKind
    private: bool
    parent_channel_id: str | None
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class ImportedWords:
    """One side's words. `text` empty: they were forgotten."""

    source_turn_id: int
    role: SourceRole
    speaker_id: str | None
    text: str
    language: str
    visibility: Visibility
    said_at: dt.datetime
    zone: str
    audio_duration_ms: int | None
    interrupted: bool


@dataclass(frozen=True, slots=True)
class ImportedTurn:
    turn_id: int
    session_id: str
    channel_id: str
    persona_id: str
    outcome: TurnOutcome
    input_kind: InputKind
    emotion: str | None
    action: str | None
    started_at: dt.datetime
    ended_at: dt.datetime
    recalled: tuple[str, ...]
    """Memories that were told in it: forgetting one of them blanks it."""
    said: tuple[ImportedWords, ...]


@dataclass(frozen=True, slots=True)
class ImportedMemory(MemoryFacts):
    status: Literal["active", "superseded"]
    superseded_by: str | None
    created_at: dt.datetime
    updated_at: dt.datetime
    turns: tuple[ImportedTurn, ...]


@dataclass(frozen=True, slots=True)
class Numbers:
    """New numbers for those of a file."""

    turns: Mapping[int, int]
    sources: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ForgottenHere:
    """Which memories and words of a file were forgotten here, by the file's own numbers."""

    memories: frozenset[str] = frozenset()
    sources: frozenset[int] = frozenset()


@dataclass
class Imported:
    """What became of a file."""

    imported: list[str] = field(default_factory=list)
    already_there: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    """Forgotten here, or an older version of something forgotten: not brought back."""
    turns: int = 0
    """Exchanges whose words were written."""
