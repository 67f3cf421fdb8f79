"""What HTTP asks of a server beside the turns: HEAD, methods, encodings, a body that waits to be asked for."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.devices.conftest import TOKEN, code, eventually

pytestmark = pytest.mark.integration

TEXT = json.dumps({"text": "hi"}).encode()


async def test_head_tells_what_get_would_send(serve):
    async with serve() as live:
        turn = (await live.client.post("/v1/turns", json={"text": "hi"})).json()
        url = f"/v1/turns/{turn['turn_id']}"
        for path in ("/healthz", "/readyz", url, f"{url}/trace", f"{url}/audio", f"{url}/audio?format=pcm&rate=16000"):
            head, get = await live.client.head(path), await live.client.get(path)
            assert (head.status_code, head.content) == (200, b""), path
            for name in ("content-type", "content-length"):
                assert head.headers[name] == get.headers[name], path
        opus = await live.client.head(f"{url}/audio?format=opus")
        assert (opus.status_code, opus.headers["content-type"]) == (200, "audio/ogg;codecs=opus")
        assert "content-length" not in opus.headers
        missing = await live.client.head("/v1/turns/999")
    assert (missing.status_code, missing.content) == (404, b"")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/turns", "POST"),
        ("PUT", "/v1/turns", "POST"),
        ("POST", "/v1/turns/1", "GET, HEAD"),
        ("DELETE", "/v1/turns/1", "GET, HEAD"),
        ("OPTIONS", "/v1/turns/1/audio", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("PATCH", "/readyz", "GET, HEAD"),
    ],
)
async def test_a_method_that_is_not_for_the_path_is_told_which_are(serve, method, path, allowed):
    async with serve() as live:
        response = await live.client.request(method, path)
    assert code(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == allowed


async def test_a_path_that_is_not_there(serve):
    async with serve() as live:
        assert code(await live.client.get("/v1/nothing")) == (404, "not_found")
        assert code(await live.client.get("/v1/turns/1/nothing")) == (404, "not_found")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip", "deflate"])
async def test_a_packed_body_is_refused(serve, encoding):
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    async with serve() as live:
        response = await live.client.post("/v1/turns", content=TEXT, headers=headers)
    assert code(response) == (415, "body_unsupported")
    assert live.engines.llm.requests == []


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_a_body_that_says_it_is_not_packed_is_taken(serve, encoding):
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    async with serve() as live:
        assert (await live.client.post("/v1/turns", content=TEXT, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Device-Id", "device_id_invalid"),
        ("Session-Id", "session_id_invalid"),
        ("Idempotency-Key", "idempotency_key_invalid"),
    ],
)
async def test_a_header_sent_twice_is_refused(serve, name, expected):
    headers = [("Authorization", f"Bearer {TOKEN}"), (name, "one"), (name, "two")]
    headers += [("Device-Id", "desk")] if name != "Device-Id" else []
    async with serve() as live:
        live.client.headers.clear()
        response = await live.client.post("/v1/turns", json={"text": "hi"}, headers=headers)
    assert code(response) == (400, expected)
    assert live.engines.llm.requests == []


async def expecting(live, *extra: str, length: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = (
        "POST /v1/turns HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {TOKEN}",
        "Device-Id: desk",
        "Expect: 100-continue",
        f"Content-Length: {length}",
        *extra,
    )
    writer.write("\r\n".join((*lines, "", "")).encode())
    await writer.drain()
    return reader, writer


async def test_a_client_that_asks_first_is_told_to_go_on(serve):
    async with serve() as live:
        reader, writer = await expecting(live, "Content-Type: application/json", length=len(TEXT))
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(TEXT)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
        await writer.wait_closed()
    assert head.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("kind", "length", "status"),
    [("audio/wav", 5_000_000, b"413"), ("text/html", 10, b"415"), ("audio/wav", 1, b"409")],
)
async def test_a_client_that_asks_first_is_spared_what_would_be_refused(serve, kind, length, status):
    gate = asyncio.Event()

    async def held():
        yield TEXT[:1]
        await gate.wait()
        yield TEXT[1:]

    async with serve() as live:
        headers = {"Content-Type": "application/json"}
        if status == b"409":
            first = asyncio.create_task(live.client.post("/v1/turns", content=held(), headers=headers))
            await eventually(lambda: live.app.state.service.runner._places)
        reader, writer = await expecting(live, f"Content-Type: {kind}", length=length)
        answered = await asyncio.wait_for(reader.read(), 10)
        gate.set()
        if status == b"409":
            assert (await first).status_code == 200
        writer.close()
        await writer.wait_closed()
    assert answered.split()[1] == status, "no 100 before it"
    assert b"connection: close" in answered.lower(), "nobody could tell what comes next on it"


async def test_answers_about_people_are_kept_by_no_cache(serve):
    async with serve() as live:
        posted = await live.client.post("/v1/turns", json={"text": "hi"})
        turn = await live.client.get(f"/v1/turns/{posted.json()['turn_id']}")
        sound = await live.client.get(posted.json()["audio"]["url"])
    assert {response.headers["cache-control"] for response in (posted, turn, sound)} == {"private, no-store"}
