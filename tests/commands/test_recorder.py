"""A recording as it is drawn."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from server.commands.live import Recorder, level_meter
from server.commands.terminal import Terminal
from tests.commands.fake_portaudio import FakePortAudio

pytestmark = pytest.mark.unit

ONE_SECOND = b"\x00\x40" * 16_000


class PatientKeyboard:
    """Enter comes after three blocks of sound."""

    def __init__(self) -> None:
        self._asked = 0

    def read_line(self, prompt: str) -> str | None:
        return None

    def enter_pressed(self) -> bool:
        self._asked += 1
        return self._asked > 3


def test_the_meter_is_drawn_on_a_terminal() -> None:
    screen = Console(file=io.StringIO(), width=100, force_terminal=True, _environ={"TERM": "xterm"})
    microphone = FakePortAudio(microphone="Mic", heard=ONE_SECOND)
    Recorder(Terminal(screen, screen), microphone, PatientKeyboard()).record()
    assert isinstance(screen.file, io.StringIO)
    assert "-6 dB" in screen.file.getvalue()


@pytest.mark.parametrize(("decibels", "bar"), [(-60, "." * 30), (-30, "#" * 15 + "." * 15), (0, "#" * 30)])
def test_the_meter_goes_from_silence_to_full(decibels: float, bar: str) -> None:
    assert f" {bar} " in level_meter(1.5, decibels, unicode=False).plain


def test_the_meter_warns_when_it_is_too_loud() -> None:
    assert "too loud" in level_meter(0, -0.5).plain
    assert "too loud" not in level_meter(0, -3).plain
