"""One WebSocket of a device: what is said first arrives first, whichever way it goes."""

from __future__ import annotations

import asyncio
import json

import pytest

from server.devices.connection import Connection
from server.devices.native import NativeCodec
from server.devices.wire import CloseCode, Frame, SpeechFrame, SpeechStart, State

pytestmark = pytest.mark.unit


class Socket:
    """Takes frames, each after a few turns of the loop; `broken`: takes none."""

    def __init__(self) -> None:
        self.got: list[Frame] = []
        self.broken = False

    async def send(self, frame: Frame) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        if self.broken:
            raise ConnectionError
        self.got.append(frame)

    async def close(self, code: int, reason: str) -> None:
        self.got.append(str(code))


def kinds(frames: list[Frame]) -> list[str]:
    return ["sound" if isinstance(frame, bytes) else json.loads(frame).get("value", "speech") for frame in frames]


@pytest.mark.parametrize("turns_of_the_loop", range(6))
async def test_the_voice_never_overtakes_a_state_nor_a_state_the_voice(turns_of_the_loop: int) -> None:
    socket = Socket()
    connection = Connection(socket, NativeCodec())
    connection.post(State("idle"))
    connection.post(State("speaking"))
    for _ in range(turns_of_the_loop):
        await asyncio.sleep(0)
    assert await connection.send(SpeechStart(7))
    assert await connection.send(SpeechFrame(b"\0\0"))
    connection.post(State("idle"))
    await connection.close(CloseCode.GOING_AWAY)
    assert kinds(socket.got[:5]) == ["idle", "speaking", "speech", "sound", "idle"]
    assert socket.got[5:] == ["1001"]


async def test_of_a_device_that_is_gone_the_sender_is_told_and_nothing_waits() -> None:
    socket = Socket()
    connection = Connection(socket, NativeCodec())
    socket.broken = True
    connection.post(State("speaking"))
    assert not await connection.send(SpeechStart(7))
    assert not await connection.send(SpeechStart(8))
    await connection.close(CloseCode.GOING_AWAY)
    assert socket.got == []
