"""What can go wrong on the way to a Qdrant server, against a small HTTP server that behaves like one, or badly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from server.errors import ConfigError, IndexDamaged, IndexUnavailable, MemoryIndexError
from server.memory.index.server import ServerIndex
from tests.memory.index.indexes import MODEL, make_points

pytestmark = pytest.mark.integration

Answer = tuple[int, Any]
Handler = Callable[[str, str, dict[str, str], Any], Awaitable[Answer]]


@asynccontextmanager
async def http_server(handle: Handler) -> AsyncIterator[str]:
    """The URL of a server that answers each request with what `handle(method, path, headers, body)` returns."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            status, content = await handle(method, path, headers, json.loads(body) if body else None)
            payload = json.dumps(content).encode()
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n"
                f"content-length: {len(payload)}\r\n\r\n".encode()
                + payload
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client gave up
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def done(result: Any) -> Answer:
    return 200, {"result": result, "status": "ok", "time": 0.0}


class Qdrant:
    """The few requests that opening and writing need. `broken`: an answer to everything from now on."""

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.collection: dict[str, Any] | None = None
        self.indexes: dict[str, str] = {}
        self.points: dict[str, Any] = {}
        self.broken: Answer | None = None
        self.delay_seconds = 0.0

    async def __call__(self, method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        await asyncio.sleep(self.delay_seconds)
        if self.broken:
            return self.broken
        if headers.get("api-key", "") != self.key:
            return 401, "Must provide an API key or an Authorization bearer token"
        where, _, _ = path.partition("?")
        match method, where.removeprefix("/collections/stackchan-test"):
            case "GET", "/exists":
                return done({"exists": self.collection is not None})
            case "PUT", "":
                self.collection = body
                return done(True)
            case "PUT", "/index":
                self.indexes[body["field_name"]] = body["field_schema"]
                return done({"operation_id": 1, "status": "completed"})
            case "DELETE", "":
                self.collection, self.points = None, {}
                return done(True)
            case "GET", "" if self.collection is not None:
                return done(self._info(self.collection))
            case "PUT", "/points":
                self.points |= {point["id"]: point for point in body["points"]}
                return done({"operation_id": 2, "status": "completed"})
            case "POST", "/points/count":
                return done({"count": len(self.points)})
        return 404, {"status": {"error": "Not found"}, "time": 0.0}

    def _info(self, collection: dict[str, Any]) -> dict[str, Any]:
        config: dict[str, Any] = {
            "params": {"vectors": collection["vectors"]},
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
            "optimizer_config": {
                "deleted_threshold": 0.2,
                "vacuum_min_vector_number": 1000,
                "default_segment_number": 0,
                "flush_interval_sec": 5,
            },
            "metadata": collection.get("metadata"),
        }
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "config": config,
            "payload_schema": {},
            "points_count": len(self.points),
        }


def index_at(url: str, **options: Any) -> ServerIndex:
    return ServerIndex(url, MODEL, collection="stackchan-test", **options)


async def test_collection_says_whose_it_is_and_has_payload_indexes() -> None:
    qdrant = Qdrant(key="secret")
    async with http_server(qdrant) as url:
        index = index_at(url, api_key="secret")
        report = await index.open()
        assert (report.points, report.rebuild_needed) == (0, True)
        points = make_points(300)
        await index.upsert(points)
        await index.close()
        assert qdrant.collection is not None
        assert qdrant.collection["vectors"] == {"size": 24, "distance": "Cosine"}
        assert qdrant.collection["metadata"]["fingerprint"]["model"] == "test-embedding"
        assert qdrant.indexes["occurred_at"] == "datetime"
        assert qdrant.indexes["entity_keys"] == "keyword"
        assert len(qdrant.points) == 300
        stored = next(iter(qdrant.points.values()))["payload"]
        assert stored["occurred_at"] == "2026-01-01T00:00:00.000000Z"
        assert set(stored) == {
            *("memory_id", "topic", "entity_keys", "memory_type", "occurred_at", "status"),
            *("speakers", "persona_id", "channel_id", "visibility"),
        }
        again = index_at(url, api_key="secret")
        report = await again.open()
        assert (report.points, report.rebuild_needed) == (300, False)
        await again.close()


async def test_a_wrong_key_says_so_and_is_not_repeated_in_the_message() -> None:
    async with http_server(Qdrant(key="secret")) as url:
        for key in (None, "wr0ng-key"):
            with pytest.raises(MemoryIndexError) as raised:
                await index_at(url, api_key=key).open()
            assert raised.value.code == "index_unauthorized"
            assert not raised.value.retryable
            assert "wr0ng-key" not in str(raised.value)


async def test_nobody_there_is_unavailable_and_names_the_address() -> None:
    async with http_server(Qdrant()) as url:
        pass
    with pytest.raises(IndexUnavailable) as raised:
        await index_at(url).open()
    assert (raised.value.code, raised.value.retryable) == ("index_unavailable", True)
    assert url in raised.value.message


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    qdrant = Qdrant()
    async with http_server(qdrant) as url:
        qdrant.delay_seconds = 30
        with pytest.raises(IndexUnavailable) as raised:
            await index_at(url, timeout_seconds=0.3).open()
        assert "0.3 s" in raised.value.message
        qdrant.delay_seconds = 0
        index = index_at(url, timeout_seconds=2)  # for a busy machine: what is in time must not fail
        await index.open()
        qdrant.delay_seconds = 30
        with pytest.raises(IndexUnavailable):
            await index.count()
        await index.close()


@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_a_server_in_trouble_is_unavailable_and_comes_back(status: int) -> None:
    qdrant = Qdrant()
    async with http_server(qdrant) as url:
        index = index_at(url)
        await index.open()
        qdrant.broken = (status, {"status": {"error": "no"}})
        for call in (index.count(), index.upsert(make_points(3)), index.search(make_points(1)[0].vector, limit=3)):
            with pytest.raises(IndexUnavailable):
                await call
        qdrant.broken = None
        await index.upsert(make_points(3))
        assert await index.count() == 3
        await index.close()


async def test_answers_that_are_no_qdrant_are_an_error_of_ours() -> None:
    qdrant = Qdrant()
    async with http_server(qdrant) as url:
        for answer in ((200, "hello"), (200, {"result": None}), (400, {"status": {"error": "no"}}), (302, {})):
            qdrant.broken = answer
            with pytest.raises(MemoryIndexError) as raised:
                await index_at(url).open()
            assert url in raised.value.message


async def test_a_collection_that_vanished_asks_for_a_rebuild() -> None:
    qdrant = Qdrant()
    async with http_server(qdrant) as url:
        index = index_at(url)
        await index.open()
        qdrant.broken = (404, {"status": {"error": "Not found: Collection `stackchan-test` doesn't exist!"}})
        with pytest.raises(IndexDamaged) as raised:
            await index.search(make_points(1)[0].vector, limit=3)
        assert "ebuild" in str(raised.value.hint)
        await index.close()


async def test_somebody_elses_collection_is_left_alone() -> None:
    qdrant = Qdrant()
    qdrant.collection = {"vectors": {"size": 24, "distance": "Cosine"}}
    async with http_server(qdrant) as url:
        for discard in (False, True):
            with pytest.raises(MemoryIndexError) as raised:
                await index_at(url).open(discard=discard)
            assert raised.value.code == "index_foreign"
    assert qdrant.collection is not None


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "127.0.0.1:not-a-port", "http://127.0.0.1:99999"])
async def test_an_address_that_is_none_is_a_setting_to_correct(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        await index_at(url, timeout_seconds=2).open()
    assert url in raised.value.message
