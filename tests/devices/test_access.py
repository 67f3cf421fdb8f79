"""The tokens of one boot, before and after the database is open."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from server.devices.access import Access
from server.devices.auth import Caller
from server.errors import AuthError, StackChanError
from server.storage import devices, tokens
from server.storage.database import Databases

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 30, 6, 20, tzinfo=UTC)
BY_HAND = "owner-token-by-hand"


async def refusal(access: Access, token: str | None) -> str:
    """The code with which `owner_only` refuses while no database is open; empty when it does not."""
    try:
        await access.owner_only(f"Bearer {token}" if token else None, None, None)
    except StackChanError as error:
        return error.code
    return ""


async def test_an_owners_token_is_generated_once(tmp_path: Path) -> None:
    databases = await Databases.open(tmp_path, "home")
    try:
        first, second = Access(None), Access(None)
        opened = await first.open(databases, lambda: NOW)
        await second.open(databases, lambda: NOW)
        assert first.new_owner_token is not None
        assert second.new_owner_token is None
        assert await opened.caller(f"Bearer {first.new_owner_token}") == Caller(None)
        assert await opened.caller(f"Bearer {first.boot_token}") == Caller(None)
        with pytest.raises(AuthError, match="not known"):
            await opened.caller(f"Bearer {second.boot_token}")
    finally:
        await databases.close()


async def test_a_token_set_by_hand_replaces_the_stored_owners_and_no_devices(tmp_path: Path) -> None:
    databases = await Databases.open(tmp_path, "home")
    try:
        generated = Access(None)
        await generated.open(databases, lambda: NOW)
        async with databases.server() as db:
            await devices.ensure_device(db, "desk", now=NOW)
            token = await tokens.create_token(db, kind="device", now=NOW, device_id="desk")
        access = Access(BY_HAND)
        opened = await access.open(databases, lambda: NOW)
        assert access.new_owner_token is None
        await access.owner_only(f"Bearer {BY_HAND}", opened, None)
        await access.owner_only(f"Bearer {access.boot_token}", opened, None)
        with pytest.raises(AuthError) as stored:
            await access.owner_only(f"Bearer {generated.new_owner_token}", opened, None)
        with pytest.raises(AuthError) as of_device:
            await access.owner_only(f"Bearer {token}", opened, None)
        assert (stored.value.code, of_device.value.code) == ("token_invalid", "device_forbidden")
    finally:
        await databases.close()


async def test_before_the_database_is_open_only_this_boots_secrets_are_known() -> None:
    stored, by_hand = Access(None), Access(BY_HAND)
    assert await refusal(stored, stored.boot_token) == await refusal(by_hand, BY_HAND) == ""
    assert await refusal(by_hand, by_hand.boot_token) == ""
    assert await refusal(stored, None) == await refusal(by_hand, None) == "token_missing"
    assert await refusal(by_hand, "another-token") == "token_invalid", "no database could make it known"
    assert await refusal(stored, "another-token") == "starting", "perhaps the stored one: asked again later"
