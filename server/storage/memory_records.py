"""What the queries on long-term memory take and return: plain frozen values, detached from any database session."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from server.events import TurnOutcome
from server.storage.recall_tables import (
    Confidence,
    IndexState,
    JobKind,
    JobState,
    MemoryStatus,
    MemoryType,
    SegmentResult,
)
from server.storage.records import SourceTurn
from server.storage.session_tables import Visibility

EVERY_STATUS: tuple[MemoryStatus, ...] = ("active", "superseded", "forgotten")


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What every memory says, also one that is to be stored or comes from elsewhere."""

    memory_id: str
    """`mem_` + ULID, made by the caller; a second one with the same id is refused."""
    topic: str
    summary: str
    entities: tuple[str, ...]
    """Names as they were said; compared by `words.entity_key`."""
    memory_type: MemoryType
    occurred_at: dt.datetime
    zone: str
    """IANA zone of the place it happened in."""
    language: str
    speakers: tuple[str, ...]
    """Speaker ids of who spoke and who was there: whom a private memory belongs to."""
    confidence: Confidence
    importance: int
    """1-5."""
    persona_id: str
    channel_id: str
    visibility: Visibility


@dataclass(frozen=True, slots=True)
class NewMemory(MemoryFacts):
    """A memory to be stored."""

    source_turn_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Memory(MemoryFacts):
    """A stored memory. Forgotten ones have no words left: topic, summary and entities are empty."""

    status: MemoryStatus
    superseded_by: str | None
    index_state: IndexState
    revision: int
    """Rises with every change that the vector index must follow; say it back in `mark_indexed`."""
    attempts: int
    error: str | None
    created_at: dt.datetime
    updated_at: dt.datetime
    source_turn_ids: tuple[int, ...]
    """In the order they were said."""

    def may_be_found_by(self, persona_id: str, speaker_id: str | None) -> bool:
        """Whether who asks may find it at all: nobody what was forgotten, a stranger nothing private."""
        if self.status == "forgotten" or self.persona_id != persona_id:
            return False
        return self.visibility == "house" or (speaker_id is not None and speaker_id in self.speakers)


@dataclass(frozen=True, slots=True)
class MemoryChanges:
    """What an edit replaces; None leaves as it is."""

    topic: str | None = None
    summary: str | None = None
    entities: tuple[str, ...] | None = None
    memory_type: MemoryType | None = None
    occurred_at: dt.datetime | None = None
    importance: int | None = None
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which memories may be found. All conditions hold together."""

    persona_id: str
    speaker_id: str | None
    """Who asks: private memories are found only by those they belong to; None, a stranger, finds none of them."""
    statuses: tuple[MemoryStatus, ...] = ("active",)
    said_by: str | None = None
    """Only what this speaker said."""
    entity_keys: tuple[str, ...] = ()
    """Keys as `words.entity_key` makes them; at least one of them is in it."""
    memory_type: MemoryType | None = None
    occurred_from: dt.datetime | None = None
    occurred_before: dt.datetime | None = None
    """The end of the range, itself not in it."""
    channel_id: str | None = None


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Which source turns may be found."""

    persona_id: str
    speaker_id: str | None
    """As in `MemoryFilter`: a private exchange is found only by who spoke in it."""
    said_from: dt.datetime | None = None
    said_before: dt.datetime | None = None
    channel_id: str | None = None
    except_session_id: str | None = None
    """The conversation in progress, whose words are in the prompt already, the question among them."""


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A memory found by words. `score`: BM25, higher is better."""

    memory_id: str
    score: float


@dataclass(frozen=True, slots=True)
class SourceHit:
    """A source turn found by words. `score`: BM25, higher is better."""

    source_turn_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Forgetting:
    """All that a forgetting reaches. Tombstones first, then the world's database, then copies elsewhere."""

    memory_ids: tuple[str, ...]
    """With the older versions that they superseded."""
    blanked_source_turn_ids: tuple[int, ...]
    """Turns whose words go: sources, the other side of their exchanges, and exchanges that recalled the memories."""
    hidden_source_turn_ids: tuple[int, ...]
    """Turns whose words stay in the log, but are found no more."""
    turn_ids: tuple[int, ...]
    """The exchanges that are blanked: their recorded voice and other copies go too."""


@dataclass(frozen=True, slots=True)
class OpenExchange:
    """An exchange that has ended and is in no segment yet. `robot`: None when nothing was answered."""

    turn_id: int
    outcome: TurnOutcome
    persona_id: str
    user: SourceTurn
    robot: SourceTurn | None


@dataclass(frozen=True, slots=True)
class Job:
    """Work to do. While it is running: leased to `lease_owner` until `lease_until`."""

    job_id: int
    kind: JobKind
    subject: str
    payload: Any
    state: JobState
    requests: int
    """Rises when the same work is asked for again; a change while it runs means that it is not over."""
    attempts: int
    not_before: dt.datetime
    lease_until: dt.datetime | None
    lease_owner: str | None
    error: str | None
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Segment:
    """A few exchanges that have been taken in."""

    segment_id: int
    session_id: str
    result: SegmentResult
    closed_at: dt.datetime
    turn_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """Figures for the owner."""

    exchanges: int
    """Turns that ended with the user's words in them."""
    source_turns: int
    memories: dict[MemoryStatus, int]
    index_states: dict[IndexState, int]
    """Of memories that are not forgotten."""
    jobs: dict[JobKind, dict[JobState, int]]
    segments: dict[SegmentResult, int]

    @property
    def pending(self) -> int:
        """Jobs that wait or run."""
        return sum(sum(by_state.values()) for by_state in self.jobs.values()) - self.parked

    @property
    def parked(self) -> int:
        """Jobs given up, until somebody asks again."""
        return sum(by_state.get("parked", 0) for by_state in self.jobs.values())


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Something was forgotten, for good. Either id is set, never both."""

    tombstone_id: int
    memory_id: str | None
    source_turn_id: int | None
    blanked: bool
    """Of a source turn: its words are gone; else they stay in the log, but nothing is made of them again."""
    forgotten_at: dt.datetime
