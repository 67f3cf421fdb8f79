"""A whole server on a real socket of this machine, with scripted engines and real storage."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import uvicorn

from server.app import create_app
from server.config import load_settings
from server.engines.base import Engines
from server.persona import default_persona_path, load_persona
from tests.fakes.engines import fake_engines

TOKEN = "owner-token-for-tests"


@dataclass
class LiveServer:
    """`client` sends the owner's token and a device id."""

    app: Any
    url: str
    client: httpx2.AsyncClient
    engines: Engines


@pytest.fixture
def serve(tmp_path) -> Callable[..., Any]:
    """`async with serve(llm=FakeLlm(…)) as live:`; the same data folder each time within a test."""

    @asynccontextmanager
    async def start(
        *, env: dict[str, str] | None = None, wait: bool = True, **engines: Any
    ) -> AsyncIterator[LiveServer]:
        settings = load_settings(
            {"STACKCHAN_DATA_DIR": str(tmp_path / "data"), "STACKCHAN_TOKEN": TOKEN, **(env or {})}
        )
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        fakes = fake_engines(**engines)
        app = create_app(settings, load_persona(default_persona_path()), fakes, url=url)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        headers = {"Authorization": f"Bearer {TOKEN}", "Device-Id": "desk"}
        try:
            # Without TLS nothing is verified; loading the certificates would take longer than most tests.
            async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=10, verify=False) as client:
                if wait:
                    await asyncio.wait_for(app.state.readiness.wait(), 60)
                yield LiveServer(app, url, client, fakes)
        finally:
            server.should_exit = True
            await task
            listener.close()

    return start


def code(response: httpx2.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body["error"]) == {"code", "message", "retryable", "hint"}
    return response.status_code, body["error"]["code"]


async def eventually(condition: Callable[[], Any]) -> None:
    """Return when `condition()` is true; the test fails when it never is."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


async def first_turn(live: LiveServer) -> int:
    """The id of the turn that has just begun; ids of a fresh server begin low."""
    for _ in range(200):
        for turn_id in range(1, 5):
            if (await live.client.get(f"/v1/turns/{turn_id}")).status_code == 200:
                return turn_id
        await asyncio.sleep(0.01)
    raise AssertionError("no turn began")
