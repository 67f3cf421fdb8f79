"""Vectors follow SQL: makes, removes and rebuilds the points of memories. Decides nothing about memories.

SQL is written first, always; a point that is missing or too much is only a job that has not run yet.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from server.engines.base import EmbeddingEngine
from server.errors import MemoryIndexError
from server.events import Samples
from server.memory.index.base import IndexPayload, IndexPoint, MemoryIndex
from server.memory.index.base import rebuild as write_anew
from server.memory.leases import Clock, finish
from server.storage import jobs, memories, memory_lookup
from server.storage.database import Databases
from server.storage.memory_records import Job, Memory
from server.storage.words import entity_key

Progress = Callable[[int, int], None]
"""Told how many are done, of how many."""
_BATCH = 32
_log = logging.getLogger(__name__)


class Reconciled(NamedTuple):
    queued: int
    """Memories whose point was missing."""
    removed: int
    """Points without a memory."""


class Indexer:
    """`index` None: it cannot be used now; jobs wait."""

    def __init__(
        self, databases: Databases, index: MemoryIndex | None, embedding: EmbeddingEngine, *, clock: Clock
    ) -> None:
        self.index = index
        self._databases = databases
        self._embedding = embedding
        self._clock = clock

    async def index_memory(self, job: Job) -> None:
        """The work of an `index` job. Raises `EmbeddingError`, `MemoryIndexError`, `LeaseLost`."""
        index = self._usable()
        async with self._databases.world(write=False) as db:
            memory = await memories.get(db, job.subject)
        if memory is None or memory.status == "forgotten":
            await index.delete([job.subject])
            async with self._databases.world() as db:
                await finish(db, job)
            return
        vectors = await self._embedding.embed_documents([memory_text(memory)])
        await index.upsert([index_point(memory, vectors[0])])
        async with self._databases.world() as db:
            current = await memories.mark_indexed(db, memory.memory_id, memory.revision)
            now_there = None if current else await memories.get(db, memory.memory_id)
            done = await jobs.done(db, job)
        if not current and (now_there is None or now_there.status == "forgotten"):
            await index.delete([memory.memory_id])
        elif not done:
            _log.info("the index job of %s was withdrawn", memory.memory_id)

    async def unindex_memory(self, job: Job) -> None:
        """The work of an `unindex` job. Raises `MemoryIndexError`, `LeaseLost`."""
        await self._usable().delete([job.subject])
        async with self._databases.world() as db:
            await finish(db, job)

    async def rebuild(self, progress: Progress | None = None) -> int:
        """Empty the open index and write every memory anew; returns how many. May be broken off and begun again.

        Raises `EmbeddingError`, `MemoryIndexError`; what is not written then is still queued.
        """
        index = self._usable()
        async with self._databases.world(write=False) as db:
            counted = (await memory_lookup.counts(db)).memories
        total = sum(count for status, count in counted.items() if status != "forgotten")
        # First: if the rebuild is broken off, its memories are not taken for indexed.
        await self.queue_all()
        return await write_anew(index, self._batches(total, progress))

    async def queue_all(self) -> int:
        """Have the vectors of all memories made by and by, as for an index that is empty; how many."""
        queued = 0
        async for page in self._pages():
            await self._queue([memory.memory_id for memory in page])
            queued += len(page)
        return queued

    async def reconcile(self) -> Reconciled:
        """Compare the index with SQL, as after a kill: queue what is missing, remove what is too much."""
        index = self._usable()
        there = await index.ids()
        known: set[str] = set()
        queued = 0
        async for page in self._pages():
            known |= {memory.memory_id for memory in page}
            missing = [one.memory_id for one in page if one.memory_id not in there and one.index_state == "indexed"]
            await self._queue(missing)
            queued += len(missing)
        await index.delete(there - known)
        return Reconciled(queued, len(there - known))

    async def agrees_with(self, points: int) -> bool:
        """Whether so many points are what SQL says is indexed; quick, where `reconcile` is exact."""
        async with self._databases.world(write=False) as db:
            return (await memory_lookup.counts(db)).index_states.get("indexed", 0) == points

    async def _batches(self, total: int, progress: Progress | None) -> AsyncIterator[Sequence[IndexPoint]]:
        written = 0
        async for batch in self._pages():
            vectors = await self._embedding.embed_documents([memory_text(memory) for memory in batch])
            yield [index_point(memory, vector) for memory, vector in zip(batch, vectors, strict=True)]
            # Reached when they are written.
            changed: list[Memory] = []
            async with self._databases.world() as db:
                for memory in batch:
                    if await memories.mark_indexed(db, memory.memory_id, memory.revision):
                        await jobs.cancel(db, ["index"], memory.memory_id)
                    else:
                        changed.append(memory)
                there = await memories.get_many(db, [memory.memory_id for memory in batch])
            forgotten = {one.memory_id for one in batch} - {one.memory_id for one in there if one.status != "forgotten"}
            await self._usable().delete(forgotten)
            # One that was changed meanwhile may have been indexed in between: what was written now is older.
            await self._queue([one.memory_id for one in changed if one.memory_id not in forgotten])
            written += len(batch)
            if progress is not None:
                progress(written, total)

    async def _pages(self) -> AsyncIterator[Sequence[Memory]]:
        """All memories that are not forgotten, a few at a time: nobody's writing waits for the whole."""
        after = ""
        while True:
            async with self._databases.world(write=False) as db:
                page = await memory_lookup.page(db, after=after, limit=_BATCH)
            if not page:
                return
            after = page[-1].memory_id
            yield page

    async def _queue(self, memory_ids: Sequence[str]) -> None:
        if memory_ids:
            async with self._databases.world() as db:
                await memories.queue_index(db, memory_ids, now=self._clock())

    def _usable(self) -> MemoryIndex:
        if self.index is None:
            raise MemoryIndexError("The memory index cannot be used now.", code="index_closed")
        return self.index


def memory_text(memory: Memory) -> str:
    """What a memory's vector is made from."""
    return document_text(memory.topic, memory.summary)


def document_text(topic: str, summary: str) -> str:
    return f"{topic}\n{summary}"


def index_point(memory: Memory, vector: Samples) -> IndexPoint:
    """The point of a memory: its vector and the fields a search narrows by."""
    payload = IndexPayload(
        topic=memory.topic,
        entity_keys=tuple(entity_key(name) for name in memory.entities),
        memory_type=memory.memory_type,
        occurred_at=memory.occurred_at,
        status=memory.status,
        speakers=memory.speakers,
        persona_id=memory.persona_id,
        channel_id=memory.channel_id,
        visibility=memory.visibility,
    )
    return IndexPoint(memory.memory_id, vector, payload)
