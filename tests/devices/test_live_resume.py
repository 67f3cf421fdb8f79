"""A device that comes and goes: one waits for it, as long as it may, and nothing is left when the server stops."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection

from server.devices.wire import SpeechStart
from tests.devices.conftest import eventually
from tests.devices.live_robots import HELLO, ask, live_server, raw, robot, scripted, tone

pytestmark = pytest.mark.integration


def waiting() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("away-")]


async def test_however_often_a_device_goes_it_is_awaited_once_and_not_after_the_end(tmp_path: Path) -> None:
    async with scripted(tmp_path) as live:
        devices = live.app.state.live.devices
        desk = robot(live)
        await desk.connect()
        await desk.listen("auto")
        await ask(desk)
        for _ in range(3):
            await desk.disconnect(rudely=True)
            await eventually(lambda: waiting() == ["away-desk"])
            await desk.connect()
            assert waiting() == []
            assert devices.connected_device("desk") is not None
        await desk.disconnect(rudely=True)
        await eventually(lambda: waiting() == ["away-desk"])
        assert len(desk.messages(SpeechStart)) == 1
        assert devices.connected_device("desk") is None
    assert waiting() == []


async def test_whoever_was_sent_the_end_of_a_turn_and_never_got_it_is_told_again(tmp_path: Path) -> None:
    """Its network takes what is sent to it, and nothing arrives."""
    async with live_server(tmp_path) as live, raw(live.url) as gone:
        session_id = await words_spoken(gone)
        await eventually(lambda: not live.app.state.live.devices._devices["raw"].conversation.in_turn)
        async with raw(live.url) as back:
            await back.send(json.dumps({**HELLO, "session_id": session_id}))
            told = [json.loads(await back.recv()) for _ in range(3)]
            assert [message["type"] for message in told] == ["hello", "state", "turn"]
            assert (told[0]["session_id"], told[2]["outcome"]) == (session_id, "ok")
            await back.send(json.dumps({"type": "ping"}))  # it has come
            assert json.loads(await back.recv())["type"] == "pong"
            async with raw(live.url) as again:
                await again.send(json.dumps({**HELLO, "session_id": session_id}))
                await again.send(json.dumps({"type": "ping"}))
                types = [json.loads(await again.recv())["type"] for _ in range(3)]
                assert types == ["hello", "state", "pong"]


async def words_spoken(connection: ClientConnection) -> str:
    """Say something, and read nothing any more once it is answered: the conversation."""
    await connection.send(json.dumps(HELLO))
    hello = json.loads(await connection.recv())
    await connection.send(json.dumps({"type": "listen", "state": "start", "mode": "manual"}))
    await connection.send((tone(0.1) * 32767).astype("<i2").tobytes())
    await connection.send(json.dumps({"type": "listen", "state": "stop"}))
    while isinstance(frame := await connection.recv(), str):
        assert json.loads(frame)["type"] != "turn"
    return str(hello["session_id"])


async def test_who_goes_between_turns_is_not_awaited(tmp_path: Path) -> None:
    async with scripted(tmp_path) as live:
        async with robot(live):
            pass
        await eventually(lambda: not live.app.state.live.devices._devices)
        assert waiting() == []
