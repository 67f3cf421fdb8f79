"""The WebSocket of the server: messages of a device are read without stopping after each, and never without end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from server.commands.web_server import DeviceSocket, web_config

pytestmark = pytest.mark.unit


class Transport:
    """Notes when it is told to read and when not to."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")


def socket() -> tuple[DeviceSocket, Transport]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nothing is served here")

    config = web_config(app)
    config.load()
    made: Any = DeviceSocket(config, ServerState(), {})
    made.transport = Transport()
    return made, made.transport


async def take(device: DeviceSocket, count: int) -> list[Any]:
    return [await device.receive() for _ in range(count)]


async def test_a_message_that_is_read_at_once_stops_no_reading() -> None:
    device, transport = socket()
    for number in range(50):
        device.handle_bytes(Frame(Opcode.BINARY, bytes([number])))
        assert (await take(device, 1))[0]["bytes"] == bytes([number])
    assert transport.told == []


async def test_of_a_device_that_nobody_hears_little_is_taken() -> None:
    device, transport = socket()
    for number in range(8):
        assert transport.told == []
        device.handle_text(Frame(Opcode.TEXT, str(number).encode()))
    assert transport.told == ["pause"]
    device.handle_text(Frame(Opcode.TEXT, b"8"))  # it was in the same read
    assert transport.told == ["pause"]
    assert [message["text"] for message in await take(device, 8)] == list("01234567")
    assert transport.told == ["pause"]
    assert (await take(device, 1))[0]["text"] == "8"
    assert transport.told == ["pause", "resume"]
    device.handle_bytes(Frame(Opcode.BINARY, b"again"))
    assert await asyncio.wait_for(device.receive(), 1) == {"type": "websocket.receive", "bytes": b"again"}
