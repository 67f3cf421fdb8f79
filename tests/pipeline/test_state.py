"""The table of states."""

from __future__ import annotations

from typing import get_args

import pytest

from server.events import TurnState
from server.pipeline.state import TRANSITIONS, StateMachine

pytestmark = pytest.mark.unit

STATES = get_args(TurnState)
# As the specification draws it, written out once more: a change of the table has to be meant.
LEGAL = {
    *(("idle", to) for to in ("listening", "speaking")),
    *(("listening", to) for to in ("thinking", "idle", "error")),
    *(("thinking", to) for to in ("speaking", "listening", "idle", "error")),
    *(("speaking", to) for to in ("listening", "idle", "error")),
    *(("error", to) for to in ("speaking", "listening", "idle")),
}


def test_every_state_is_in_the_table():
    assert set(TRANSITIONS) == set(STATES) == {"idle", "listening", "thinking", "speaking", "error"}


@pytest.mark.parametrize(("start", "to"), sorted(LEGAL))
def test_a_legal_move_is_made(start, to):
    machine = StateMachine(start)
    assert machine.move(to)
    assert (machine.state, machine.rejected_moves) == (to, 0)


def test_a_spoken_turn_walks_the_table():
    machine = StateMachine()
    assert [machine.move(state) for state in ("listening", "thinking", "speaking", "listening", "idle")] == [True] * 5


def test_an_announcement_may_begin_from_idle():
    machine = StateMachine()
    assert machine.move("speaking")
    assert machine.move("idle")


@pytest.mark.parametrize(
    ("start", "to"),
    [(start, to) for start in STATES for to in STATES if start != to and (start, to) not in LEGAL],
)
def test_an_illegal_move_is_refused_and_counted(start, to):
    machine = StateMachine(start)
    assert not machine.move(to)
    assert machine.state == start
    assert machine.rejected_moves == 1


@pytest.mark.parametrize("rest", ["idle", "listening"])
def test_every_state_can_come_back_to_rest(rest):
    for state in TRANSITIONS:
        assert state == rest or rest in TRANSITIONS[state]


def test_staying_is_no_move():
    machine = StateMachine("speaking")
    assert not machine.move("speaking")
    assert machine.rejected_moves == 0
