"""The OpenAI client over our own connections: it sends only what the settings name.

Knows no request and classifies no failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx2

from server.engines.http_client import open_client
from server.engines.llm.presets import Endpoint

_NOT_SENT = (
    *("OpenAI-Organization", "OpenAI-Project"),
    *("X-Stainless-Lang", "X-Stainless-Package-Version", "X-Stainless-OS", "X-Stainless-Arch"),
    *("X-Stainless-Runtime", "X-Stainless-Runtime-Version", "X-Stainless-Async"),
)


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

    http = open_client(endpoint, timeout)
    # Only what the settings name: the client would add keys and accounts that the environment holds for another
    # provider, and tell what machine this is.
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
