"""Which device speaks, as the journal keeps it: looked up in every turn, written only when there is something new."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from server.config_sections import SessionSettings
from server.errors import AuthError
from server.persona import default_persona_path, load_persona
from server.pipeline.journal import TurnJournal
from server.pipeline.request import TurnRequest
from server.storage.database import Databases
from server.storage.devices import get_device
from server.storage.server_tables import DeviceRow

pytestmark = pytest.mark.integration

NOON = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


@pytest.fixture
async def databases(tmp_path: Path) -> AsyncIterator[Databases]:
    async with await Databases.open(tmp_path, "home") as opened:
        yield opened


async def say(databases: Databases, turn_id: int, now: datetime) -> datetime:
    """A turn of the device begins; when it was seen last then."""
    journal = TurnJournal(databases, SessionSettings(), load_persona(default_persona_path()))
    await journal.begin(turn_id, TurnRequest("desk", text="やあ"), now, status="running")
    async with databases.server(write=False) as db:
        device = await get_device(db, "desk")
    assert device is not None
    return device.last_seen_at


async def test_when_a_device_was_seen_is_kept_to_the_minute(databases: Databases) -> None:
    assert await say(databases, 1, NOON) == NOON
    assert await say(databases, 2, NOON + timedelta(seconds=59)) == NOON
    later = NOON + timedelta(seconds=60)
    assert await say(databases, 3, later) == later


async def test_a_clock_that_was_put_back_is_followed(databases: Databases) -> None:
    await say(databases, 1, NOON + timedelta(days=1))
    assert await say(databases, 2, NOON) == NOON


async def test_a_device_seen_a_moment_ago_is_shut_out_at_once(databases: Databases) -> None:
    await say(databases, 1, NOON)
    async with databases.server() as db:
        device = await db.get_one(DeviceRow, "desk")
        device.revoked_at = NOON
        db.add(device)
    with pytest.raises(AuthError) as refused:
        await say(databases, 2, NOON + timedelta(seconds=1))
    assert refused.value.code == "device_revoked"
