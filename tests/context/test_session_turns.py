"""Which turns enter the prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.context.session_turns import window_start

pytestmark = pytest.mark.unit


def test_everything_fits():
    assert window_start([10] * 6, budget_tokens=100, max_turns=12) == 0


def test_the_start_moves_in_steps_so_that_the_prompt_only_grows_between_them():
    starts = [window_start([10] * count, budget_tokens=10_000, max_turns=8, step=4) for count in range(21)]
    assert starts == [0] * 9 + [4] * 4 + [8] * 4 + [12] * 4


def test_steps_are_counted_from_the_start_of_the_session_not_of_what_was_loaded():
    for count in range(30):
        whole = window_start([10] * count, budget_tokens=10_000, max_turns=8, step=4)
        loaded = min(count, 9)
        part = window_start([10] * loaded, budget_tokens=10_000, max_turns=8, step=4, earlier=count - loaded)
        assert part + count - loaded == whole


def test_the_budget_counts_as_well_as_the_number():
    assert window_start([100] * 8, budget_tokens=400, max_turns=99, step=4) == 4


def test_turns_too_long_for_a_whole_step_still_give_the_latest_ones():
    assert window_start([500] * 9, budget_tokens=1100, max_turns=12, step=4) == 8
    assert window_start([500] * 8, budget_tokens=1100, max_turns=12, step=4) == 6
    assert window_start([5000], budget_tokens=1000, max_turns=12) == 1


def test_no_turns_and_no_budget():
    assert window_start([], budget_tokens=100, max_turns=12) == 0
    assert window_start([5, 5], budget_tokens=0, max_turns=12) == 2
    assert window_start([5, 5], budget_tokens=100, max_turns=0) == 2


def test_a_step_below_one_is_refused():
    with pytest.raises(ValueError, match="step"):
        window_start([1], budget_tokens=1, max_turns=1, step=0)


@given(
    st.lists(st.integers(0, 300), max_size=40),
    st.integers(0, 2000),
    st.integers(0, 30),
    st.integers(1, 12),
    st.integers(0, 50),
)
def test_what_is_chosen_always_fits(costs, budget, most, step, earlier):
    start = window_start(costs, budget_tokens=budget, max_turns=most, step=step, earlier=earlier)
    assert 0 <= start <= len(costs)
    assert sum(costs[start:]) <= budget
    assert len(costs) - start <= most
