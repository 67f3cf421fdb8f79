"""Points, filters and open indexes for the tests of the vector index; and what brute force says the answer is."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from server.engines.base import EmbeddingFingerprint
from server.events import Samples
from server.memory.index.base import EVERYTHING, IndexFilter, IndexHit, IndexPayload, IndexPoint, MemoryIndex
from server.memory.index.factory import open_index
from server.memory.index.server import ServerIndex

DIMENSIONS = 24
MODEL = EmbeddingFingerprint("test-embedding", DIMENSIONS, "質問: ")
NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KINDS = ("local", "edge", "server")
FOLDER_KINDS = ("local", "edge")


def make_index(kind: str, folder: Path, fingerprint: EmbeddingFingerprint = MODEL, client: Any = None) -> MemoryIndex:
    """A closed index; `server` needs the in-memory client that stands in for one."""
    if kind == "server":
        return ServerIndex("http://index.test", fingerprint, collection="stackchan-test", client=client)
    return open_index(kind, folder, fingerprint.dimensions, fingerprint)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(
    kind: str, folder: Path, fingerprint: EmbeddingFingerprint = MODEL, client: Any = None
) -> AsyncIterator[MemoryIndex]:
    index = make_index(kind, folder, fingerprint, client)
    await index.open()
    try:
        yield index
    finally:
        await index.close()


def payload(number: int = 0, **changes: Any) -> IndexPayload:
    fields: dict[str, Any] = {
        "topic": f"話題 {number % 3}",
        "entity_keys": (f"entity{number % 5}", "富士通"),
        "memory_type": ("episode", "preference", "decision", "fact")[number % 4],
        "occurred_at": NEW_YEAR + dt.timedelta(hours=number),
        "status": "superseded" if number % 7 == 0 else "active",
        "speakers": ("owner",) if number % 2 else ("owner", "guest"),
        "persona_id": f"persona{number % 2}",
        "channel_id": f"stackchan:robot{number % 3}",
        "visibility": "private" if number % 4 == 0 else "house",
    }
    return IndexPayload(**(fields | changes))


def memory_id(number: int) -> str:
    return f"mem_{number:026d}"


def make_points(count: int, seed: int = 1, dimensions: int = DIMENSIONS) -> list[IndexPoint]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return [IndexPoint(memory_id(number), vector, payload(number)) for number, vector in enumerate(vectors)]


def unit(vector: Samples) -> Samples:
    exact = vector.astype(np.float64)
    return (exact / np.linalg.norm(exact)).astype(np.float32)


def matches(point: IndexPoint, where: IndexFilter) -> bool:
    """What `IndexFilter` promises, said again in plain Python."""
    stored = point.payload
    pairs = [
        (where.topic, {stored.topic}),
        (where.entity_keys, set(stored.entity_keys)),
        (where.memory_type, {stored.memory_type}),
        (where.status, {stored.status}),
        (where.speakers, set(stored.speakers)),
        (where.persona_id, {stored.persona_id}),
        (where.channel_id, {stored.channel_id}),
        (where.visibility, {stored.visibility}),
    ]
    if any(wanted and not set(wanted) & there for wanted, there in pairs):
        return False
    if where.readable_by and stored.visibility != "house" and where.readable_by not in stored.speakers:
        return False
    if where.occurred_from is not None and stored.occurred_at < where.occurred_from:
        return False
    return where.occurred_before is None or stored.occurred_at < where.occurred_before


def brute_force(points: list[IndexPoint], query: Samples, limit: int, where: IndexFilter) -> list[tuple[str, float]]:
    """Every point scored in double precision; for points of which no two score alike."""
    asked = query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
    scored = [
        (point.memory_id, float(point.vector.astype(np.float64) @ asked / np.linalg.norm(point.vector)))
        for point in points
        if matches(point, where)
    ]
    return sorted(scored, key=lambda pair: -pair[1])[:limit]


async def search(
    index: MemoryIndex, points: list[IndexPoint], query: Samples, limit: int, where: IndexFilter = EVERYTHING
) -> list[IndexHit]:
    """As `recall` does: a filter where the backend takes one, else the ids that SQL would allow."""
    if index.takes_filters:
        return await index.search(query, limit=limit, where=where)
    only = [point.memory_id for point in points if matches(point, where)] if where else None
    return await index.search(query, limit=limit, only=only)
