"""The only writer of memories: keeps, replaces, merges, edits and forgets them. SQL first, then vectors.

What a new memory does to older ones is decided in `contradiction.py`. One thing at a time, so that nothing is judged
by what has changed meanwhile. Knows no prompt and no model but the embedding.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from server.engines.base import EmbeddingEngine
from server.errors import MemoryIndexError, NotFoundError, StackChanError, StorageError
from server.memory.contradiction import Decision, KeepRecipe, Proposal, recipe_for
from server.memory.index.base import MemoryIndex
from server.memory.leases import Clock, Hold, finish
from server.memory.neighbours import Neighbours
from server.memory.retold import has_all_of, retells, says_nothing_of, words_of
from server.storage import (
    forgetting,
    memories,
    memory_browse,
    memory_lookup,
    segments,
    sources,
    tombstones,
    word_index,
)
from server.storage.database import Databases, Db
from server.storage.memory_records import (
    EVERY_STATUS,
    Forgetting,
    Job,
    Memory,
    MemoryChanges,
    MemoryFilter,
    NewMemory,
    Segment,
    SourceFilter,
)
from server.storage.recall_tables import SegmentResult
from server.storage.records import SourceTurn

OnForgotten = Callable[[Forgetting], Awaitable[None]]
"""Removes the copies that others keep: short-term memory, recorded voices, pool chunks."""
_LOOKED_THROUGH = 200
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a segment. `superseded`: {older: newer}."""

    segment: Segment | None
    added: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    superseded: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten. `still_found`: what is not gone yet, and other memories and words that tell the same."""

    reached: Forgetting
    still_found: tuple[str, ...]


class Keeper:
    """`index` None: vectors wait in their jobs. `on_forgotten`: called with every forgetting, before it is verified."""

    def __init__(
        self,
        databases: Databases,
        index: MemoryIndex | None,
        embedding: EmbeddingEngine,
        *,
        clock: Clock,
        recipe: KeepRecipe | None = None,
        on_forgotten: Sequence[OnForgotten] = (),
    ) -> None:
        self._databases = databases
        self._clock = clock
        self._neighbours = Neighbours(databases, index, embedding, recipe or recipe_for(embedding.fingerprint.model))
        self._on_forgotten = tuple(on_forgotten)
        self._one_at_a_time = asyncio.Lock()
        self._besides: set[str] = set()

    async def keep(self, session_id: str, turn_ids: Sequence[int], proposals: Sequence[Proposal], hold: Hold) -> Kept:
        """Close a segment with what was made of it, nothing for filler; all of it in one transaction or nothing.

        Raises `LeaseLost` from `hold`; `StorageError` when a turn was taken in or forgotten meanwhile;
        `EmbeddingError`.
        """
        async with self._one_at_a_time:
            judged = await self._neighbours.judge(proposals)
            result: SegmentResult = "memories" if judged else "filler"
            async with self._databases.world() as db:
                await hold(db)
                segment = await segments.close_segment(db, session_id, turn_ids, result, now=self._clock())
                await _refuse_changed(db, [memory for one in judged for memory in one.compared])
                kept = Kept(segment)
                for one in judged:
                    kept = await self._carry_out(db, one.memory, one.decision, kept)
            return kept

    async def keep_besides(self, proposals: Sequence[Proposal]) -> None:
        """Keep what was told in words that are about to be forgotten with something else, whatever their segment.

        Raises `EmbeddingError`, `StorageError`.
        """
        async with self._one_at_a_time:
            judged = await self._neighbours.judge(proposals)
            async with self._databases.world() as db:
                await _refuse_changed(db, [memory for one in judged for memory in one.compared])
                kept = Kept(None)
                for one in judged:
                    kept = await self._carry_out(db, one.memory, one.decision, kept)
            self._besides.update((*kept.added, *kept.merged))

    @property
    def index(self) -> MemoryIndex | None:
        return self._neighbours.index

    @index.setter
    def index(self, index: MemoryIndex | None) -> None:
        self._neighbours.index = index

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[None]:
        """Nothing is kept, edited or forgotten before the block ends. Keep it short."""
        async with self._one_at_a_time:
            yield

    async def edit(self, memory_id: str, changes: MemoryChanges) -> Memory:
        """Change a memory by hand. Raises `NotFoundError`; `StorageError` when it was forgotten."""
        async with self._one_at_a_time, self._databases.world() as db:
            return await memories.update_memory(db, memory_id, changes, now=self._clock())

    async def would_forget(self, memory_ids: Sequence[str], *, also_source: bool = True) -> Forgetting:
        """What `forget` would reach now; changes nothing. Raises as it does."""
        async with self._databases.world(write=False) as db:
            reached, _ = await _reach(db, memory_ids, also_source)
        return reached

    async def forget(
        self,
        memory_ids: Sequence[str],
        *,
        also_source: bool = True,
        also_turn_ids: Iterable[int] = (),
        made_meanwhile: bool = True,
    ) -> Forgotten:
        """Forget memories with their older versions, for good, and look whether anything still finds them.

        `also_source`: the words they came from are blanked too, and what recalled or retold them. `also_turn_ids`:
        exchanges to blank besides, with the memories that were made of them while they were being chosen, but for what
        was kept besides; none where `made_meanwhile` is false, as when only the request itself goes. What is left in
        the files' unused bytes goes with the `scrub` job. Raises `NotFoundError` when none is there.
        """
        async with self._one_at_a_time:
            async with self._databases.world(write=False) as db:
                turn_ids = tuple(also_turn_ids)
                said = [one for one in await memory_browse.words_of_turns(db, turn_ids) if one.role == "user"]
                meanwhile = await _made_of(db, turn_ids) - self._besides if made_meanwhile else ()
                reached, before = await _reach(db, [*memory_ids, *sorted(meanwhile)], also_source, turn_ids)
            async with self._databases.server() as server_db:
                await tombstones.add(server_db, reached, now=self._clock())
            async with self._databases.world() as db:
                await forgetting.forget(db, reached, now=self._clock())
            await self._remove_points(reached.memory_ids)
            copies = await self._tell(reached)
            return Forgotten(reached, (*await self._still_found(reached, before, said), *copies))

    async def reapply(self) -> Forgetting:
        """At start, after a restore, import or rebuild: forget again what was forgotten and has come back."""
        async with self._one_at_a_time:
            async with self._databases.server(write=False) as server_db:
                stones = await tombstones.all_tombstones(server_db)
            async with self._databases.world() as db:
                reached = await forgetting.reapply(db, stones, now=self._clock())
            if reached.memory_ids or reached.blanked_source_turn_ids:
                _log.warning("forgotten again: %d memories", len(reached.memory_ids))
                await self._tell(reached)
            # Of all tombstones: the index may be older than the database.
            await self._remove_points([stone.memory_id for stone in stones if stone.memory_id is not None])
            return reached

    async def scrub(self, job: Job) -> None:
        """The work of a `scrub` job: no byte of what was forgotten stays in the world's file. Raises `LeaseLost`."""
        await self._databases.scrub_world()
        async with self._databases.world() as db:
            await finish(db, job)

    async def _carry_out(self, db: Db, new: NewMemory, decision: Decision, kept: Kept) -> Kept:
        now = self._clock()
        if decision.repeats is not None and decision.repeats not in kept.superseded:
            merged = await memories.merge_sources(
                db, decision.repeats, new.source_turn_ids, now=now, speakers=new.speakers
            )
            return replace(kept, merged=(*kept.merged, merged.memory_id))
        await memories.add(db, new, now=now)
        superseded = dict(kept.superseded)
        pairs = [(old, new.memory_id) for old in decision.supersedes]
        if decision.superseded_by is not None:
            pairs.append((new.memory_id, decision.superseded_by))
        for old, newer in pairs:
            # Another memory of this segment may have replaced one of them already.
            if old not in superseded and newer not in superseded:
                await memories.supersede(db, old, newer, now=now)
                superseded[old] = newer
        return replace(kept, added=(*kept.added, new.memory_id), superseded=superseded)

    async def _tell(self, reached: Forgetting) -> list[str]:
        """Have the copies elsewhere removed; those that could not be."""
        left = []
        for remove in self._on_forgotten:
            try:
                await remove(reached)
            except (StackChanError, OSError) as error:
                _log.error("a copy of what was forgotten could not be removed", exc_info=error)
                left.append(f"copy: {getattr(error, 'code', type(error).__name__)}")
        return left

    async def _remove_points(self, memory_ids: Sequence[str]) -> None:
        """At once where it can be; the `unindex` jobs do it again."""
        if self.index is None or not memory_ids:
            return
        try:
            await self.index.delete(memory_ids)
        except MemoryIndexError as error:
            _log.warning("forgotten vectors wait for their jobs: %s", error.code)

    async def _still_found(
        self, reached: Forgetting, before: Sequence[Memory], said: Sequence[SourceTurn]
    ) -> tuple[str, ...]:
        """What of it can still be found by id, name, word or vector; also in other memories, and in words left.

        `said`: the words of the exchanges that went by themselves, of which a memory may have been kept besides.
        """
        found: set[str] = set()
        async with self._databases.world(write=False) as db:
            after = await memories.get_many(db, reached.memory_ids)
            found |= {one.memory_id for one in after if one.status != "forgotten" or one.topic or one.summary}
            found |= await _said_again(db, said)
            for memory in before:
                everyone = MemoryFilter(memory.persona_id, None, statuses=EVERY_STATUS)
                readers = [replace(everyone, speaker_id=speaker) for speaker in (None, *memory.speakers)]
                for wanted in readers:
                    words = f"{memory.topic} {memory.summary}"
                    hits = await word_index.search_memories(db, words, wanted, limit=50)
                    found |= {hit.memory_id for hit in hits} & set(reached.memory_ids)
                    readable = SourceFilter(memory.persona_id, wanted.speaker_id)
                    read = await sources.read_source_turns(db, reached.blanked_source_turn_ids, readable)
                    found |= {f"source turn {turn.source_turn_id}" for turn in read}
                    found |= await _told_elsewhere(db, memory, wanted, readable)
        if self.index is not None and reached.memory_ids:
            try:
                found |= set(await self.index.vectors(reached.memory_ids))
            except MemoryIndexError as error:
                _log.warning("whether a vector is left was not seen: %s", error.code)
        if found:
            _log.error("%d things were forgotten and are still found", len(found))
        return tuple(sorted(found))


async def _made_of(db: Db, turn_ids: Sequence[int]) -> set[str]:
    """Memories of what was said in these exchanges."""
    said = await memory_browse.words_of_turns(db, turn_ids)
    of_each = await memory_lookup.of_source_turns(db, [one.source_turn_id for one in said])
    return {memory_id for ids in of_each.values() for memory_id in ids}


async def _reach(
    db: Db, memory_ids: Sequence[str], also_source: bool, also_turn_ids: Sequence[int] = ()
) -> tuple[Forgetting, list[Memory]]:
    """What is to be forgotten, and the memories among it as they are now. Raises `NotFoundError`."""
    reach = partial(forgetting.reach, db, memory_ids, also_source=also_source, also_turn_ids=also_turn_ids)
    reached = await reach()
    before = await memories.get_many(db, reached.memory_ids)
    later = await forgetting.said_after(db, reached.memory_ids)
    retold = [number for number, text in later if any(retells(memory, text) for memory in before)]
    reached = await reach(retold=retold, keeps=partial(says_nothing_of, before))
    if not reached.memory_ids and not also_turn_ids:
        raise NotFoundError("There is no such memory.", code="memory_not_found", hint="Search for it first.")
    return reached, before


async def _said_again(db: Db, said: Sequence[SourceTurn]) -> set[str]:
    """Memories of these words that have the whole of what was said."""
    of_each = await memory_lookup.of_source_turns(db, [one.source_turn_id for one in said])
    left = await memories.get_many(db, sorted({one for ids in of_each.values() for one in ids}))
    return {one.memory_id for one in left if any(has_all_of(said_by.text, one.summary) for said_by in said)}


async def _told_elsewhere(db: Db, memory: Memory, wanted: MemoryFilter, readable: SourceFilter) -> set[str]:
    """Memories and source turns that a search for what it said finds, and that tell it again."""
    words = words_of(memory)
    hits = await word_index.search_memories(db, words, wanted, limit=_LOOKED_THROUGH)
    others = await memories.get_many(db, [hit.memory_id for hit in hits])
    found = {one.memory_id for one in others if retells(memory, f"{one.topic}\n{one.summary}")}
    turns = await word_index.search_source_turns(db, words, readable, limit=_LOOKED_THROUGH)
    said = await sources.read_source_turns(db, [hit.source_turn_id for hit in turns], readable)
    return found | {f"source turn {turn.source_turn_id}" for turn in said if retells(memory, turn.text)}


async def _refuse_changed(db: Db, judged: Sequence[Memory]) -> None:
    current = {one.memory_id: one.revision for one in await memories.get_many(db, [one.memory_id for one in judged])}
    for one in judged:
        if current.get(one.memory_id) != one.revision:
            raise StorageError(f"{one.memory_id} was changed while a new memory was compared with it.")
