"""A database that was lost beside its log is refused, because opening it would throw the newest words away."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from server.errors import StorageError
from server.storage.channels import ensure_channel
from server.storage.database import Databases

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("how", ["empty", "missing"])
async def test_a_lost_database_beside_a_full_log_is_refused(tmp_path: Path, how: str) -> None:
    databases = await Databases.open(tmp_path, "home")
    async with databases.world() as db:
        await ensure_channel(db, "stackchan:desk", kind="stackchan", now=datetime(2026, 11, 30, tzinfo=UTC))
    path = tmp_path / "worlds" / "home" / "session.sqlite"
    log = path.with_name("session.sqlite-wal")
    kept = tmp_path / "kept"
    shutil.copy(log, kept)
    await databases.close()
    shutil.copy(kept, log)
    size = log.stat().st_size
    assert size > 0
    if how == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    with pytest.raises(StorageError, match="beside it is not"):
        await Databases.open(tmp_path, "home")
    assert log.stat().st_size == size, "nothing was thrown away"
