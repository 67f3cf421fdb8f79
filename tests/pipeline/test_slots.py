"""Places to work in: strictly first come, first served, and an honest word about the wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from server.errors import StackChanError
from server.pipeline.slots import Slots

pytestmark = pytest.mark.unit


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_places_go_to_who_asked_first(clock):
    slots = Slots(2, clock)
    claims = [slots.claim() for _ in range(5)]
    assert [claim.held_since is not None for claim in claims] == [True, True, False, False, False]
    assert (slots.held, slots.waiting) == (2, 3)
    served: list[int] = []

    async def work(number: int) -> None:
        await claims[number].wait()
        served.append(number)
        await asyncio.sleep(0)
        claims[number].release()

    await asyncio.gather(*(work(number) for number in (4, 2, 3, 1, 0)))
    assert served[2:] == [2, 3, 4]
    assert (slots.held, slots.waiting) == (0, 0)


async def test_who_gives_up_waiting_holds_up_nobody(clock):
    slots = Slots(1, clock)
    first, second, third = (slots.claim() for _ in range(3))
    assert [slots.position(claim) for claim in (first, second, third)] == [0, 0, 1]
    second.release()
    second.release()
    first.release()
    await asyncio.wait_for(third.wait(), 1)
    assert second.held_since is None
    assert (slots.held, slots.waiting) == (1, 0)


async def test_after_closing_those_in_line_are_refused_and_those_inside_stay(clock):
    slots = Slots(1, clock)
    inside, waiting = slots.claim(), slots.claim()
    slots.close(StackChanError("closed", code="stopping"))
    late = slots.claim()
    for claim in (waiting, late):
        with pytest.raises(StackChanError, match="closed"):
            await claim.wait()
    await inside.wait()
    inside.release()
    assert (slots.held, slots.waiting) == (0, 0)


@pytest.mark.parametrize(
    ("count", "held_seconds", "places", "expected"),
    [
        (1, [4.0], 1, 4),
        (2, [4.0], 1, 2),
        (2, [2.0, 4.0], 9, 14),  # 3 s each, 9 of them, two at a time: 13.5
        (1, [0.01], 1, 1),  # never "at once": the header has whole seconds
        (1, [50.0], 8, 60),  # never longer than somebody would wait
    ],
)
async def test_the_wait_is_told_from_how_long_places_were_held(clock, count, held_seconds, places, expected):
    slots = Slots(count, clock)
    for seconds in held_seconds:
        claim = slots.claim()
        clock.seconds += seconds
        claim.release()
    assert slots.seconds_for(places) == expected


async def test_before_anybody_has_left_the_wait_is_no_shorter_than_what_has_been_seen(clock):
    slots = Slots(1, clock)
    assert slots.seconds_for(1) == 3
    slots.claim()
    clock.seconds = 20.0
    assert slots.seconds_for(1) == 20
