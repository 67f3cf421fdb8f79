"""What any fake server can be told to do: refuse, be slow, break off, send something else. See `http_server.py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from tests.fakes.http_server import Behaviour, Connection


def fail(
    status: int, message: str = "it is refused", *, retry_after: str | None = None, code: str | None = None
) -> Behaviour:
    """An error answer as providers write it. `retry_after`: the header, seconds or a date."""
    headers = {"Retry-After": retry_after} if retry_after is not None else {}
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return raw_answer(status, json.dumps(body, ensure_ascii=False).encode(), headers)


def html(status: int = 502) -> Behaviour:
    """A gateway's page."""
    page = b"<!DOCTYPE html><html><body><h1>Bad Gateway</h1></body></html>"
    return raw_answer(status, page, {"Content-Type": "text/html"})


def raw_answer(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.answer(status, body, headers)

    return behave


def never() -> Behaviour:
    """No byte at all, until the client goes away."""

    async def behave(connection: Connection) -> None:
        await asyncio.Event().wait()

    return behave


def late(seconds: float, behave: Behaviour) -> Behaviour:
    """`behave`, but its first byte only after a while."""

    async def behave_late(connection: Connection) -> None:
        await asyncio.sleep(seconds)
        await behave(connection)

    return behave_late


def broken_off(body: bytes, headers: Mapping[str, str], *, promised_bytes: int | None = None) -> Behaviour:
    """Half of a body, then the connection ends: by chunks, or of a promised length."""

    async def behave(connection: Connection) -> None:
        if promised_bytes is None:
            await connection.begin(200, headers)
            await connection.piece(body)
        else:
            await connection.head(200, {"Content-Length": str(promised_bytes), **headers})
            await connection.raw(body)
        await asyncio.sleep(0.02)  # let it arrive
        connection.end_connection()

    return behave


def in_pieces(body: bytes, headers: Mapping[str, str], *, step: int, pause_seconds: float = 0.0) -> Behaviour:
    """A body without a length, in chunked encoding, `step` bytes a chunk."""

    async def behave(connection: Connection) -> None:
        await connection.begin(200, headers)
        for start in range(0, len(body), step):
            await connection.piece(body[start : start + step])
            await asyncio.sleep(pause_seconds)
        await connection.end()

    return behave


def until_the_end(body: bytes, headers: Mapping[str, str]) -> Behaviour:
    """A body without a length or chunks: it ends with the connection."""

    async def behave(connection: Connection) -> None:
        await connection.head(200, {"Connection": "close", **headers})
        await connection.raw(body)
        connection.end_connection()

    return behave


def endless(piece: bytes, headers: Mapping[str, str], *, begin: bytes = b"") -> Behaviour:
    """A body that never ends."""

    async def behave(connection: Connection) -> None:
        await connection.begin(200, headers)
        await connection.piece(begin or piece)
        while True:
            await connection.piece(piece)

    return behave


def hung_up() -> Behaviour:
    """The connection is reset before any answer, as a kept one is that the server has forgotten."""

    async def behave(connection: Connection) -> None:
        connection.reset()

    return behave


def then_close(behave: Behaviour) -> Behaviour:
    """`behave`, and the connection ends without having said so: the next request finds it dead."""

    async def behave_and_close(connection: Connection) -> None:
        await behave(connection)
        connection.end_connection()

    return behave_and_close
