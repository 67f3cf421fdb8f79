"""Tables of long-term memory in `session.sqlite`: memories, where they come from, the word indexes, jobs, segments.

Row classes only; queries live in one file a domain. Imported wherever the metadata is used as a whole, since a table
that nobody imported is not in it. The word indexes are SQLite's FTS5: virtual tables that hold `words.tokens(text)`.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from sqlalchemy import DDL, CheckConstraint, Index, UniqueConstraint, event, text
from sqlmodel import Field

from server.storage.schema import one_of
from server.storage.session_tables import SessionTable, Visibility
from server.storage.types import CleanJson, CleanText, UtcDateTime

MemoryType = Literal["episode", "preference", "decision", "fact"]
MemoryStatus = Literal["active", "superseded", "forgotten"]
Confidence = Literal["said", "inferred"]
IndexState = Literal["pending", "indexed", "failed"]
JobKind = Literal["ingest", "index", "unindex", "scrub"]
JobState = Literal["queued", "running", "parked"]
SegmentResult = Literal["memories", "filler", "forgotten"]

WORD_TABLES = ("recall_words", "source_words")
"""The virtual tables; FTS5 keeps its own tables behind each, named `<table>_<part>`."""

_UNINDEXED = text("index_state <> 'indexed'")
_HAS_OWNER = text("lease_owner IS NOT NULL")


def create_word_table(name: str) -> str:
    """The SQL that makes a word index. Its tokenizer only cuts at spaces: what a word is, Python decides.

    (`ascii` takes every character above 127 for part of a word; `unicode61` would cut at those newer than its tables.)
    """
    return f"CREATE VIRTUAL TABLE {name} USING fts5(body, tokenize = \"ascii tokenchars '.'\")"


class RecallItemRow(SessionTable, table=True):
    """A memory. `item_id` is its row in the word index; all else calls it by `memory_id`."""

    __tablename__ = "recall_items"
    __table_args__ = (
        one_of("memory_type", MemoryType),
        one_of("status", MemoryStatus),
        one_of("confidence", Confidence),
        one_of("visibility", Visibility),
        one_of("index_state", IndexState),
        CheckConstraint("importance BETWEEN 1 AND 5", name="importance"),
        UniqueConstraint("memory_id"),
        # All that a search narrows by, so that narrowing reads this index and no row.
        Index(
            "ix_recall_items_narrow",
            *("persona_id", "status", "occurred_at", "memory_type", "visibility", "channel_id", "memory_id"),
        ),
        Index("ix_recall_items_unindexed", "memory_id", sqlite_where=_UNINDEXED, postgresql_where=_UNINDEXED),
        Index("ix_recall_items_superseded_by", "superseded_by"),
    )

    item_id: int | None = Field(default=None, primary_key=True)
    memory_id: str = Field(sa_type=CleanText)
    topic: str = Field(sa_type=CleanText)
    summary: str = Field(sa_type=CleanText)
    entities: Any = Field(sa_type=CleanJson, nullable=False)
    memory_type: str = Field(sa_type=CleanText)
    occurred_at: dt.datetime = Field(sa_type=UtcDateTime)
    zone: str = Field(sa_type=CleanText)
    status: str = Field(sa_type=CleanText)
    superseded_by: str | None = Field(default=None, foreign_key="recall_items.memory_id", sa_type=CleanText)
    language: str = Field(sa_type=CleanText)
    speakers: Any = Field(sa_type=CleanJson, nullable=False)
    confidence: str = Field(sa_type=CleanText)
    importance: int
    persona_id: str = Field(sa_type=CleanText)
    channel_id: str = Field(foreign_key="channels.channel_id", sa_type=CleanText)
    visibility: str = Field(sa_type=CleanText)
    index_state: str = Field(sa_type=CleanText)
    revision: int
    attempts: int
    error: str | None = Field(default=None, sa_type=CleanText)
    created_at: dt.datetime = Field(sa_type=UtcDateTime)
    updated_at: dt.datetime = Field(sa_type=UtcDateTime)


class RecallSourceRow(SessionTable, table=True):
    __tablename__ = "recall_sources"
    __table_args__ = (Index("ix_recall_sources_source_turn_id", "source_turn_id"),)

    memory_id: str = Field(primary_key=True, foreign_key="recall_items.memory_id", sa_type=CleanText)
    source_turn_id: int = Field(
        primary_key=True, foreign_key="source_turns.source_turn_id", sa_column_kwargs={"autoincrement": False}
    )


class RecallEntityRow(SessionTable, table=True):
    __tablename__ = "recall_entities"
    __table_args__ = (Index("ix_recall_entities_entity_key_memory_id", "entity_key", "memory_id"),)

    memory_id: str = Field(primary_key=True, foreign_key="recall_items.memory_id", sa_type=CleanText)
    entity_key: str = Field(primary_key=True, sa_type=CleanText)


class RecallSpeakerRow(SessionTable, table=True):
    """Whose memory it is: who spoke and who was there. What `speakers` says, for queries."""

    __tablename__ = "recall_speakers"
    __table_args__ = (Index("ix_recall_speakers_speaker_id_memory_id", "speaker_id", "memory_id"),)

    memory_id: str = Field(primary_key=True, foreign_key="recall_items.memory_id", sa_type=CleanText)
    speaker_id: str = Field(primary_key=True, sa_type=CleanText)


class JobRow(SessionTable, table=True):
    """Work that waits, or is being done under a lease. What is done is deleted."""

    __tablename__ = "jobs"
    __table_args__ = (
        one_of("kind", JobKind),
        one_of("state", JobState),
        CheckConstraint("(state = 'running') = (lease_owner IS NOT NULL)", name="leased"),
        CheckConstraint("(lease_until IS NOT NULL) = (lease_owner IS NOT NULL)", name="leased_until"),
        UniqueConstraint("kind", "subject"),
        Index("ix_jobs_state_not_before", "state", "not_before"),
        Index("ix_jobs_lease_owner", "lease_owner", sqlite_where=_HAS_OWNER, postgresql_where=_HAS_OWNER),
    )

    job_id: int | None = Field(default=None, primary_key=True)
    kind: str = Field(sa_type=CleanText)
    subject: str = Field(sa_type=CleanText)
    payload: Any = Field(default=None, sa_type=CleanJson, nullable=True)
    state: str = Field(sa_type=CleanText)
    requests: int
    attempts: int
    not_before: dt.datetime = Field(sa_type=UtcDateTime)
    lease_until: dt.datetime | None = Field(default=None, sa_type=UtcDateTime)
    lease_owner: str | None = Field(default=None, sa_type=CleanText)
    error: str | None = Field(default=None, sa_type=CleanText)
    created_at: dt.datetime = Field(sa_type=UtcDateTime)


class SegmentRow(SessionTable, table=True):
    """A few exchanges on one topic that have been taken in."""

    __tablename__ = "segments"
    __table_args__ = (one_of("result", SegmentResult), Index("ix_segments_session_id", "session_id"))

    segment_id: int | None = Field(default=None, primary_key=True)
    session_id: str = Field(foreign_key="sessions.session_id", sa_type=CleanText)
    result: str = Field(sa_type=CleanText)
    closed_at: dt.datetime = Field(sa_type=UtcDateTime)


class SegmentTurnRow(SessionTable, table=True):
    """Which turns a segment took in. The primary key keeps a turn from being taken in twice."""

    __tablename__ = "segment_turns"
    __table_args__ = (Index("ix_segment_turns_segment_id", "segment_id"),)

    turn_id: int = Field(primary_key=True, foreign_key="turns.turn_id", sa_column_kwargs={"autoincrement": False})
    segment_id: int = Field(foreign_key="segments.segment_id")


for _name in WORD_TABLES:
    event.listen(SessionTable.metadata, "after_create", DDL(create_word_table(_name)))  # type: ignore[no-untyped-call]
