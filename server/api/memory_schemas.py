"""The JSON of the memory endpoints, as the API page shows it. Values come ready from `server.memory`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from server.memory.owner import ENTITIES_LIMIT, ENTITY_LIMIT, SUMMARY_LIMIT, TOPIC_LIMIT
from server.storage.memory_records import MemoryChanges
from server.storage.recall_tables import Confidence, IndexState, JobKind, MemoryStatus, MemoryType
from server.storage.session_tables import SourceRole, Visibility


class Error(BaseModel):
    code: str
    message: str
    retryable: bool = False
    hint: str | None = None


class Problem(BaseModel):
    """Every answer that is not 2xx."""

    error: Error


class Said(BaseModel):
    """One side's exact words; `text` is null when they were forgotten."""

    source_turn_id: int
    turn_id: int
    session_id: str
    channel_id: str
    role: SourceRole
    speaker_id: str | None
    text: str | None
    language: str
    said_at: str = Field(description="RFC 3339, at the place it was said in")


class MemoryInfo(BaseModel):
    memory_id: str
    topic: str
    summary: str
    entities: list[str]
    memory_type: MemoryType
    occurred_at: str = Field(description="RFC 3339, at the place it happened in")
    zone: str
    status: MemoryStatus
    superseded_by: str | None
    language: str
    speakers: list[str]
    confidence: Confidence = Field(description="`inferred`: something in it was not literally said")
    importance: int
    persona_id: str
    channel_id: str
    visibility: Visibility
    index_state: IndexState
    attempts: int
    error: str | None
    created_at: str
    updated_at: str
    source_turn_ids: list[int]


class FoundMemory(MemoryInfo):
    retrieval_score: float | None = Field(
        default=None,
        description="of a search: how alike question and summary are, not how sure",
    )


class Searched(BaseModel):
    loosened: list[str] = Field(description="conditions given up because nothing was left with them")
    words_only: str | None = Field(description="why no vectors were used: an error's code, or `timeout`")


class MemoryPage(BaseModel):
    memories: list[FoundMemory]
    next: str | None = Field(description="send it as `after` for the next page; null at the end")
    ambiguous: bool | None = Field(default=None, description="of a search: the best two are close and differ")
    searched: Searched | None = None
    not_yet_taken_in: list[Said] | None = Field(
        default=None, description="of a search: words that match and are not in any memory yet"
    )


class MemoryDetail(MemoryInfo):
    sources: list[Said]
    older: list[MemoryInfo] = Field(description="versions that it superseded, the latest first")
    newer: list[MemoryInfo] = Field(description="versions that superseded it, the next one first")


class MemoryEdit(BaseModel):
    """What to change; at least one. What is left out stays."""

    model_config = ConfigDict(extra="forbid")

    topic: str | None = Field(default=None, max_length=TOPIC_LIMIT)
    summary: str | None = Field(default=None, min_length=1, max_length=SUMMARY_LIMIT)
    entities: list[Annotated[str, Field(max_length=ENTITY_LIMIT)]] | None = Field(
        default=None, max_length=ENTITIES_LIMIT
    )
    memory_type: MemoryType | None = None
    importance: int | None = Field(default=None, ge=1, le=5, strict=True)
    occurred_at: AwareDatetime | None = None

    def changes(self) -> MemoryChanges:
        values = self.model_dump()
        if self.entities is not None:
            values["entities"] = tuple(self.entities)
        return MemoryChanges(**values)


class WouldForget(BaseModel):
    """What would go; nothing has gone."""

    memories: list[MemoryInfo] = Field(description="it and its older versions")
    blanked_turns: int = Field(description="exchanges whose words would be gone")
    said: list[Said] = Field(description="those words")


class ForgottenInfo(BaseModel):
    forgotten: list[str] = Field(description="ids, older versions among them")
    blanked_turns: int = Field(description="exchanges whose words are gone")
    still_found: list[str] = Field(description="what is not gone yet, and other memories and words that tell the same")


class Parked(BaseModel):
    """Work that was given up until `retry`."""

    kind: JobKind
    subject: str
    code: str | None
    error: str | None
    attempts: int


class IndexInfo(BaseModel):
    kind: str
    points: int | None
    problem: Error | None
    folder_bytes: int | None
    states: dict[str, int] = Field(description="memories whose vector is indexed, pending or failed")


class MemoryStatusInfo(BaseModel):
    turns: int
    source_turns: int
    memories: dict[MemoryStatus, int]
    pending: int
    parked_count: int
    parked: list[Parked] = Field(description="the first hundred")
    filler_excluded: int = Field(description="segments of which nothing was kept")
    searches: int = Field(description="turns that searched; those whose words were forgotten are not counted")
    misses_corrected: int = Field(description="memories that were told and corrected afterwards")
    index: IndexInfo
    embedding_model: str
    embedding_dimensions: int


class ImportInfo(BaseModel):
    """What became of the memories of the file, with the first hundred ids of each kind."""

    imported: int
    imported_ids: list[str]
    already_there: int = Field(description="left as they are")
    already_there_ids: list[str]
    forgotten: int = Field(description="forgotten here, or an older version of something forgotten: not brought back")
    forgotten_ids: list[str]
    turns: int = Field(description="exchanges whose words came with them")


class RebuildInfo(BaseModel):
    state: Literal["idle", "running", "done", "failed"]
    done: int
    total: int
    error: Error | None


class Queued(BaseModel):
    queued: int


class AuditedMemory(BaseModel):
    memory_id: str
    topic: str
    summary: str
    memory_type: MemoryType
    confidence: Confidence
    status: MemoryStatus


class AuditedSegment(BaseModel):
    segment_id: int
    session_id: str
    closed_at: str
    said: list[Said]
    memories: list[AuditedMemory]


class AuditInfo(BaseModel):
    kept: list[AuditedSegment] = Field(description="drawn at random from what memories were made of")
    filler: list[AuditedSegment] = Field(description="drawn at random from what nothing was kept of")
    segments: dict[str, int]
    memories_by_type: dict[str, int]
    filler_share: float | None
