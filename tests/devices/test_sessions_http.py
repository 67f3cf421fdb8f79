"""A conversation is ended on request: by its owner or its device, once, and memory is told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from server.storage import sessions, tokens
from server.storage.database import Databases
from tests.devices.conftest import LiveServer, code

pytestmark = pytest.mark.integration


async def say(live: LiveServer, text: str, **headers: str) -> str:
    response = await live.client.post("/v1/turns", json={"text": text}, headers=headers)
    assert response.status_code == 200, response.text
    return str(response.json()["session_id"])


async def token_of(live: LiveServer, device_id: str) -> str:
    databases: Databases = live.app.state.service.journal._databases
    async with databases.server() as db:
        return await tokens.create_token(db, kind="device", device_id=device_id, now=datetime.now(UTC))


async def test_an_ended_conversation_is_closed_told_to_memory_and_followed_by_another(serve: Any) -> None:
    async with serve() as live:
        told: list[str] = []

        class Memory:
            async def session_ended(self, session_id: str) -> None:
                told.append(session_id)

        session_id = await say(live, "こんにちは")
        live.app.state.memory = Memory()
        first = await live.client.post(f"/v1/sessions/{session_id}/end")
        again = await live.client.post(f"/v1/sessions/{session_id}/end")
        live.app.state.memory = None
        assert (first.status_code, again.status_code) == (200, 200)
        assert first.json() == again.json()
        assert first.json()["session_id"] == session_id
        assert told == [session_id]
        async with live.app.state.service.journal._databases.world(write=False) as db:
            stored = await sessions.get_session(db, session_id)
        assert stored is not None
        assert stored.close_reason == "requested"
        assert stored.closed_at == datetime.fromisoformat(first.json()["closed_at"])
        assert await say(live, "またね") != session_id


@pytest.mark.parametrize("session_id", ["01J9ZQ4T7GM3C2V8X5N6B1K0RD", "x", "%F0%9F%98%80"])
async def test_no_such_conversation_is_404(serve: Any, session_id: str) -> None:
    async with serve() as live:
        assert code(await live.client.post(f"/v1/sessions/{session_id}/end")) == (404, "session_not_found")


async def test_a_device_ends_its_own_conversation_and_no_other(serve: Any) -> None:
    async with serve() as live:
        mine, other = await say(live, "hi"), await say(live, "hi", **{"Device-Id": "kitchen"})
        headers = {"Authorization": f"Bearer {await token_of(live, 'desk')}"}
        refused = await live.client.post(f"/v1/sessions/{other}/end", headers=headers)
        assert code(refused) == (404, "session_not_found")
        assert (await live.client.post(f"/v1/sessions/{mine}/end", headers=headers)).status_code == 200
        assert await say(live, "hi", **{"Device-Id": "kitchen"}) == other


async def test_without_a_token_nothing_is_ended(serve: Any) -> None:
    async with serve() as live:
        session_id = await say(live, "hi")
        refused = await live.client.post(f"/v1/sessions/{session_id}/end", headers={"Authorization": ""})
        assert code(refused) == (401, "token_missing")
        assert await say(live, "hi") == session_id
