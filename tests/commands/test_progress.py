"""Downloads as people see them."""

from __future__ import annotations

import io
import itertools

import pytest
from rich.console import Console

from server.commands.progress import PlainProgress, download_progress
from server.commands.terminal import Terminal

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pipe_gets_at_most_a_line_every_five_seconds() -> None:
    clock, lines = Clock(), []
    progress = PlainProgress(lambda line: lines.append((clock.now, line)), clock)
    progress.started("whisper", 120_000_000)
    for _ in range(120):
        clock.now += 0.25
        progress.advanced("whisper", 1_000_000)
    progress.finished("whisper")

    times = [time for time, _ in lines]
    assert all(later - earlier >= 5 for earlier, later in itertools.pairwise(times[:-1]))
    assert lines[0] == (0.0, "whisper: 120.0 MB")
    assert lines[1] == (5.0, "whisper: 17 % of 120.0 MB, 3.8 MB/s, 26 s left")
    assert lines[-1] == (30.0, "whisper: done in 30.0 s")
    assert len(lines) == 7


def test_bytes_that_were_there_before_do_not_count_as_speed() -> None:
    clock, lines = Clock(), []
    progress = PlainProgress(lines.append, clock)
    progress.started("m", 100_000_000)
    progress.advanced("m", 90_000_000)
    clock.now = 5.0
    progress.advanced("m", 5_000_000)
    assert lines[-1] == "m: 95 % of 100.0 MB, 1.0 MB/s, 5 s left"


def test_a_download_that_broke_is_not_called_done() -> None:
    lines: list[str] = []
    progress = PlainProgress(lines.append, Clock())
    progress.started("m", 10)
    progress.advanced("m", 5)
    progress.finished("m")
    assert lines == ["m: 0.0 MB"]


def test_messages_come_through_at_once() -> None:
    lines: list[str] = []
    PlainProgress(lines.append, Clock()).message("the hub does not answer")
    assert lines == ["the hub does not answer"]


def test_a_label_that_was_never_started_is_no_error() -> None:
    progress = PlainProgress(lambda line: None, Clock())
    progress.advanced("x", 5)
    progress.finished("x")


def screen(*, terminal: bool) -> Terminal:
    environment = {"TERM": "xterm"} if terminal else {}
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal, _environ=environment)
    return Terminal(out=console, err=console)


def test_a_terminal_gets_bars_with_label_size_and_speed() -> None:
    shown = screen(terminal=True)
    with download_progress(shown) as progress:
        progress.started("whisper [v1]", 2_000_000)
        progress.advanced("whisper [v1]", 3_000_000)
        progress.advanced("whisper [v1]", -3_000_000)
        progress.advanced("whisper [v1]", 2_000_000)
        progress.message("took [it] from the index")
        progress.finished("whisper [v1]")
        progress.advanced("nobody", 1)
        progress.finished("nobody")
    assert isinstance(shown.err.file, io.StringIO)
    output = shown.err.file.getvalue()
    assert "whisper [v1]" in output
    assert "2.0/2.0 MB" in output
    assert "took [it] from the index" in output


def test_a_pipe_gets_no_control_characters() -> None:
    shown = screen(terminal=False)
    with download_progress(shown) as progress:
        progress.started("m", 1_000)
        progress.advanced("m", 1_000)
        progress.finished("m")
    assert isinstance(shown.err.file, io.StringIO)
    assert "\x1b" not in shown.err.file.getvalue()
