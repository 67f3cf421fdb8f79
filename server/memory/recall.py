"""Finding memories: SQL narrows, vectors and words rank, `fusion` makes one order of them.

The one search behind `search_memory`, the shell and the browser; `read_source` goes back to the exact words. Whoever
asks is part of every query, so nothing private leaves it. Writes nothing, knows no prompt, and never decides when to
search.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from server.engines.base import EmbeddingEngine
from server.errors import EmbeddingError, MemoryIndexError, NotFoundError, RequestError
from server.events import Samples
from server.memory import fusion
from server.memory.dates import DateRange, named_days
from server.memory.fusion import Recipe, Signal
from server.memory.index.base import HOUSE, IndexFilter, MemoryIndex
from server.memory.nearness import Nearness
from server.memory.question_words import search_text
from server.memory.recall_records import Candidate, Searched, SearchQuery, SearchResult
from server.memory.reranking import Reranked, Reranking
from server.storage import memories, memory_lookup, sources, word_index
from server.storage.database import Db
from server.storage.memory_records import Memory, MemoryFilter, SourceFilter
from server.storage.records import SourceTurn
from server.storage.words import entity_key

OpenWorld = Callable[[], AbstractAsyncContextManager[Db]]
"""A read-only transaction on the open world's database."""

CANDIDATES_LIMIT = 50
_SAID_LIMIT = 3
_NOTHING_IS_FAR = -1.0
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Narrowed:
    wanted: MemoryFilter
    memory_ids: list[str] | None
    """None: the index filters by itself, and nothing but whose they are narrows."""
    loosened: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ByWords:
    summaries: dict[str, float]
    sources: dict[str, float]
    """Memories by the words of their source turns."""
    said: tuple[SourceTurn, ...]


class Recall:
    """`open_world`: gives read-only sessions. `recipe`: with the limits of this embedding model (`fitted`).

    `index` None: words only, as while the index cannot be used. `reranking` None: the fused order stays.
    """

    def __init__(
        self,
        open_world: OpenWorld,
        index: MemoryIndex | None,
        embedding: EmbeddingEngine,
        *,
        recipe: Recipe = fusion.SUMMARIES_AND_SOURCES,
        vectors_seconds: float = 1.0,
        reranking: Reranking | None = None,
    ) -> None:
        self._open_world = open_world
        self.index = index
        self._embedding = embedding
        self.recipe = recipe
        self._vectors_seconds = vectors_seconds
        self._reranking = reranking

    async def search(self, query: SearchQuery) -> SearchResult:
        """What is remembered for `query`. Raises `RequestError` for bad arguments, `StorageError`.

        Without the index, or when vectors take longer than `vectors_seconds`, words alone find; `searched` says so.
        """
        _check(query)
        # The model takes longest: it starts before anything is narrowed. (A task group would wrap what SQL raises.)
        embedded = asyncio.create_task(self._embed(query.text))
        try:
            narrowed = await self._narrow(query)
            words = await self._by_words(query, narrowed)
            vector, trouble = await embedded
        finally:
            embedded.cancel()
            await asyncio.gather(embedded, return_exceptions=True)
        cosines: dict[str, float] = {}
        if vector is not None and self.index is not None:
            try:
                async with asyncio.timeout(self._vectors_seconds):
                    cosines = await self._by_vectors(self.index, vector, narrowed, query.speaker)
                    cosines |= await _missing_cosines(self.index, vector, cosines, words)
            except (MemoryIndexError, TimeoutError) as error:
                trouble = _code(error)
        return await self._ranked(query, narrowed, cosines, words, trouble)

    async def read_source(
        self,
        query: SearchQuery,
        *,
        memory_id: str | None = None,
        source_turn_ids: Sequence[int] = (),
        around: int = 0,
    ) -> list[SourceTurn]:
        """The exact words behind a memory, or of these turns, in the order they were said, with `around` more each way.

        `query` says who asks; a memory or turn this speaker may not find is `NotFoundError`, as if it were not there.
        Raises `RequestError` when neither or both are named.
        """
        if (memory_id is None) == (not source_turn_ids):
            raise RequestError("Give memory_id or source_turn_ids, one of them.", code="arguments_invalid")
        async with self._open_world() as db:
            if memory_id is not None:
                found = await memories.get(db, memory_id)
                if found is None or not found.may_be_found_by(query.persona, query.speaker):
                    raise NotFoundError(f"There is no memory {memory_id}.")
                source_turn_ids = found.source_turn_ids
            turns = await sources.read_source_turns(
                db, source_turn_ids, SourceFilter(query.persona, query.speaker), around=around
            )
        if not turns:
            raise NotFoundError("There are no such source turns.", hint="Their words may have been forgotten.")
        return turns

    async def _embed(self, text: str) -> tuple[Samples | None, str | None]:
        if self.index is None:
            return None, "index_unavailable"
        try:
            async with asyncio.timeout(self._vectors_seconds):
                return (await self._embedding.embed_queries([text]))[0], None
        except (EmbeddingError, TimeoutError) as error:
            return None, _code(error)

    async def _narrow(self, query: SearchQuery) -> _Narrowed:
        """The narrowest filter that leaves something: entities are given up first, then the type, never the dates."""
        wanted = _filter(query)
        filters_itself = self.index is not None and self.index.takes_filters
        loosened: tuple[str, ...] = ()
        async with self._open_world() as db:
            while True:
                narrows = bool(wanted.entity_keys) or wanted.memory_type is not None
                ids = None if filters_itself and not narrows else await memory_lookup.narrow(db, wanted)
                if ids or not narrows:
                    return _Narrowed(wanted, ids, loosened)
                if wanted.entity_keys:
                    wanted, loosened = replace(wanted, entity_keys=()), (*loosened, "entities")
                else:
                    wanted, loosened = replace(wanted, memory_type=None), (*loosened, "memory_type")

    async def _by_vectors(
        self, index: MemoryIndex, vector: Samples, narrowed: _Narrowed, speaker: str | None
    ) -> dict[str, float]:
        pool = self.recipe.pool
        if narrowed.memory_ids is None:
            hits = await index.search(vector, limit=pool, where=_index_filter(narrowed.wanted, speaker))
        else:
            hits = await index.search(vector, limit=pool, only=narrowed.memory_ids) if narrowed.memory_ids else []
        return {hit.memory_id: hit.score for hit in hits}

    async def _by_words(self, query: SearchQuery, narrowed: _Narrowed) -> _ByWords:
        text, wanted, pool = search_text(query.text), narrowed.wanted, self.recipe.pool
        readable = SourceFilter(query.persona, query.speaker, except_session_id=query.except_session_id)
        async with self._open_world() as db:
            summaries = await word_index.search_memories(db, text, wanted, limit=pool)
            turns = await word_index.search_source_turns(db, text, readable, limit=pool)
            belongs = await memory_lookup.of_source_turns_within(db, [hit.source_turn_id for hit in turns], wanted)
            loose = [hit.source_turn_id for hit in turns if hit.source_turn_id not in belongs]
            said = []
            if loose:
                said = await sources.read_source_turns(db, loose[: 10 * _SAID_LIMIT], _said_filter(readable, wanted))
        scores: dict[str, list[float]] = {}
        for hit in turns:
            for memory_id, fulfils in belongs.get(hit.source_turn_id, {}).items():
                if fulfils:
                    scores.setdefault(memory_id, []).append(hit.score)
        rank = {turn_id: place for place, turn_id in enumerate(loose)}
        return _ByWords(
            {hit.memory_id: hit.score for hit in summaries},
            {memory_id: fusion.together(found, fusion.NEXT_TURNS) for memory_id, found in scores.items()},
            tuple(sorted(said, key=lambda turn: rank[turn.source_turn_id])[:_SAID_LIMIT]),
        )

    async def _ranked(
        self,
        query: SearchQuery,
        narrowed: _Narrowed,
        cosines: Mapping[str, float],
        words: _ByWords,
        trouble: str | None,
    ) -> SearchResult:
        ranges = named_days(query.text, query.now.astimezone(query.zone).date()) if query.date_from is None else ()
        signals: dict[Signal, Mapping[str, float]] = {
            "summary_vectors": cosines,
            "summary_words": words.summaries,
            "source_words": words.sources,
        }
        async with self._open_world() as db:
            named = query.about or await memory_lookup.speakers_named(db, query.text)
            if len(named) > 1 and not query.about:
                named = ()  # of several it tells nothing who is meant
            if ranges or named:
                first = fusion.in_order(fusion.fused(signals, self.recipe), {})
                rows = await memory_lookup.standing(db, first)
                signals["days"] = {one: self._days(row.occurred_at, ranges, query.zone) for one, row in rows.items()}
                about = set(named)
                signals["speaker"] = {one: float(bool(about & set(row.speakers))) for one, row in rows.items()}
            scores = fusion.fused(signals, self.recipe)
            best = fusion.in_order(scores, {})[: CANDIDATES_LIMIT + query.limit]
            # A memory forgotten since it was found is not there any more.
            recency = {
                memory_id: row.occurred_at.timestamp()
                for memory_id, row in (await memory_lookup.standing(db, best)).items()
                if row.status in narrowed.wanted.statuses
            }
            ordered = fusion.in_order({one: scores[one] for one in recency}, recency)
            kept = ordered
            if ordered and await _are_many(db, narrowed, self.recipe.found_from_memories):
                on_its_day = signals.get("days", {}).get(ordered[0], 0.0) > 0
                kept = ordered if on_its_day or self._is_found(ordered[0], cosines, words) else []
            reranking = self._reranking if query.rerank else None
            found = await memories.get_many(db, kept[: max(query.limit, reranking.most if reranking else 0)])
        order = Reranked(found, scores)
        # A machine too busy for a vector is too busy for this.
        if reranking is not None and len(found) > 1 and trouble != "timeout":
            order = await reranking.order(query.text, found, scores, self.recipe.rerank)
            async with self._open_world() as db:  # it takes a while, and something may have been forgotten
                now = await memory_lookup.standing(db, [one.memory_id for one in found])
            left = {one for one, row in now.items() if row.status in narrowed.wanted.statuses}
            order = replace(order, memories=[one for one in order.memories if one.memory_id in left])
        candidates = [
            Candidate(one, cosines.get(one.memory_id), order.scores[one.memory_id])
            for one in order.memories[: query.limit]
        ]
        return SearchResult(
            tuple(candidates),
            words.said,
            self._ambiguous(candidates),
            Searched(
                memories=None if narrowed.memory_ids is None else len(narrowed.memory_ids),
                loosened=narrowed.loosened,
                words_only=trouble,
                days=tuple(dict.fromkeys(days.said for days in ranges)),
                recipe=self.recipe.name,
                reranked=order.looked_at,
                rerank_trouble=order.trouble,
                dropped=len(ordered) - len(kept),
            ),
        )

    def _days(self, occurred_at: dt.datetime, ranges: Sequence[DateRange], zone: dt.tzinfo) -> float:
        day = occurred_at.astimezone(zone).date()
        away = min((days.days_away(day) for days in ranges), default=None)
        if away is None or away > self.recipe.days_slack:
            return 0.0
        return 1.0 if away == 0 else 0.5

    def _is_found(self, memory_id: str, cosines: Mapping[str, float], words: _ByWords) -> bool:
        said = max(words.summaries.get(memory_id, 0.0), words.sources.get(memory_id, 0.0))
        return fusion.is_found(cosines.get(memory_id), said, self.recipe)

    def _ambiguous(self, candidates: Sequence[Candidate]) -> bool:
        if len(candidates) < 2:
            return False
        best, second = candidates[:2]
        return fusion.are_close(best.fused_score, second.fused_score, self.recipe) and _different_things(
            best.memory, second.memory
        )


def fitted(recipe: Recipe, near: Nearness | None) -> Recipe:
    """A recipe with the limits of an embedding model. None: what its cosines mean is not known, and none is too far."""
    if near is None:
        return replace(recipe, found_cosine=_NOTHING_IS_FAR)
    return replace(recipe, found_cosine=near.found, cosine_width=near.width)


async def _are_many(db: Db, narrowed: _Narrowed, count: int) -> bool:
    """Whether so many memories are among those that may be found: the same for every backend."""
    if narrowed.memory_ids is not None:
        return len(narrowed.memory_ids) >= count
    return await memory_lookup.at_least(db, narrowed.wanted, count)


def _check(query: SearchQuery) -> None:
    if not query.text.strip():
        raise RequestError("query must be a text that is not empty", code="arguments_invalid")
    if not 1 <= query.limit <= CANDIDATES_LIMIT:
        raise RequestError(f"limit must be 1 to {CANDIDATES_LIMIT}", code="arguments_invalid")
    if query.date_from and query.date_to and query.date_from > query.date_to:
        raise RequestError("date_from must not be after date_to", code="arguments_invalid")


def _filter(query: SearchQuery) -> MemoryFilter:
    since, before = query.date_from, query.date_to
    return MemoryFilter(
        persona_id=query.persona,
        speaker_id=query.speaker,
        statuses=query.statuses or (("active", "superseded") if query.history else ("active",)),
        said_by=query.said_by,
        entity_keys=tuple(key for name in query.entities if (key := entity_key(name))),
        memory_type=query.memory_type,
        occurred_from=dt.datetime.combine(since, dt.time(), query.zone) if since else None,
        occurred_before=(dt.datetime.combine(before + dt.timedelta(days=1), dt.time(), query.zone) if before else None),
    )


def _said_filter(readable: SourceFilter, wanted: MemoryFilter) -> SourceFilter:
    return replace(readable, said_from=wanted.occurred_from, said_before=wanted.occurred_before)


def _index_filter(wanted: MemoryFilter, speaker: str | None) -> IndexFilter:
    """House memories, and the private ones of who asks."""
    return IndexFilter(
        status=wanted.statuses,
        speakers=() if wanted.said_by is None else (wanted.said_by,),
        persona_id=(wanted.persona_id,),
        visibility=() if speaker else (HOUSE,),
        readable_by=speaker or "",
        occurred_from=wanted.occurred_from,
        occurred_before=wanted.occurred_before,
    )


async def _missing_cosines(
    index: MemoryIndex, vector: Samples, known: Collection[str], words: _ByWords
) -> dict[str, float]:
    """Cosines of what only words found."""
    missing = (words.summaries.keys() | words.sources.keys()) - set(known)
    if not missing:
        return {}
    return {hit.memory_id: hit.score for hit in await index.search(vector, limit=len(missing), only=missing)}


def _different_things(one: Memory, other: Memory) -> bool:
    """Each names something that the other does not."""
    mine, theirs = ({entity_key(name) for name in memory.entities} for memory in (one, other))
    if not mine or not theirs:
        return entity_key(one.topic) != entity_key(other.topic)
    return bool(mine - theirs) and bool(theirs - mine)


def _code(error: Exception) -> str:
    _logger.warning("vectors were left out of a search: %s", str(error) or "timeout")
    return error.code if isinstance(error, MemoryIndexError | EmbeddingError) else "timeout"
