"""The stages that a turn begins with: what was waited for is told apart from what was worked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from server.pipeline.trace import TurnTrace

pytestmark = pytest.mark.unit


def clock(*seconds: float) -> Callable[[], float]:
    times = iter(seconds)
    return lambda: next(times)


def spans(trace: TurnTrace) -> list[tuple[str, float, float | None]]:
    return [(span.name, span.start_ms, span.end_ms) for span in trace.spans]


def test_the_silence_that_was_waited_for_is_no_work() -> None:
    # Noticed 60 ms after the end of the speech, certain after 692, taken in after 995.
    trace = TurnTrace(clock(10.06, 10.692, 10.995, 12.0), received_seconds_ago=0.06)
    trace.mark("endpoint")
    trace.taken_in()
    assert spans(trace) == [("silence", 0.0, 692.0), ("receive", 692.0, 995.0)]
    assert trace.latency_ms() == {"silence": 692, "receive": 303, "total": 2000}


@pytest.mark.parametrize("by_button", [True, False])
def test_what_came_in_whole_waited_for_nothing(by_button: bool) -> None:
    trace = TurnTrace(clock(10.0, *([10.004] if by_button else []), 10.02))
    if by_button:
        trace.mark("endpoint")
    trace.taken_in()
    assert spans(trace) == [("receive", 0.0, 20.0)]
