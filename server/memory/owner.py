"""What the owner sees and does with memory: status, list, search, show, edit, forget, retry, rebuild.

The same for HTTP and for the command line without a server, so every answer is a plain JSON-able dict. The owner may
see everything; who talks to the robot may not, and never comes here. Knows no HTTP and no terminal.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from server.engines.base import EmbeddingFingerprint
from server.errors import GoneError, MemoryIndexError, NotFoundError, RequestError, StackChanError, StorageError
from server.memory.as_json import Answer, memory_json, said_json
from server.memory.importing import Imports
from server.memory.indexer import Indexer, Progress
from server.memory.keeper import Keeper
from server.memory.leases import Clock
from server.memory.rebuilding import Rebuilding, told
from server.memory.recall import CANDIDATES_LIMIT, Recall
from server.memory.recall_records import Candidate, SearchQuery, SearchResult
from server.storage import jobs, memories, memory_browse, memory_lookup
from server.storage.database import Databases
from server.storage.memory_browse import Listing
from server.storage.memory_records import EVERY_STATUS, Job, MemoryChanges
from server.storage.recall_tables import MemoryStatus, MemoryType
from server.storage.records import SourceTurn
from server.storage.types import FIRST_DAY, LAST_DAY, clean_text, is_possible_day, is_visible
from server.storage.words import entity_key

WantedStatus = Literal["active", "superseded", "forgotten", "all"]
TOPIC_LIMIT, SUMMARY_LIMIT, ENTITY_LIMIT, ENTITIES_LIMIT = 200, 4_000, 200, 50
"""Characters of a topic, a summary and a name, and how many names, written by hand."""
_PARKED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the owner looks for: ranked with a `query`, else the newest first."""

    query: str | None = None
    limit: int = 20
    after: str | None = None
    """`next` of the page before; of a list only."""
    status: WantedStatus = "active"
    memory_type: MemoryType | None = None
    entity: str | None = None
    date_from: dt.date | None = None
    date_to: dt.date | None = None
    """Local days, both ends among them."""
    speaker: str | None = None


class MemoryOwner:
    """`zone`: of the house, for dates. `index_folder` None: vectors are elsewhere. `wake`: there is work.

    `rebuild` None: the indexer's; give one that can also open an index which does not fit. `index_problem`: why the
    index could not be opened. Close it before the databases.
    """

    def __init__(
        self,
        databases: Databases,
        keeper: Keeper,
        indexer: Indexer,
        recall: Recall,
        embedding: EmbeddingFingerprint,
        *,
        persona_id: str,
        clock: Clock,
        zone: ZoneInfo,
        index_kind: str = "local",
        index_folder: Path | None = None,
        index_problem: Callable[[], StackChanError | None] = lambda: None,
        rebuild: Callable[[Progress], Awaitable[object]] | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.databases = databases
        self.clock = clock
        self.keeper = keeper
        self.wake = wake
        self._indexer = indexer
        self._recall = recall
        self._embedding = embedding
        self._persona_id = persona_id
        self._zone = zone
        self._index_kind = index_kind
        self._index_folder = index_folder
        self._index_problem = index_problem
        self.imports = Imports(databases, keeper, clock=clock)
        self.rebuilding = Rebuilding(rebuild or indexer.rebuild)

    async def close(self) -> None:
        """A rebuild that runs is broken off; what it has not written stays queued."""
        await self.rebuilding.close()

    async def status(self) -> Answer:
        """Counts of everything that is kept, waits or was given up, and the state of the index."""
        async with self.databases.world(write=False) as db:
            counted = await memory_lookup.counts(db)
            parked = await jobs.parked(db, _PARKED_SHOWN)
            figures = await memory_browse.recall_figures(db)
        return {
            "turns": counted.exchanges,
            "source_turns": counted.source_turns,
            "memories": {status: counted.memories.get(status, 0) for status in EVERY_STATUS},
            "pending": counted.pending,
            "parked_count": counted.parked,
            "parked": [_parked_json(job) for job in parked],
            "filler_excluded": counted.segments.get("filler", 0),
            "searches": figures.searches,
            "misses_corrected": figures.misses_corrected,
            "index": await self._index_json() | {"states": dict(counted.index_states)},
            "embedding_model": self._embedding.model,
            "embedding_dimensions": self._embedding.dimensions,
        }

    async def find(self, wanted: Wanted) -> Answer:
        """`{"memories": [...], "next": id or null}`; with a query also how they were found. Raises `RequestError`."""
        _check(wanted)
        if wanted.query is not None:
            return await self._search(wanted, wanted.query)
        since, before = self._range(wanted)
        asked = Listing(
            wanted.limit + 1,
            after=wanted.after,
            statuses=_statuses(wanted.status),
            memory_type=wanted.memory_type,
            entity_key=None if wanted.entity is None else entity_key(wanted.entity),
            occurred_from=since,
            occurred_before=before,
            speaker_id=wanted.speaker,
        )
        async with self.databases.world(write=False) as db:
            found = await memory_browse.listing(db, asked)
        page = found[: wanted.limit]
        following = page[-1].memory_id if len(found) > wanted.limit else None
        return {"memories": [memory_json(memory) for memory in page], "next": following}

    async def show(self, memory_id: str) -> Answer:
        """All fields, the exact words, and the versions. Raises `NotFoundError`, `GoneError` when it was forgotten."""
        async with self.databases.world(write=False) as db:
            memory = await memories.get(db, memory_id)
            if memory is None:
                raise _missing()
            if memory.status == "forgotten":
                raise _forgotten()
            said = await memory_browse.exact_words(db, memory.source_turn_ids)
            older = await memory_browse.older_versions(db, memory_id)
            newer = await memory_browse.newer_versions(db, memory_id)
        return memory_json(memory) | {
            "sources": [said_json(turn) for turn in said],
            "older": [memory_json(one) for one in older],
            "newer": [memory_json(one) for one in newer],
        }

    async def edit(self, memory_id: str, changes: MemoryChanges) -> Answer:
        """Change it by hand; its vector follows. Returns what `show` does. Raises as `show`, and `RequestError`."""
        changes = _checked(changes)
        async with self.databases.world(write=False) as db:
            memory = await memories.get(db, memory_id)
        if memory is None:
            raise _missing()
        if memory.status == "forgotten":
            raise _forgotten()
        try:
            await self.keeper.edit(memory_id, changes)
        except StorageError:
            async with self.databases.world(write=False) as db:
                memory = await memories.get(db, memory_id)
            if memory is not None and memory.status == "forgotten":
                raise _forgotten() from None
            raise
        self.wake()
        return await self.show(memory_id)

    async def would_forget(self, memory_id: str, *, also_source: bool = True) -> Answer:
        """What `forget` would take now, changing nothing: the memories, and what was said that would be blanked.

        `blanked_turns`: as `forget` will tell it. Raises `NotFoundError`.
        """
        reached = await self.keeper.would_forget([memory_id], also_source=also_source)
        async with self.databases.world(write=False) as db:
            going = await memories.get_many(db, reached.memory_ids)
            said = await memory_browse.exact_words(db, reached.blanked_source_turn_ids)
        return {
            "memories": [memory_json(memory) for memory in going],
            "blanked_turns": len(reached.turn_ids),
            "said": [said_json(turn) for turn in said if turn.text],
        }

    async def forget(self, memory_id: str, *, also_source: bool = True) -> Answer:
        """Forget it with its older versions, for good. `blanked_turns`: exchanges whose words are gone.

        Asked again it says the same, nothing found. Raises `NotFoundError`.
        """
        forgotten = await self.keeper.forget([memory_id], also_source=also_source)
        self.wake()
        return {
            "forgotten": list(forgotten.reached.memory_ids),
            "blanked_turns": len(forgotten.reached.turn_ids),
            "still_found": list(forgotten.still_found),
        }

    async def retry(self) -> Answer:
        """Jobs that were given up are tried again."""
        async with self.databases.world() as db:
            queued = await jobs.retry_parked(db, now=self.clock())
        if queued:
            self.wake()
        return {"queued": queued}

    async def _search(self, wanted: Wanted, text: str) -> Answer:
        async with self.databases.world(write=False) as db:
            everybody = await memory_browse.readers(db, self._persona_id)
        if wanted.speaker is not None:
            personas = dict.fromkeys(reader.persona_id for reader in everybody)
            everybody = [memory_browse.Reader(persona_id, wanted.speaker) for persona_id in personas]
        query = SearchQuery(
            clean_text(text),
            "",
            None,
            self.clock(),
            self._zone,
            entities=() if wanted.entity is None else (wanted.entity,),
            date_from=wanted.date_from,
            date_to=wanted.date_to,
            memory_type=wanted.memory_type,
            limit=wanted.limit,
            statuses=_statuses(wanted.status),
            said_by=wanted.speaker,
        )
        found: dict[str, Candidate] = {}
        said: dict[int, SourceTurn] = {}
        results: list[SearchResult] = []
        for reader in everybody:
            asked = replace(query, persona=reader.persona_id, speaker=reader.speaker_id)
            result = await self._recall.search(asked)
            results.append(result)
            said |= {turn.source_turn_id: turn for turn in result.said}
            for one in result.candidates:
                known = found.get(one.memory.memory_id)
                if known is None or known.fused_score < one.fused_score:
                    found[one.memory.memory_id] = one
        kept = sorted(found.values(), key=lambda one: (-one.fused_score, -one.memory.occurred_at.timestamp()))
        return {
            "memories": [
                memory_json(one.memory) | {"retrieval_score": one.retrieval_score} for one in kept[: wanted.limit]
            ],
            "next": None,
            "ambiguous": any(result.ambiguous for result in results),
            "searched": {
                "loosened": list(dict.fromkeys(name for one in results for name in one.searched.loosened)),
                "words_only": next((one.searched.words_only for one in results if one.searched.words_only), None),
            },
            "not_yet_taken_in": [said_json(turn) for turn in said.values()],
        }

    async def _index_json(self) -> Answer:
        problem = self._index_problem()
        points: int | None = None
        if self._indexer.index is not None:
            try:
                points = await self._indexer.index.count()
            except MemoryIndexError as error:
                problem = error
        folder = self._index_folder
        return {
            "kind": self._index_kind,
            "points": points,
            "problem": None if problem is None else told(problem),
            "folder_bytes": None if folder is None else await asyncio.to_thread(_bytes_in, folder),
        }

    def _range(self, wanted: Wanted) -> tuple[dt.datetime | None, dt.datetime | None]:
        since, until = wanted.date_from, wanted.date_to
        before = None if until is None else until + dt.timedelta(days=1)
        return tuple(
            None if day is None else dt.datetime.combine(day, dt.time(), self._zone) for day in (since, before)
        )  # type: ignore[return-value]  # two of them


def _parked_json(job: Job) -> Answer:
    # The worker writes "Kind: code", never a message.
    code = (job.error or "").rpartition(": ")[2] or None
    return {"kind": job.kind, "subject": job.subject, "code": code, "error": job.error, "attempts": job.attempts}


def _statuses(wanted: WantedStatus) -> tuple[MemoryStatus, ...]:
    return EVERY_STATUS if wanted == "all" else (wanted,)


def _check(wanted: Wanted) -> None:
    if not 1 <= wanted.limit <= CANDIDATES_LIMIT:
        raise _refused(f"limit must be 1 to {CANDIDATES_LIMIT}")
    for name, day in (("date_from", wanted.date_from), ("date_to", wanted.date_to)):
        if day is not None and not is_possible_day(day):
            raise _refused(f"{name} must lie from {FIRST_DAY} to {LAST_DAY}")
    if wanted.date_from and wanted.date_to and wanted.date_from > wanted.date_to:
        raise _refused("date_from must not be after date_to")
    if wanted.query is not None and wanted.after is not None:
        raise _refused("a ranked search has no next page; leave `after` or `query` out")
    if wanted.query is not None and not clean_text(wanted.query).strip():
        raise _refused("query must not be empty")
    if wanted.entity is not None and not is_visible(wanted.entity):
        raise _refused("entity must not be empty")


def _checked(changes: MemoryChanges) -> MemoryChanges:
    """The changes cleaned, at least one. Raises `RequestError`."""
    if changes == MemoryChanges():
        raise _refused("say at least one thing to change")
    topic, summary = (None if text is None else clean_text(text).strip() for text in (changes.topic, changes.summary))
    entities = changes.entities and tuple(clean_text(name).strip() for name in changes.entities)
    if summary and not is_visible(summary):
        raise _refused("summary must not be empty")
    if summary is not None and not 1 <= len(summary) <= SUMMARY_LIMIT:
        raise _refused(f"summary must have 1 to {SUMMARY_LIMIT} characters")
    if topic is not None and len(topic) > TOPIC_LIMIT:
        raise _refused(f"topic must have at most {TOPIC_LIMIT} characters")
    if entities and not all(is_visible(name) for name in entities):
        raise _refused("entities must be names in which something can be seen")
    if entities and (len(entities) > ENTITIES_LIMIT or any(len(name) > ENTITY_LIMIT for name in entities)):
        raise _refused(f"entities must be at most {ENTITIES_LIMIT} names of at most {ENTITY_LIMIT} characters")
    if changes.importance is not None and not 1 <= changes.importance <= 5:
        raise _refused("importance must be 1 to 5")
    if changes.occurred_at is not None and changes.occurred_at.utcoffset() is None:
        raise _refused("occurred_at needs an offset, as in 2026-11-30T12:00:00+09:00")
    if changes.occurred_at is not None and not is_possible_day(changes.occurred_at.date()):
        raise _refused(f"occurred_at must lie from {FIRST_DAY} to {LAST_DAY}")
    return replace(changes, topic=topic, summary=summary, entities=entities)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # the index tidies up beside us
            continue
    return total


def _refused(what: str) -> RequestError:
    return RequestError(f"{what[0].upper()}{what[1:]}.", code="arguments_invalid")


def _missing() -> NotFoundError:
    return NotFoundError("There is no such memory.", code="memory_not_found", hint="Search for it first.")


def _forgotten() -> GoneError:
    return GoneError("This memory was forgotten; nothing of it is left.", code="memory_forgotten")
