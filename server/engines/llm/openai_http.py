"""The connections to an endpoint, and what is read from it beside answers: refusals and the list of models.

Nothing is read without a bound, in bytes after decompression and in time: an endpoint that goes wrong must cost
neither memory nor the start. Knows no request and classifies no failure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import httpx2

from server.engines.llm.presets import Endpoint

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
_NOT_SENT = (
    *("OpenAI-Organization", "OpenAI-Project"),
    *("X-Stainless-Lang", "X-Stainless-Package-Version", "X-Stainless-OS", "X-Stainless-Arch"),
    *("X-Stainless-Runtime", "X-Stainless-Runtime-Version", "X-Stainless-Async"),
)


class EndpointRefusal(Exception):
    """An answer whose status is not 2xx. `text`: the beginning of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.text = text


@dataclass(frozen=True, slots=True)
class Connections:
    http: httpx2.AsyncClient
    client: Any
    """The `openai.AsyncOpenAI` over `http`."""


def connect(endpoint: Endpoint, timeout: httpx2.Timeout) -> Connections:
    """The clients; slow to import and to read certificates, so not on the event loop.

    Whatever is asked through them raises `EndpointRefusal` for a status that is not 2xx.
    """
    import openai

    http = httpx2.AsyncClient(
        timeout=timeout,
        limits=httpx2.Limits(keepalive_expiry=_KEPT_SECONDS),
        trust_env=not endpoint.loopback,
        follow_redirects=False,
        # Here, before the client reads the body without a bound.
        event_hooks={"response": [_raise_refusal]},
    )
    # Only what the settings name: the client would add keys and accounts that the environment holds for another
    # provider, and tell what machine this is. A redirect would carry what was said to a place nobody named.
    nothing: Any = openai.omit
    client = openai.AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key="unused",  # the header comes from `headers_for`
        max_retries=0,
        default_headers=dict.fromkeys(_NOT_SENT, nothing),
        http_client=http,
    )
    client.admin_api_key = None
    return Connections(http, client)


def headers_for(endpoint: Endpoint) -> dict[str, Any]:
    """For every request of the client: it insists on a key unless its header is left out by name."""
    import openai

    return {"Authorization": openai.omit, **endpoint.headers()}


async def listed_models(http: httpx2.AsyncClient, endpoint: Endpoint) -> list[str] | None:
    """The names in the endpoint's list of models, those that can be a name; None when it sends no such list.

    Raises `EndpointRefusal`, `TimeoutError` and what httpx2 raises.
    """
    async with asyncio.timeout(_LIST_SECONDS):
        async with http.stream("GET", f"{endpoint.base_url}/models", headers=endpoint.headers()) as response:
            body = await _beginning(response, _LIST_BYTES)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    listed = value.get("data", 0) if isinstance(value, dict) else 0
    if listed is None:  # how Ollama says that it has none
        return []
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
