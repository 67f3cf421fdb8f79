"""The connections to a server that is an engine, and what is read from it beside answers: refusals and lists.

Nothing is read without a bound, in bytes after decompression and in time: a server that goes wrong must cost neither
memory nor the start. Knows no request and classifies no failure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

import httpx2

from server.engines.http_endpoint import HttpEndpoint

_REFUSAL_BYTES = 64 * 1024
# The list of an endpoint with hundreds of models has some hundred KiB.
_LIST_BYTES = 1024**2
# Refusals are read, and lists asked for, in turns that have failed already: they must not add much.
_REFUSAL_SECONDS = 1.0
_LIST_SECONDS = 3.0
_LONGEST_NAME = 200
# A connection outlives a pause in the conversation: to a cloud a new one costs some 0.2 s. One that the endpoint has
# closed meanwhile is noticed before it is used.
_KEPT_SECONDS = 60.0


class EndpointRefusal(Exception):
    """An answer whose status is not 2xx. `text`: the beginning of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.text = text


def open_client(endpoint: HttpEndpoint, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    """A client that keeps connections; slow to make (it reads certificates), so not on the event loop.

    Whatever is asked through it raises `EndpointRefusal` for a status that is not 2xx. It follows no redirect, which
    would carry what was said to a place nobody named, and asks no proxy for what is on this machine.
    """
    return httpx2.AsyncClient(
        timeout=timeout,
        limits=httpx2.Limits(keepalive_expiry=_KEPT_SECONDS),
        trust_env=not endpoint.loopback,
        # Without TLS nothing is verified, and reading the certificates is most of the work here.
        verify=endpoint.base_url.startswith("https"),
        follow_redirects=False,
        # Here, before anybody reads the body without a bound.
        event_hooks={"response": [_raise_refusal]},
    )


async def listed_models(http: httpx2.AsyncClient, endpoint: HttpEndpoint) -> list[str] | None:
    """The names in the endpoint's list of models, those that can be a name; None when it sends no such list.

    Raises `EndpointRefusal`, `TimeoutError` and what httpx2 raises.
    """
    value = await read_json(http, endpoint, "/models")
    listed = value.get("data", 0) if isinstance(value, dict) else 0
    if listed is None:  # how Ollama says that it has none
        return []
    return names_in(listed)


async def read_json(http: httpx2.AsyncClient, endpoint: HttpEndpoint, path: str) -> Any:
    """What a small JSON document says; None when it is none. Raises as `listed_models`."""
    async with asyncio.timeout(_LIST_SECONDS):
        async with http.stream("GET", f"{endpoint.base_url}{path}", headers=endpoint.headers()) as response:
            body = await _beginning(response, _LIST_BYTES)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def names_in(listed: object) -> list[str] | None:
    """The `id` of each entry of a list that can be a name; None when it is no list."""
    if not isinstance(listed, list):
        return None
    names = [entry.get("id") for entry in listed if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_NAME]


async def _raise_refusal(response: httpx2.Response) -> None:
    if response.is_success:
        return
    body = b""
    with suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            body = await _beginning(response, _REFUSAL_BYTES)
    raise EndpointRefusal(response.status_code, response.headers, body.decode("utf-8", "replace"))


async def _beginning(response: httpx2.Response, limit_bytes: int) -> bytes:
    """The body, or as much of its beginning as may be read."""
    body = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) >= limit_bytes:
                break
    return bytes(body[:limit_bytes])
