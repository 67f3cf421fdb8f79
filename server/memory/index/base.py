"""What the rest of memory may expect of a vector index, and the rules every backend shares.

A cache: each point can be made again from SQL. It keeps one unit vector a memory and the fields a search narrows by,
never what was said. Knows no library and no file: each backend has its own module. Ranking here is cosine alone;
recency, words and their fusion are decided above.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import AsyncIterable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from server.engines.base import EmbeddingFingerprint
from server.errors import MemoryIndexError
from server.events import Samples

POINT_NAMESPACE = uuid.UUID("6f1d0c5e-2c1b-5a53-9d0e-7a5b8c1f4e21")
"""Points are called uuid5 of this and the memory's id. Never changed: every stored point depends on it."""

TIE = 1e-6
"""Scores closer than this are equal: the same vector scores differently by so much in another row or backend."""
MOST_TIES = 200
"""So many hits beyond the limit are returned when they tie with the last one."""


@dataclass(frozen=True, slots=True)
class IndexPayload:
    """The fields a search narrows by."""

    topic: str
    entity_keys: tuple[str, ...]
    """As `entity_key` writes them: NFKC, case-folded, without spaces."""
    memory_type: str
    occurred_at: dt.datetime
    """With its zone."""
    status: str
    speakers: tuple[str, ...]
    persona_id: str
    channel_id: str
    visibility: str


@dataclass(frozen=True, slots=True)
class IndexPoint:
    memory_id: str
    vector: Samples
    """float32, shape (dimensions,); its length does not matter, only its direction."""
    payload: IndexPayload


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """Every field given must match; within a field any of its values does. An empty field narrows nothing."""

    topic: tuple[str, ...] = ()
    entity_keys: tuple[str, ...] = ()
    memory_type: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    persona_id: tuple[str, ...] = ()
    channel_id: tuple[str, ...] = ()
    visibility: tuple[str, ...] = ()
    readable_by: str = ""
    """A speaker: what is for the whole house, and whatever they were part of."""
    occurred_from: dt.datetime | None = None
    """Inclusive, with its zone."""
    occurred_before: dt.datetime | None = None
    """Exclusive, with its zone."""

    def words(self) -> dict[str, tuple[str, ...]]:
        """The fields compared by equality that narrow something, in a fixed order."""
        return {name: values for name in KEYWORDS if (values := tuple(map(_writable, getattr(self, name))))}

    def readable(self) -> dict[str, tuple[str, ...]]:
        """The fields of which one must match, when it narrows to what somebody may read."""
        return {"visibility": (HOUSE,), "speakers": (_writable(self.readable_by),)} if self.readable_by else {}

    def dates(self) -> tuple[str | None, str | None]:
        """From and before, in RFC 3339. Raises `MemoryIndexError` (`index_invalid`) for a time without a zone."""
        since, before = self.occurred_from, self.occurred_before
        return rfc3339(since) if since else None, rfc3339(before) if before else None

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


KEYWORDS = ("topic", "entity_keys", "memory_type", "status", "speakers", "persona_id", "channel_id", "visibility")
"""Payload fields compared by equality; the other one is the time."""
HOUSE = "house"
OCCURRED_AT = "occurred_at"
MEMORY_ID = "memory_id"
EVERYTHING = IndexFilter()


@dataclass(frozen=True, slots=True)
class IndexHit:
    memory_id: str
    score: float
    """Cosine similarity in [-1, 1]; how alike, never how sure."""


@dataclass(frozen=True, slots=True)
class OpenReport:
    """What opening found."""

    points: int
    rebuild_needed: bool = False
    """It is new, was damaged or was discarded: nothing is in it, so everything that SQL knows must be written."""
    ended_cleanly: bool = True
    """False: the process before was killed. What it acknowledged is there; compare `ids()` with SQL all the same."""
    reason: str = ""
    """Of `rebuild_needed`, for people."""
    moved_to: str | None = None
    """Where a damaged folder was put."""


class MemoryIndex(Protocol):
    """One world's vectors. Every method may raise `MemoryIndexError`.

    What `upsert` and `delete` have done when they return is on the disk, whatever happens to the process.
    """

    backend: str
    fingerprint: EmbeddingFingerprint
    takes_filters: bool
    """False: `search` takes only the ids that SQL allowed, and refuses a filter."""

    async def open(self, *, discard: bool = False) -> OpenReport:
        """Open or create. `discard` begins empty, whatever model the old points came from: the start of a rebuild.

        Raises `IndexLocked`, `IndexMismatch`, `IndexUnavailable`, or `index_foreign` for what is not ours.
        """

    async def close(self) -> None:
        """Safe to call twice and before `open()`."""

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Add or replace. All are checked before any is written: wrong dimensions and NaN are `index_invalid`."""

    async def delete(self, memory_ids: Collection[str]) -> None:
        """Remove; ids that are not there are no error."""

    async def search(
        self, vector: Samples, *, limit: int, only: Collection[str] | None = None, where: IndexFilter = EVERYTHING
    ) -> list[IndexHit]:
        """The `limit` most similar, best first, and those that tie with the last of them (at most `MOST_TIES`).

        `only`: ids to rank among (None: all; those not indexed are passed over). Equal scores come in order of id.
        """

    async def count(self) -> int:
        """Points there are. Raises `IndexDamaged` when it cannot be trusted any more: its files were taken away,
        or a call failed as only damage makes it fail. Closed and opened again, it is made anew.
        """

    async def ids(self) -> set[str]:
        """The memory ids of all points."""

    async def vectors(self, memory_ids: Collection[str]) -> dict[str, Samples]:
        """Unit vectors, float32, shape (dimensions,), of those that are there."""

    async def drop(self) -> None:
        """Remove every point; the index stays open."""

    async def optimize(self) -> bool:
        """Do what makes later searches faster, when there is time. True when something was done."""


async def rebuild(index: MemoryIndex, batches: AsyncIterable[Sequence[IndexPoint]]) -> int:
    """Empty an open index and write every batch; returns how many points were written."""
    await index.drop()
    written = 0
    async for batch in batches:
        await index.upsert(batch)
        written += len(batch)
    await index.optimize()
    return written


def point_id(memory_id: str) -> str:
    """The point's name: a UUID in text. Raises `MemoryIndexError` (`index_invalid`) for an id no one could write."""
    if not isinstance(memory_id, str) or not memory_id or memory_id != _writable(memory_id):
        raise invalid(f"{memory_id!r} is no memory id")
    return str(uuid.uuid5(POINT_NAMESPACE, memory_id))


def point_ids(memory_ids: Iterable[str]) -> dict[str, str]:
    """Point ids of those memory ids that could ever have been written: {point id: memory id}."""
    return {
        point_id(memory_id): memory_id for memory_id in memory_ids if memory_id and memory_id == _writable(memory_id)
    }


def rfc3339(moment: dt.datetime) -> str:
    """UTC with microseconds, so that text and time sort alike. Raises `MemoryIndexError` without a zone."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise invalid(f"{moment.isoformat()} has no time zone")
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def payload_fields(point: IndexPoint) -> dict[str, Any]:
    """What is stored beside the vector: the memory's id and the retrieval fields."""
    payload: dict[str, Any] = {MEMORY_ID: point.memory_id, OCCURRED_AT: rfc3339(point.payload.occurred_at)}
    for name in KEYWORDS:
        value = getattr(point.payload, name)
        payload[name] = _writable(value) if isinstance(value, str) else [_writable(one) for one in value]
    return payload


def unit_vector(vector: npt.ArrayLike, dimensions: int) -> Samples:
    """`vector` with length 1, float32. Raises `MemoryIndexError`: wrong shape, not finite, or no direction."""
    try:
        array = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise invalid(f"a vector cannot be read: {error}") from None
    if array.shape != (dimensions,):
        raise invalid(f"a vector has shape {array.shape}, this index takes ({dimensions},)")
    if not np.isfinite(array).all():
        raise invalid("a vector holds NaN or infinity")
    exact = array.astype(np.float64)
    length = float(np.linalg.norm(exact))
    if length < 1e-12:
        raise invalid("a vector is zero and points nowhere")
    return np.asarray(exact / length, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """A point as every backend writes it, checked."""

    point_id: str
    memory_id: str
    vector: Samples
    payload: dict[str, Any]


def checked_points(points: Sequence[IndexPoint], dimensions: int) -> list[StoredPoint]:
    """Every point ready to be written; of equal ids the last. Raises `MemoryIndexError` (`index_invalid`)."""
    ready: Mapping[str, StoredPoint] = {
        point.memory_id: StoredPoint(
            point_id(point.memory_id), point.memory_id, unit_vector(point.vector, dimensions), payload_fields(point)
        )
        for point in points
    }
    return list(ready.values())


def checked_limit(limit: int) -> int:
    if limit < 1:
        raise invalid(f"a search for {limit} memories finds nothing")
    return limit


def in_order(hits: Iterable[IndexHit], limit: int) -> list[IndexHit]:
    """Best first, equals by id; beyond `limit` only what ties with the last one."""
    ranked = sorted(hits, key=lambda hit: (-round(hit.score / TIE), hit.memory_id))
    if len(ranked) > limit:
        last = ranked[limit - 1].score - TIE
        ranked = [hit for hit in ranked[: limit + MOST_TIES] if hit.score >= last]
    return ranked


def invalid(what: str) -> MemoryIndexError:
    """The error for what no backend could take."""
    return MemoryIndexError(
        f"The memory index refuses this: {what}.",
        code="index_invalid",
        hint="Nothing was written. Give one finite vector of the index's dimensions, and times with a zone.",
    )


def closed() -> MemoryIndexError:
    return MemoryIndexError("The memory index is not open.", code="index_closed", hint="Open it before use.")


def _writable(text: str) -> str:
    """`text` without lone surrogates, which no index can store."""
    return text.encode("utf-8", "replace").decode()
