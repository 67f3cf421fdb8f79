"""A conversation nobody comes back to: its turn ends with what was played, and no other begins."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.live_house import House, converse
from tests.pipeline.test_talking_over import LONG

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("moment", ["thinking", "speaking"])
def test_it_ends_at_once_and_nothing_is_answered_any_more(moment: str) -> None:
    took: list[float] = []

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(1.0)
        assert house.conversation.state == moment
        began = house.now()
        await house.conversation.end("replaced")
        took.append(house.now() - began)
        assert not house.conversation.in_turn
        await house.conversation.listen("manual")
        await house.speak(1.0)
        await house.conversation.stop_listening()
        await asyncio.sleep(5)

    llm = FakeLlm(scripts=[LONG if moment == "speaking" else [30.0, *answer()]])
    house = converse(script, llm=llm, answer_early=False)
    (result,) = house.results
    assert result.outcome == "interrupted"
    assert 0 < len(result.reply) < 100 if moment == "speaking" else result.reply == ""
    assert len(house.hushed) == 1
    assert took == pytest.approx([0.0], abs=0.2)
    assert house.log[-1] == "idle"


def test_words_that_were_just_being_taken_are_dropped_with_it() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("manual")
        await house.speak(1.0)
        stop = asyncio.ensure_future(house.conversation.stop_listening())
        await house.conversation.end("replaced")
        await stop
        await asyncio.sleep(5)

    house = converse(script)
    assert [result.outcome for result in house.results] in ([], ["interrupted"])


@pytest.mark.parametrize("repeats", [False, True])
def test_what_is_said_unasked_was_not_heard_by_anybody(repeats: bool) -> None:
    outcomes: list[object] = []

    async def script(house: House) -> None:
        robot = house.conversation.announcing
        work = robot.attended(8) if repeats else robot.announce("タイマーだよ。" * 20, "ja")
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.3)
        await house.conversation.end("stopping")
        outcomes.append(await task)

    converse(script)
    assert outcomes == [False if repeats else "gone"]
