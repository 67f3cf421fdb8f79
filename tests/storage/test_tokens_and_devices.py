"""Tokens are stored as hashes and end when revoked; devices come into being when first seen."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from server.errors import StorageError
from server.storage.database import Databases
from server.storage.devices import ensure_device, get_device
from server.storage.tokens import create_token, find_token, has_owner_token, revoke_owner_tokens
from tests.storage.house import NOW

pytestmark = pytest.mark.integration


async def test_owner_token_is_found_by_its_text_only(databases: Databases) -> None:
    async with databases.server() as db:
        assert not await has_owner_token(db)
        token = await create_token(db, kind="owner", now=NOW)
    async with databases.server(write=False) as db:
        found = await find_token(db, token)
        assert found is not None
        assert (found.kind, found.device_id, found.created_at) == ("owner", None, NOW)
        assert await has_owner_token(db)
        for wrong in (token[:-1], token + "A", token.lower() + "x", "", "合言葉", "\ud800"):
            assert await find_token(db, wrong) is None


async def test_token_text_is_nowhere_on_disk(databases: Databases, tmp_path: Path) -> None:
    async with databases.server() as db:
        token = await create_token(db, kind="owner", now=NOW)
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert token.encode() not in path.read_bytes()


async def test_tokens_have_256_bits_and_differ(databases: Databases) -> None:
    async with databases.server() as db:
        made = {await create_token(db, kind="owner", now=NOW) for _ in range(20)}
    assert len(made) == 20
    assert all(len(token) == 43 for token in made)


async def test_device_token_belongs_to_its_device(databases: Databases) -> None:
    async with databases.server() as db:
        await ensure_device(db, "desk", now=NOW)
        token = await create_token(db, kind="device", device_id="desk", now=NOW)
        found = await find_token(db, token)
    assert found is not None
    assert (found.kind, found.device_id) == ("device", "desk")


async def test_ending_the_owners_tokens_leaves_those_of_devices(databases: Databases) -> None:
    async with databases.server() as db:
        await ensure_device(db, "desk", now=NOW)
        owners = [await create_token(db, kind="owner", now=NOW) for _ in range(2)]
        device = await create_token(db, kind="device", device_id="desk", now=NOW)
        assert await revoke_owner_tokens(db, now=NOW) == 2
        assert [await find_token(db, token) for token in owners] == [None, None]
        assert not await has_owner_token(db)
        assert await find_token(db, device) is not None
        assert await revoke_owner_tokens(db, now=NOW) == 0


async def test_device_token_for_no_device(databases: Databases) -> None:
    with pytest.raises(ValueError, match="device_id"):
        async with databases.server() as db:
            await create_token(db, kind="device", now=NOW)
    with pytest.raises(StorageError, match="FOREIGN KEY"):
        async with databases.server() as db:
            await create_token(db, kind="device", device_id="nobody", now=NOW)


async def test_revoked_token_is_not_found(databases: Databases) -> None:
    async with databases.server() as db:
        token = await create_token(db, kind="owner", now=NOW)
        assert await find_token(db, token) is not None
        assert await revoke_owner_tokens(db, now=NOW) == 1
    async with databases.server() as db:
        assert await find_token(db, token) is None
        assert not await has_owner_token(db)


async def test_device_is_made_once_and_then_seen(databases: Databases) -> None:
    later = NOW + dt.timedelta(hours=1)
    async with databases.server() as db:
        await ensure_device(db, "desk", now=NOW)
    async with databases.server() as db:
        device = await ensure_device(db, "desk", now=later, kind="robot", name="机のスタックチャン")
        await ensure_device(db, "phone", now=later, kind="web", name="電話 📱")
    assert (device.created_at, device.last_seen_at, device.kind, device.name) == (NOW, later, "robot", "desk")
    async with databases.server(write=False) as db:
        assert [(await get_device(db, one)).name for one in ("desk", "phone")] == ["desk", "電話 📱"]
        assert await get_device(db, "nobody") is None


async def test_unknown_kind_of_device_is_refused(databases: Databases) -> None:
    with pytest.raises(StorageError, match="ck_devices_kind"):
        async with databases.server() as db:
            await ensure_device(db, "desk", now=NOW, kind="toaster")  # type: ignore[arg-type]
