"""The microphone of the simulated robot, in virtual time: one clock, however often it is asked to go on."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from server.commands.simulated_robot import SimulatedRobot
from server.devices.wire import FromDevice
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit


class SlowRobot(SimulatedRobot):
    """Each frame takes 3 ms to be sent. `sent`: when."""

    sent: list[float]

    async def send(self, message: FromDevice) -> None:
        self.sent.append(self.monotonic())
        await asyncio.sleep(0.003)


def sent_by(pause_seconds: float) -> list[float]:
    async def play() -> list[float]:
        robot = SlowRobot("http://robot", "token", "desk", monotonic=asyncio.get_running_loop().time)
        robot.sent = []
        await asyncio.sleep(5.0)
        await robot.say(np.zeros(3_200, np.float32))
        await asyncio.sleep(pause_seconds)
        frames = 0

        def five() -> bool:
            nonlocal frames
            frames += 1
            return frames > 5

        assert await robot.be_quiet_until(five, 10)
        return [round(at - 5.0, 3) for at in robot.sent]

    return in_virtual_time(play())


def test_what_follows_at_once_comes_a_frame_time_after_what_was_before() -> None:
    assert sent_by(0.0) == pytest.approx([0.02 * number for number in range(1, 16)], abs=1e-6)


def test_after_a_pause_the_clock_begins_anew() -> None:
    times = sent_by(1.0)
    assert times[10] == pytest.approx(0.2 + 0.003 + 1.0 + 0.02, abs=2e-3)
    assert np.diff(times[10:]) == pytest.approx([0.02] * 4, abs=1e-6)
