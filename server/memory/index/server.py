"""The `server` backend: a Qdrant server or cluster by URL, for more than one process or machine.

One collection a world; its metadata says that it is ours and which model made the vectors. Knows no folder and no SQL.
The key is sent to the URL given and is never written or logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from server.engines.base import EmbeddingFingerprint
from server.errors import ConfigError, IndexDamaged, IndexUnavailable, MemoryIndexError
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
    IndexPoint,
    OpenReport,
    checked_limit,
    checked_points,
    closed,
    in_order,
    invalid,
    point_ids,
    unit_vector,
)
from server.memory.index.folder import mismatch

_MADE_BY = "stackchan-server"
_WRITE_BATCH = 128
_PAGE = 1_000
_SPARE = 16
_SEARCH_BEAM = 256


class ServerIndex:
    """Implements `MemoryIndex` over `AsyncQdrantClient`. `client`: an open one, in place of the URL.

    `timeout_seconds`: what one request may take; a whole batch of points gets three times as long.
    """

    backend = "server"
    takes_filters = True

    def __init__(
        self,
        url: str,
        fingerprint: EmbeddingFingerprint,
        *,
        collection: str,
        api_key: str | None = None,
        timeout_seconds: float = 5.0,
        client: Any = None,
    ) -> None:
        self.fingerprint = fingerprint
        self._url = url
        self._collection = collection
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._given = client
        self._client: Any = None

    async def open(self, *, discard: bool = False) -> OpenReport:
        """As `MemoryIndex.open`; also `index_unauthorized` for a missing or wrong key."""
        if self._client is not None:
            raise invalid("it is open already")
        try:
            self._client = self._given or await asyncio.to_thread(self._connect)
            return await self._find_or_create(discard)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and client is not self._given:
            await client.close()

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        ready = await asyncio.to_thread(checked_points, points, self.fingerprint.dimensions)
        from qdrant_client import models

        for start in range(0, len(ready), _WRITE_BATCH):
            batch = [
                models.PointStruct(id=point.point_id, vector=point.vector.tolist(), payload=point.payload)
                for point in ready[start : start + _WRITE_BATCH]
            ]
            async with self._request(times=3) as client:
                await client.upsert(self._collection, batch, wait=True)

    async def delete(self, memory_ids: Collection[str]) -> None:
        from qdrant_client import models

        if points := list(point_ids(memory_ids)):
            async with self._request() as client:
                await client.delete(self._collection, models.PointIdsList(points=points), wait=True)

    async def search(
        self, vector: Samples, *, limit: int, only: Collection[str] | None = None, where: IndexFilter = EVERYTHING
    ) -> list[IndexHit]:
        from qdrant_client import models

        query = unit_vector(vector, self.fingerprint.dimensions).tolist()
        condition = server_filter(where, None if only is None else point_ids(only))
        wanted = checked_limit(limit) + _SPARE
        while True:
            async with self._request() as client:
                found = await client.query_points(
                    self._collection,
                    query=query,
                    query_filter=condition,
                    search_params=models.SearchParams(hnsw_ef=max(_SEARCH_BEAM, wanted)),
                    limit=wanted,
                    with_payload=[MEMORY_ID],
                )
            hits = [IndexHit(point.payload[MEMORY_ID], float(point.score)) for point in found.points]
            # Enough when all there is was found, or the last hit no longer ties with the limit's.
            enough = len(hits) < wanted or hits[-1].score < hits[limit - 1].score - TIE
            if enough or wanted >= limit + MOST_TIES:
                return in_order(hits, limit)
            wanted = min(4 * wanted, limit + MOST_TIES)

    async def count(self) -> int:
        async with self._request() as client:
            return int((await client.count(self._collection, exact=True)).count)

    async def ids(self) -> set[str]:
        found: set[str] = set()
        offset = None
        while True:
            async with self._request() as client:
                records, offset = await client.scroll(
                    self._collection, limit=_PAGE, offset=offset, with_payload=[MEMORY_ID], with_vectors=False
                )
            found.update(record.payload[MEMORY_ID] for record in records)
            if offset is None:
                return found

    async def vectors(self, memory_ids: Collection[str]) -> dict[str, Samples]:
        points = point_ids(memory_ids)
        names = list(points)
        found: dict[str, Samples] = {}
        for start in range(0, len(names), _PAGE):
            async with self._request() as client:
                records = await client.retrieve(
                    self._collection, names[start : start + _PAGE], with_payload=False, with_vectors=True
                )
            found |= {points[str(record.id)]: np.asarray(record.vector, dtype=np.float32) for record in records}
        return found

    async def drop(self) -> None:
        async with self._request(times=3) as client:
            await client.delete_collection(self._collection)
        await self._create()

    async def optimize(self) -> bool:
        return False  # a server does so by itself

    # --- the collection ---

    async def _find_or_create(self, discard: bool) -> OpenReport:
        async with self._request() as client:
            exists = await client.collection_exists(self._collection)
        if not exists:
            await self._create()
            return OpenReport(0, rebuild_needed=True, reason="it is new")
        async with self._request() as client:
            config = (await client.get_collection(self._collection)).config
        metadata = config.metadata or {}
        if metadata.get("made_by") != _MADE_BY:
            raise MemoryIndexError(
                f"The collection {self._collection} at {self._url} was not made by this program; it was left alone.",
                code="index_foreign",
                hint="Give the index another collection, or remove that one.",
            )
        if discard:
            await self.drop()
            return OpenReport(0, rebuild_needed=True, reason="it was discarded")
        try:
            found = EmbeddingFingerprint(**metadata["fingerprint"])
            dimensions = config.params.vectors.size
        except (KeyError, TypeError, AttributeError) as error:
            raise IndexDamaged(
                f"The metadata of the collection {self._collection} cannot be read ({error}).",
                hint="Rebuild the index; until then words are searched.",
            ) from None
        if found != self.fingerprint or dimensions != self.fingerprint.dimensions:
            raise mismatch(f"{self._collection} at {self._url}", found, self.fingerprint)
        return OpenReport(await self.count())

    async def _create(self) -> None:
        from qdrant_client import models

        async with self._request(times=3) as client:
            await client.create_collection(
                self._collection,
                vectors_config=models.VectorParams(size=self.fingerprint.dimensions, distance=models.Distance.COSINE),
                metadata={"made_by": _MADE_BY, "fingerprint": asdict(self.fingerprint)},
            )
            for name in KEYWORDS:
                await client.create_payload_index(self._collection, name, models.PayloadSchemaType.KEYWORD)
            await client.create_payload_index(self._collection, OCCURRED_AT, models.PayloadSchemaType.DATETIME)

    def _connect(self) -> Any:
        try:
            parts = urlsplit(self._url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(
                f"{self._url!r} is no address of a Qdrant server.",
                hint="Set memory.index_url, like http://127.0.0.1:6333.",
            )
        from qdrant_client import AsyncQdrantClient

        return AsyncQdrantClient(
            url=self._url,
            # As a header: given as api_key, the library warns about every address without TLS, the house's own too.
            headers={"api-key": self._api_key} if self._api_key else None,
            timeout=int(3 * self._timeout_seconds) + 1,
            check_compatibility=False,  # it would ask the server here, blocking
        )

    @asynccontextmanager
    async def _request(self, *, times: int = 1) -> AsyncIterator[Any]:
        """The client for one request, with its time limit; what the library raises becomes ours, once, here."""
        if self._client is None:
            raise closed()
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        try:
            async with asyncio.timeout(times * self._timeout_seconds):
                yield self._client
        except TimeoutError:
            raise self._unavailable(f"did not answer within {times * self._timeout_seconds:g} s") from None
        except ResourceExhaustedResponse:
            raise self._unavailable("is asked too much") from None
        except ResponseHandlingException as error:
            raise self._unavailable(f"cannot be reached ({type(error.source).__name__}: {error.source})") from error
        except UnexpectedResponse as error:
            raise self._refused(error.status_code or 0, error.reason_phrase) from error
        except MemoryIndexError:
            raise
        except Exception as error:  # the library takes what it cannot read for an answer, and trips over it later
            raise self._unavailable(f"gave an answer that is none of Qdrant's ({type(error).__name__})") from error

    def _refused(self, status: int, reason: str) -> MemoryIndexError:
        if status in (401, 403):
            return MemoryIndexError(
                f"The Qdrant server {self._url} refused the API key ({status}).",
                code="index_unauthorized",
                hint="Set memory.index_api_key to the server's key.",
            )
        if status == 404:
            return IndexDamaged(
                f"The collection {self._collection} is gone from {self._url}.",
                hint="Rebuild the index; until then words are searched.",
            )
        if status >= 500 or status in (408, 429):
            return self._unavailable(f"failed ({status} {reason})")
        return MemoryIndexError(f"The Qdrant server {self._url} refused a request ({status} {reason}).")

    def _unavailable(self, what: str) -> IndexUnavailable:
        return IndexUnavailable(
            f"The Qdrant server {self._url} {what}.",
            hint="Check that it runs and that memory.index_url is right; until then words are searched.",
        )


def server_filter(where: IndexFilter = EVERYTHING, only: dict[str, str] | None = None) -> Any:
    """The server's filter, or None when nothing narrows."""
    from qdrant_client import models

    def any_of(fields: dict[str, tuple[str, ...]]) -> list[Any]:
        return [
            models.FieldCondition(key=name, match=models.MatchAny(any=list(values))) for name, values in fields.items()
        ]

    conditions, readable = any_of(where.words()), any_of(where.readable())
    since, before = where.dates()
    if since or before:
        conditions.append(
            models.FieldCondition(
                key=OCCURRED_AT, range=models.DatetimeRange.model_validate({"gte": since, "lt": before})
            )
        )
    if only is not None:
        conditions.append(models.HasIdCondition(has_id=list(only)))
    if not (conditions or readable):
        return None
    return models.Filter(must=conditions or None, should=readable or None)
