"""What a search of long-term memory takes and returns: plain frozen values."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from server.storage.memory_records import Memory
from server.storage.recall_tables import MemoryStatus, MemoryType
from server.storage.records import SourceTurn


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A question to memory. `persona` and `speaker` bound what may be found."""

    text: str
    persona: str
    speaker: str | None
    """Speaker id of who asks; None, a stranger, finds nothing private."""
    now: dt.datetime
    zone: dt.tzinfo
    """Where it is asked: what 昨日 and a date are there."""
    entities: tuple[str, ...] = ()
    date_from: dt.date | None = None
    date_to: dt.date | None = None
    """Local days, both ends among them; never loosened."""
    memory_type: MemoryType | None = None
    limit: int = 5
    about: tuple[str, ...] = ()
    """Speaker ids of people whom the question names."""
    except_session_id: str | None = None
    """The conversation in progress: its words are in the prompt already."""
    history: bool = False
    """Superseded memories too."""
    statuses: tuple[MemoryStatus, ...] | None = None
    """Instead of what `history` says."""
    said_by: str | None = None
    """Only what this speaker said."""
    rerank: bool = False
    """A reranker, if there is one, may order the best: for who waits for an answer, not for a hint."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that was found."""

    memory: Memory
    retrieval_score: float | None
    """Cosine of question and summary: how alike, never how sure. None without a vector."""
    fused_score: float
    """What it was ranked by; comparable within one search only."""
    answer: str | None = None
    """What of its summary answers the question; None: all of it."""
    unsure: bool = False
    """It may be what is asked about, and may not."""


@dataclass(frozen=True, slots=True)
class Searched:
    """How the search was made."""

    memories: int | None
    """How many were left to rank after narrowing; None when the index narrowed by itself."""
    loosened: tuple[str, ...] = ()
    """Of `entities` and `memory_type`, those given up because nothing was left with them."""
    words_only: str | None = None
    """Why no vectors were used: an error's code, or `timeout`."""
    days: tuple[str, ...] = ()
    """Words of the question that named days, and raised what happened then."""
    recipe: str = ""
    reranked: int = 0
    """How many of the best a reranker has ordered."""
    rerank_trouble: str | None = None
    """Why it was left out: an error's code, or `timeout`."""
    dropped: int = 0
    """Candidates left out, all of them, because even the best has too little to do with the question."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    candidates: tuple[Candidate, ...]
    """In fused order."""
    said: tuple[SourceTurn, ...]
    """Found by words, best first, and not yet in any memory: said a minute ago, perhaps."""
    ambiguous: bool
    """The best two name different things and are close: ask which one is meant."""
    searched: Searched
