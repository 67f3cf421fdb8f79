"""One index of each kind, open, in a folder of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from server.memory.index.base import MemoryIndex
from tests.memory.index.indexes import KINDS, MODEL, opened


@pytest.fixture(params=KINDS)
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryIndex]:
    if request.param != "server":
        async with opened(request.param, tmp_path / "index") as index:
            yield index
        return
    from qdrant_client import AsyncQdrantClient

    client = AsyncQdrantClient(":memory:")
    async with opened("server", tmp_path, MODEL, client) as index:
        yield index
    await client.close()
