"""Long work: quiet for two seconds, then a bar on a terminal or a line every few seconds."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from server.commands.terminal import Terminal
from server.commands.work_progress import MEGABYTES, MEMORIES, Unit, work_progress

pytestmark = pytest.mark.unit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def terminal(*, drawn: bool) -> tuple[Terminal, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=drawn, width=120, color_system=None, _environ={"TERM": "xterm"})
    return Terminal(out=console, err=console), stream


@pytest.mark.parametrize(("unit", "told"), [(MEMORIES, "300 of 1,000 memories, 100 memories/s"), (MEGABYTES, "0.0 of")])
def test_a_pipe_gets_a_line_once_it_takes_long(unit: Unit, told: str) -> None:
    clock, (where, stream) = Clock(), terminal(drawn=False)
    with work_progress(where, "Rebuilding", unit, monotonic=clock) as advance:
        clock.now += 1.9
        advance(190, 1000)
        assert stream.getvalue() == ""
        clock.now += 1.1
        advance(300, 1000)
        assert stream.getvalue().startswith("Rebuilding: ")
        assert told in stream.getvalue()
        clock.now += 4.9
        advance(800, 1000)
        assert stream.getvalue().count("\n") == 1
        clock.now += 0.1
        advance(1000, 1000)
        assert stream.getvalue().count("\n") == 2


def test_a_size_that_nobody_knows_is_told_as_far_as_it_is() -> None:
    clock, (where, stream) = Clock(), terminal(drawn=False)
    with work_progress(where, "Backing up", MEGABYTES, monotonic=clock) as advance:
        clock.now += 4
        advance(6_000_000, None)
    assert stream.getvalue() == "Backing up: 6.0 MB, 1.5 MB/s\n"


def test_slow_work_is_not_told_as_standing_still() -> None:
    clock, (where, stream) = Clock(), terminal(drawn=False)
    with work_progress(where, "Rebuilding", MEMORIES, monotonic=clock) as advance:
        clock.now += 8
        advance(4, 8)
    assert stream.getvalue() == "Rebuilding: 4 of 8 memories, 0.5 memories/s\n"


def test_a_terminal_gets_a_bar_with_its_speed() -> None:
    clock, (where, stream) = Clock(), terminal(drawn=True)
    with work_progress(where, "Rebuilding / 作り直し", MEMORIES, monotonic=clock) as advance:
        advance(0, 1000)
        assert stream.getvalue() == ""
        clock.now += 5
        advance(500, 1000)
    assert "Rebuilding / 作り直し" in stream.getvalue()
    assert "500 of 1,000 memories, 100 memories/s" in stream.getvalue()


def test_quick_work_draws_nothing() -> None:
    clock, (where, stream) = Clock(), terminal(drawn=True)
    with work_progress(where, "Rebuilding", MEMORIES, monotonic=clock) as advance:
        for done in range(10):
            advance(done, 10)
    assert stream.getvalue() == ""
