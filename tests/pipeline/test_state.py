"""The table of states."""

from __future__ import annotations

import pytest

from server.pipeline.state import TRANSITIONS, StateMachine

pytestmark = pytest.mark.unit


def test_a_spoken_turn_walks_the_table():
    machine = StateMachine()
    assert [machine.move(state) for state in ("listening", "thinking", "speaking", "listening", "idle")] == [True] * 5


def test_an_announcement_may_begin_from_idle():
    machine = StateMachine()
    assert machine.move("speaking")
    assert machine.move("idle")


@pytest.mark.parametrize(
    ("start", "to"),
    [
        ("idle", "thinking"),
        ("idle", "error"),
        ("listening", "speaking"),
        ("speaking", "thinking"),
        ("error", "listening"),
    ],
)
def test_an_illegal_move_is_refused_and_counted(start, to):
    machine = StateMachine(start)
    assert not machine.move(to)
    assert machine.state == start
    assert machine.rejected_moves == 1


def test_every_state_can_come_back_to_idle():
    for state in TRANSITIONS:
        assert state == "idle" or "idle" in TRANSITIONS[state]


def test_staying_is_no_move():
    machine = StateMachine("speaking")
    assert not machine.move("speaking")
    assert machine.rejected_moves == 0
