"""A device that comes and goes: one waits for it, as long as it may, and nothing is left when the server stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from server.devices.wire import SpeechStart
from tests.devices.conftest import eventually
from tests.devices.live_robots import ask, robot, scripted

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


async def test_who_goes_between_turns_is_not_awaited(tmp_path: Path) -> None:
    async with scripted(tmp_path) as live:
        async with robot(live):
            pass
        await eventually(lambda: not live.app.state.live.devices._devices)
        assert waiting() == []
