"""Connections that do not finish a TLS handshake: counted as every other, and soon closed."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from server.commands import tls_door, web_server
from server.commands.certificate import local_identity
from server.commands.trust import trusting
from server.commands.web_server import WebServer, web_config
from tests.devices.conftest import eventually

pytestmark = pytest.mark.integration


@asynccontextmanager
async def encrypted(folder: Path) -> AsyncIterator[tuple[WebServer, int, Path]]:
    app = FastAPI()

    @app.get("/")
    async def hello() -> str:
        return "hello"

    async def nobody_there() -> None: ...

    app.state.hang_up = nobody_there
    identity = local_identity(folder, ("127.0.0.1",), dt.datetime.now(dt.UTC))
    server = WebServer(web_config(app, identity.certificate, identity.key))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await eventually(lambda: server.started)
        yield server, listener.getsockname()[1], identity.certificate
        server.should_exit = True
        await asyncio.wait_for(task, 10)


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), 5) == b""
    except ConnectionError:
        return True


async def say_nothing(port: int, words: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    return reader, writer


@pytest.mark.parametrize("words", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"])
async def test_who_does_not_finish_the_handshake_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: bytes
) -> None:
    monkeypatch.setattr(tls_door, "HANDSHAKE_SECONDS", 0.3)
    async with encrypted(tmp_path) as (server, port, _):
        held = [await say_nothing(port, words) for _ in range(5)]
        assert await asyncio.gather(*(closed(reader) for reader, _ in held)) == [True] * 5
        assert server.server_state.connections == set()
        for _, writer in held:
            writer.close()


async def test_more_than_may_be_there_are_closed_at_once_and_there_is_room_when_they_have_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "connection_limit", lambda: 3)
    async with encrypted(tmp_path) as (server, port, certificate):
        held: list[Any] = []
        for _ in range(3):
            held.append(await say_nothing(port))
            await eventually(lambda: len(server.server_state.connections) == len(held))
        one_more = await say_nothing(port)
        assert await closed(one_more[0])
        assert len(server.server_state.connections) == 3
        for _, writer in (*held, one_more):
            writer.close()
        await eventually(lambda: not server.server_state.connections)
        async with httpx2.AsyncClient(verify=trusting(certificate), trust_env=False) as client:
            for _ in range(2):
                assert (await client.get(f"https://127.0.0.1:{port}/")).json() == "hello"
            assert len(server.server_state.connections) == 1


async def test_a_server_stops_though_somebody_stands_at_the_door(tmp_path: Path) -> None:
    async with encrypted(tmp_path) as (server, port, _):
        reader, writer = await say_nothing(port)
        await eventually(lambda: bool(server.server_state.connections))
    assert await closed(reader)
    writer.close()
