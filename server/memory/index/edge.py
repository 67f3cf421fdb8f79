"""The `edge` backend: Qdrant's embedded engine, with payload indexes and, for many points, an HNSW graph.

Every call of the engine holds the interpreter, and with it every robot, until it returns: 3 ms for an exact search of
10,000 points, 0.3 s for a flush, minutes for a graph. So points are written in small batches, the engine flushes
rarely, and a graph is built by a process of its own (`edge_optimize`). Up to `EXACT_POINTS` searches are exact. Knows
no SQL.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from server.engines.base import EmbeddingFingerprint
from server.engines.model_files import free_bytes
from server.errors import IndexDamaged, IndexUnavailable, MemoryIndexError
from server.events import Samples
from server.memory.index.base import (
    EVERYTHING,
    KEYWORDS,
    MEMORY_ID,
    MOST_TIES,
    OCCURRED_AT,
    TIE,
    IndexFilter,
    IndexHit,
    StoredPoint,
    closed,
    in_order,
    point_ids,
)
from server.memory.index.embedded import EmbeddedIndex

EXACT_POINTS = 20_000
"""Up to here a search reads every vector: 10 ms at 10,000, and nothing is ever missed."""
_GRAPH_SHARE = 0.8
"""With fewer of the vectors in the graph it is built again; the others are read one by one."""
_FLUSH_POINTS = 5_000
"""So many points are left to the log before the engine writes them out, so that the log stays small."""
_SPARE = 16
"""Hits asked for beyond the limit, so that ties with the last one show."""
_PAGE = 1_000
_SEARCH_BEAM = 256
_LINKS, _BUILD_BEAM = 16, 100
ROOM_BYTES = 64 * 1024 * 1024
"""Free on the disk before anything is written: the engine writes into mapped files that have no room of their own yet,
and where the disk has none the system ends the process."""


def edge_index(folder: Path, fingerprint: EmbeddingFingerprint, *, exact_points: int = EXACT_POINTS) -> EdgeIndex:
    """A `MemoryIndex` in `folder`; takes filters."""
    return EdgeIndex(folder, fingerprint, EdgeStore(fingerprint.dimensions, exact_points=exact_points))


class EdgeIndex(EmbeddedIndex):
    """An `EmbeddedIndex` whose graph is built on a copy by another process, while this one is searched and written."""

    def __init__(self, path: Path, fingerprint: EmbeddingFingerprint, store: EdgeStore) -> None:
        super().__init__(path, fingerprint, store)
        self._edge = store
        self._optimizing = False
        self._builder: asyncio.subprocess.Process | None = None

    async def close(self) -> None:
        """As `MemoryIndex.close`; a graph that is being built is given up."""
        if self._builder is not None and self._builder.returncode is None:
            self._builder.kill()
        await super().close()

    async def optimize(self) -> bool:
        """Build the graph when there are many points without one. Takes minutes for 100,000; may be cancelled.

        Raises `index_busy` while another call does it.
        """
        if self._optimizing:
            raise MemoryIndexError("The memory index is being optimized already.", code="index_busy", retryable=True)
        data, copy = self._folder.data, self._folder.building
        self._optimizing = True
        try:
            if not await self._call(self._edge.start_copy, data, copy):
                return False
            complaint = await self._build(copy)
            wanted = await self._call(self._edge.is_copied)
            if complaint and wanted:
                raise MemoryIndexError(
                    f"Optimizing the memory index failed ({complaint}).",
                    hint="It is searched as before, only slower.",
                )
            return await self._call(self._take, copy)
        finally:
            self._optimizing = False
            if self._executor is not None:
                await self._call(self._edge.end_copy)
            await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)

    def _take(self, copy: Path) -> bool:
        if not self._edge.finish_copy(copy):
            return False
        try:
            self._folder.exchange(copy)
        finally:
            self._folder.finish_exchange()
            self._edge.load(self._folder.data)
            self._folder.remember()
        return True

    async def _build(self, copy: Path) -> str:
        """Build the graph of `copy`; returns what went wrong, or nothing."""
        arguments = ("-m", "server.memory.index.edge_optimize", str(copy))
        self._builder = process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            _, complaint = await process.communicate()
        finally:
            self._builder = None
            if process.returncode is None:
                process.kill()
                await process.wait()
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        return "" if process.returncode == 0 else (lines or [f"status {process.returncode}"])[-1]


class EdgeStore:
    """Implements `Store` over `qdrant_edge.EdgeShard`."""

    backend = "edge"
    takes_filters = True
    write_batch = 64

    def __init__(self, dimensions: int, *, exact_points: int = EXACT_POINTS) -> None:
        self._dimensions = dimensions
        self._exact_points = exact_points
        self._shard: Any = None
        self._data: Path | None = None
        self._journal: list[Any] | None = None
        self._unflushed = 0

    def create(self, data: Path) -> None:
        import qdrant_edge

        _need_room(data)
        shard = qdrant_edge.EdgeShard.create(str(data), edge_config(self._dimensions, self._exact_points))
        kinds = qdrant_edge.PayloadSchemaType
        for name in KEYWORDS:
            shard.update(qdrant_edge.UpdateOperation.create_field_index(name, kinds.Keyword))
        shard.update(qdrant_edge.UpdateOperation.create_field_index(OCCURRED_AT, kinds.Datetime))
        shard.flush()
        self._shard, self._data, self._unflushed = shard, data, 0

    def load(self, data: Path) -> None:
        import qdrant_edge

        _need_room(data)
        # With the dimensions given, the engine refuses segments of other ones.
        shard = qdrant_edge.EdgeShard.load(str(data), edge_config(self._dimensions, self._exact_points))
        shard.flush()
        self._shard, self._data, self._unflushed = shard, data, 0
        # An exact search touches every vector; a cut file, which loads without complaint, shows here.
        probe = np.full(self._dimensions, self._dimensions**-0.5, dtype=np.float32)
        self._search(probe, 1, None)
        if not set(shard.info().payload_schema) >= {*KEYWORDS, OCCURRED_AT}:
            raise IndexDamaged("payload indexes are missing")

    def close(self) -> None:
        shard, self._shard, self._journal = self._shard, None, None
        if shard is not None:
            try:
                shard.flush()
            finally:
                shard.close()

    def write(self, points: Sequence[StoredPoint]) -> None:
        import qdrant_edge

        written = [qdrant_edge.Point(point.point_id, point.vector.tolist(), point.payload) for point in points]
        self._update(qdrant_edge.UpdateOperation.upsert_points(written))
        self._unflushed += len(written)

    def remove(self, points: dict[str, str]) -> None:
        import qdrant_edge

        self._update(qdrant_edge.UpdateOperation.delete_points(list(points)))

    def settle(self) -> None:
        # The engine's own flush stops the interpreter for 150-400 ms. Its log is enough: it is read again at the next
        # opening, and an fsync of its files also brings to the disk what the engine wrote through mapped memory.
        self._opened()
        if self._data is not None:
            for file in (self._data / "wal").glob("*"):
                descriptor = os.open(file, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        if self._unflushed >= _FLUSH_POINTS:
            self._shard.flush()
            self._unflushed = 0

    def is_broken_by(self, error: BaseException) -> bool:
        # The engine tells no kinds apart, and after a panic or half a write nothing of it is certain.
        return "No space left" not in str(error)

    def rank(self, vector: Samples, limit: int, only: Collection[str] | None, where: IndexFilter) -> list[IndexHit]:
        condition = edge_filter(where, None if only is None else point_ids(only))
        wanted = limit + _SPARE
        while True:
            hits = self._search(vector, wanted, condition)
            # Enough when all there is was found, or the last hit no longer ties with the limit's.
            enough = len(hits) < wanted or hits[-1].score < hits[limit - 1].score - TIE
            if enough or wanted >= limit + MOST_TIES:
                return in_order(hits, limit)
            wanted = min(4 * wanted, limit + MOST_TIES)

    def count(self) -> int:
        import qdrant_edge

        return int(self._opened().count(qdrant_edge.CountRequest(exact=True)))

    def ids(self) -> set[str]:
        import qdrant_edge

        found: set[str] = set()
        offset = None
        while True:
            request = qdrant_edge.ScrollRequest(offset=offset, limit=_PAGE, with_payload=[MEMORY_ID])
            records, offset = self._opened().scroll(request)
            found.update(record.payload[MEMORY_ID] for record in records)
            if offset is None:
                return found

    def vectors(self, points: dict[str, str]) -> dict[str, Samples]:
        shard = self._opened()
        records = shard.retrieve(list(points), False, True) if points else []
        return {points[str(record.id)]: np.asarray(record.vector, dtype=np.float32) for record in records}

    # --- the graph ---

    def start_copy(self, data: Path, copy: Path) -> bool:
        """Copy the folder for the process that builds the graph, and remember what is written from now on.

        False when there is nothing to build.
        """
        info = self._opened().info()
        if info.points_count <= self._exact_points or info.indexed_vectors_count >= _GRAPH_SHARE * info.points_count:
            return False
        self._shard.flush()
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(data, copy)
        self._journal = []
        return True

    def finish_copy(self, copy: Path) -> bool:
        """Bring the copy up to date and close both, so that it can take the folder's place.

        False when the index was emptied meanwhile: the copy is of no use.
        """
        import qdrant_edge

        journal, self._journal = self._journal, None
        if journal is None:
            return False
        built = qdrant_edge.EdgeShard.load(str(copy), edge_config(self._dimensions, self._exact_points))
        for operation in journal:
            built.update(operation)
        built.flush()
        built.close()
        self.close()
        return True

    def is_copied(self) -> bool:
        """Whether a copy is still wanted: the index was not emptied since."""
        return self._journal is not None

    def end_copy(self) -> None:
        """Forget what was written beside a copy that is given up."""
        self._journal = None

    def _update(self, operation: Any) -> None:
        shard = self._opened()
        if self._data is not None:
            _need_room(self._data)
        shard.update(operation)
        if self._journal is not None:
            self._journal.append(operation)

    def _search(self, vector: Samples, limit: int, condition: Any) -> list[IndexHit]:
        import qdrant_edge

        shard = self._opened()
        exact = shard.info().points_count <= self._exact_points
        request = qdrant_edge.SearchRequest(
            query=qdrant_edge.Query.Nearest(vector.tolist()),
            limit=limit,
            filter=condition,
            params=qdrant_edge.SearchParams(exact=exact, hnsw_ef=None if exact else _SEARCH_BEAM),
            with_payload=[MEMORY_ID],
        )
        return [IndexHit(found.payload[MEMORY_ID], float(found.score)) for found in shard.search(request)]

    def _opened(self) -> Any:
        if self._shard is None:
            raise closed()
        return self._shard


def _need_room(data: Path) -> None:
    free = free_bytes(data)
    if free < ROOM_BYTES:
        raise IndexUnavailable(
            f"The disk of the memory index has {free // 2**20} MiB left; edge needs {ROOM_BYTES // 2**20}.",
            hint="Make room: memories are found by words until then, and their vectors are made afterwards.",
        )


def edge_config(dimensions: int, exact_points: int) -> Any:
    """How a shard is made and loaded: cosine; a graph only above `exact_points`, built by one thread."""
    import qdrant_edge

    kilobytes = max(1, exact_points * dimensions * 4 // 1024)
    return qdrant_edge.EdgeConfig(
        vectors=qdrant_edge.EdgeVectorParams(size=dimensions, distance=qdrant_edge.Distance.Cosine),
        hnsw_config=qdrant_edge.HnswIndexConfig(
            m=_LINKS, ef_construct=_BUILD_BEAM, full_scan_threshold=10_000, max_indexing_threads=1
        ),
        optimizers=qdrant_edge.EdgeOptimizersConfig(indexing_threshold=kilobytes, default_segment_number=1),
        max_search_threads=1,
    )


def edge_filter(where: IndexFilter = EVERYTHING, only: dict[str, str] | None = None) -> Any:
    """The engine's filter, or None when nothing narrows."""
    import qdrant_edge

    def any_of(fields: dict[str, tuple[str, ...]]) -> list[Any]:
        return [
            qdrant_edge.FieldCondition(name, match=qdrant_edge.MatchAny(list(values)))
            for name, values in fields.items()
        ]

    conditions, readable = any_of(where.words()), any_of(where.readable())
    since, before = where.dates()
    if since or before:
        conditions.append(
            qdrant_edge.FieldCondition(OCCURRED_AT, range=qdrant_edge.RangeDateTime(gte=since, lt=before))
        )
    if only is not None:
        conditions.append(qdrant_edge.HasIdCondition({uuid.UUID(one) for one in only}))
    if not (conditions or readable):
        return None
    return qdrant_edge.Filter(must=conditions or None, should=readable or None)
