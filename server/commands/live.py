"""A conversation at the terminal: lines that are typed, and recordings between two presses of Enter.

Knows the keyboard and how a recording looks; no server.
"""

from __future__ import annotations

import contextlib
import select
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from rich.live import Live
from rich.text import Text

from server.commands import sound
from server.commands.terminal import Terminal, speaks_unicode

_METER_COLUMNS = 30


class Keyboard(Protocol):
    """Where lines come from."""

    def read_line(self, prompt: str) -> str | None:
        """The next line without its end; None when the input has ended."""

    def enter_pressed(self) -> bool:
        """Whether another line (or the end) has come since; never waits."""


class TerminalKeyboard:
    """This process's terminal, with line editing and history where Python has readline."""

    def __init__(self) -> None:
        self._ended = False
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  input() uses it once it is imported

    def read_line(self, prompt: str) -> str | None:
        if self._ended:
            return None
        try:
            return input(prompt)
        except EOFError:
            return None

    def enter_pressed(self) -> bool:
        ready, _, _ = select.select([sys.stdin], [], [], 0)
        if not ready:
            return False
        self._ended = sys.stdin.readline() == ""
        return True


class Recorder:
    """Reads lines and records from the microphone."""

    def __init__(self, terminal: Terminal, portaudio: Any | None = None, keyboard: Keyboard | None = None) -> None:
        self._terminal = terminal
        self._portaudio = portaudio
        self._keyboard = keyboard or TerminalKeyboard()

    def lines(self, prompt: str) -> Iterator[str]:
        """Typed lines until the input ends."""
        while (line := self._keyboard.read_line(prompt)) is not None:
            yield line
        self._terminal.err.print()

    def record(self) -> bytes:
        """Record until Enter, the end of input, or 30 seconds, drawing the level: WAV bytes. Raises `SoundError`."""
        stopped = self._keyboard.enter_pressed
        if not self._terminal.can_draw:
            self._terminal.note("Recording; Enter stops it.")
            return sound.record(stopped, lambda seconds, decibels: None, portaudio=self._portaudio)
        unicode = speaks_unicode(self._terminal.err)
        with Live(console=self._terminal.err, transient=True, auto_refresh=False) as live:

            def draw(seconds: float, decibels: float) -> None:
                live.update(level_meter(seconds, decibels, unicode=unicode), refresh=True)

            return sound.record(stopped, draw, portaudio=self._portaudio)


def level_meter(seconds: float, decibels: float, *, unicode: bool = True) -> Text:
    """One line: time, a bar from -60 dB to 0 dB, and a word when it is too loud."""
    filled = round((decibels - sound.SILENT_LEVEL_DB) / -sound.SILENT_LEVEL_DB * _METER_COLUMNS)
    full, empty, dot = ("█", "░", "●") if unicode else ("#", ".", "*")
    style = "red" if decibels > -1 else "green" if decibels > -40 else "yellow"
    meter = Text.assemble((f"{dot} ", "red"), f"{seconds:4.1f} s ")
    meter.append(full * filled, style=style)
    meter.append(empty * (_METER_COLUMNS - filled), style="dim")
    meter.append(f" {decibels:4.0f} dB{'  too loud' if decibels > -1 else ''}")
    meter.append("   Enter: stop")
    return meter
