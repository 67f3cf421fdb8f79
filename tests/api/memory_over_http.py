"""The owner's memory over HTTP: real SQLite, the real local index, vectors made of words; nothing else of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from server.api.memory import memory_router
from server.api.problems import install_problem_handlers
from server.errors import AuthError
from server.memory.owner import MemoryOwner
from server.storage.backup import make_archive
from tests.memory.making import PERSONA, TOKYO, House, WordVectors, house
from tests.memory.said_and_noted import summaries

CAT, CORRECTED = "猫のコムギが家に来た", "富士通のパソコン、違う、二万五千円だった"
EVERY = (
    ("GET", "/v1/memory/status"),
    ("GET", "/v1/memories"),
    ("GET", "/v1/memories/mem_1"),
    ("PATCH", "/v1/memories/mem_1"),
    ("DELETE", "/v1/memories/mem_1"),
    ("GET", "/v1/memories/mem_1/forgetting"),
    ("GET", "/v1/memory/export"),
    ("POST", "/v1/memory/import"),
    ("POST", "/v1/memory/rebuild"),
    ("GET", "/v1/memory/rebuild"),
    ("POST", "/v1/memory/retry"),
    ("GET", "/v1/memory/audit"),
    ("GET", "/v1/backup"),
)


@dataclass
class Live:
    home: House
    client: httpx2.AsyncClient
    owner: MemoryOwner
    app: FastAPI

    async def get(self, path: str, **params: Any) -> Any:
        response = await self.client.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    async def listed(self, **params: Any) -> list[str]:
        return [one["summary"] for one in (await self.get("/v1/memories", **params))["memories"]]

    async def id_of(self, words: str) -> str:
        return next(one.memory_id for one in await self.home.memories() if words in one.summary)


@asynccontextmanager
async def live(folder: Path, **owner_options: Any) -> AsyncIterator[Live]:
    async with house(folder, summaries) as home:
        owner = MemoryOwner(
            home.databases,
            home.keeper,
            home.indexer,
            home.recall,
            WordVectors.fingerprint,
            persona_id=PERSONA,
            clock=home.clock,
            zone=TOKYO,
            index_folder=folder / "worlds" / "home" / "index",
            wake=home.worker.wake,
            **owner_options,
        )

        async def owner_only(authorization: str | None) -> None:
            if authorization != "Bearer owner":
                raise AuthError("no")

        app = FastAPI()
        install_problem_handlers(app)
        app.include_router(
            memory_router(
                lambda: owner, owner_only, backup=lambda: make_archive(folder, now=home.clock()), version="1.0"
            )
        )
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"Authorization": "Bearer owner"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://house", headers=headers) as client:
            try:
                yield Live(home, client, owner, app)
            finally:
                await owner.close()
