"""A network that takes what is sent and brings nothing to the device: the voice waits until something comes of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.devices.test_voice import Device, say, with_device

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("back", ["a word", "a frame", "a new connection"])
def test_from_whom_nothing_comes_any_more_gets_nothing_more_until_something_does(back: str) -> None:
    async def play(device: Device) -> tuple[float, int, float]:
        voice = device.voice.begin()
        say(voice, 20.0)
        for ms in (250, 750):
            await asyncio.sleep(0.5)
            device.voice.acknowledge(7, ms)
        await asyncio.sleep(9.0)  # its network takes everything, and nothing arrives
        sent, played = len(device.frames()), voice.played_ms()
        if back == "a word":
            device.voice.acknowledge(7, 800)
        elif back == "a frame":
            device.voice.is_there()
        else:
            device.voice.away(True)
            device.voice.away(False)
        await asyncio.sleep(1.0)
        return played, sent, len(device.frames())

    _, (played, sent, after) = with_device(play)
    assert sent * 0.06 == pytest.approx(1.0 + 2.0 + 0.3, abs=0.13)
    assert played == pytest.approx(750 + 2000, abs=1)
    assert (after - sent) * 0.06 > 0.9


@pytest.mark.parametrize("pause", [1.0, 5.0])
def test_a_voice_that_pauses_longer_is_no_network_that_is_lost(pause: float) -> None:
    async def play(device: Device) -> None:
        voice = device.voice.begin()
        say(voice, 0.6)
        await asyncio.sleep(0.6)
        device.voice.acknowledge(7, 600)
        await asyncio.sleep(pause)
        say(voice, 1.2)
        await asyncio.sleep(1.3)

    device, _ = with_device(play)
    assert len(device.frames()) == 30
