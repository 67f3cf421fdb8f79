"""Real SQLite files in a temporary folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from server.storage.database import Databases


@pytest.fixture
async def databases(tmp_path: Path) -> AsyncIterator[Databases]:
    async with await Databases.open(tmp_path / "data", "home") as opened:
        yield opened
