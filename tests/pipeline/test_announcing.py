"""What the robot says unasked: only when it is quiet, silent as soon as somebody turns to it, and stored nowhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server.errors import TtsError
from tests.fakes.engines import FakeTts
from tests.pipeline.live_house import House, converse

pytestmark = pytest.mark.unit

TEXT = "タイマーの時間だよ。"
SAYS = f"says {TEXT}"


async def say(house: House, log: list[str], text: str = TEXT) -> asyncio.Task[None]:
    async def announce() -> None:
        log.append(await house.conversation.announcing.announce(text, "ja"))

    task = asyncio.create_task(announce())
    await asyncio.sleep(0)
    return task


def test_an_idle_robot_speaks_and_is_idle_again_and_nothing_is_stored() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await (await say(house, outcomes))

    house = converse(script)
    assert house.log == ["speaking", SAYS, "idle"]
    assert outcomes == ["played"]
    assert house.results == []
    assert house.journal.log == []


def test_an_open_microphone_is_open_again_afterwards() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.quiet(0.2)
        await (await say(house, outcomes))
        await house.quiet(1.0)
        await house.speak(1.0)
        await house.quiet(2.0)

    house = converse(script)
    assert house.log[:5] == ["listening", "idle", "speaking", SAYS, "listening"]
    assert [result.outcome for result in house.results] == ["ok"]


def test_it_waits_for_whoever_speaks_and_for_the_turn_that_follows() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.5)
        task = await say(house, outcomes)
        await house.speak(0.5)
        await house.quiet(3.0)
        await task

    house = converse(script)
    assert house.log.index(SAYS) > house.log.index("says 散歩に行こうよ。")
    assert house.log[-3:] == ["speaking", SAYS, "listening"]
    assert outcomes == ["played"]


def test_a_finger_on_the_button_is_about_to_speak() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await house.conversation.listen("manual")
        task = await say(house, outcomes)
        await house.quiet(1.0)
        assert SAYS not in house.log
        await house.speak(0.6)
        await house.conversation.stop_listening()
        await task

    house = converse(script)
    assert house.log[-3:] == ["speaking", SAYS, "idle"]


@pytest.mark.parametrize("how", ["touch", "abort", "press"])
def test_who_turns_to_it_silences_it(how: str) -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        task = await say(house, outcomes, TEXT * 20)
        await asyncio.sleep(0.3)
        if how == "touch":
            house.conversation.interrupt("touch")
        elif how == "abort":
            await house.conversation.abort("button")
        else:
            await house.conversation.listen("manual")
        await task
        await asyncio.sleep(5)

    house = converse(script)
    assert outcomes == ["attended"]
    assert house.hushed[0] == pytest.approx(0.3, abs=0.01)
    after = {"touch": "idle", "abort": "idle", "press": "listening"}
    assert house.log[-1] == after[how]


def test_an_echo_cancelling_robot_is_silenced_by_voice_and_answers_it() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await house.conversation.listen("realtime")
        task = await say(house, outcomes, TEXT * 40)
        await house.quiet(0.2)
        await house.speak(1.0)
        await house.quiet(3.0)
        await task

    house = converse(script, echo_cancel=True)
    assert outcomes == ["attended"]
    assert house.hushed[0] == pytest.approx(0.7, abs=0.1)
    assert [result.outcome for result in house.results] == ["ok"]


def test_its_own_voice_is_not_heard_by_a_simple_microphone() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        task = await say(house, outcomes, TEXT * 10)
        await house.speak(1.3)
        await house.quiet(2.0)
        await task

    house = converse(script)
    assert outcomes == ["played"]
    assert house.results == []


def test_a_device_that_goes_hears_no_more_and_the_next_one_waits_for_nothing() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        first = await say(house, outcomes, TEXT * 40)
        second = await say(house, outcomes, "二つ目")
        await asyncio.sleep(0.2)
        await house.conversation.close()
        await asyncio.gather(first, second)

    house = converse(script)
    assert outcomes == ["gone", "gone"]
    assert "says 二つ目" not in house.log


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_a_microphone_that_stops_in_mid_word_holds_nothing_up(mode: Any) -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await house.conversation.listen(mode)
        await house.speak(0.5)
        task = await say(house, outcomes)
        await asyncio.sleep(2.5)  # the network may be slow
        assert SAYS not in house.log
        await asyncio.sleep(2.0)
        assert SAYS in house.log
        await task
        await house.quiet(1.0)
        await house.speak(1.0)
        await house.conversation.stop_listening()
        await asyncio.sleep(3)

    house = converse(script)
    assert outcomes == ["played"]
    assert [result.outcome for result in house.results] == ["ok"]


def test_an_uploaded_turn_of_the_device_is_waited_for() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        house.runner.uploads = True
        task = await say(house, outcomes)
        await asyncio.sleep(10)
        assert house.log == []
        house.runner.uploads = False
        await asyncio.sleep(1.1)
        assert SAYS in house.log
        await task

    converse(script)
    assert outcomes == ["played"]


def test_two_are_said_one_after_another() -> None:
    outcomes: list[str] = []

    async def script(house: House) -> None:
        await asyncio.gather(await say(house, outcomes), await say(house, outcomes, "二つ目だよ。"))

    house = converse(script)
    assert house.log == ["speaking", SAYS, "idle", "speaking", "says 二つ目だよ。", "idle"]


def test_a_voice_that_fails_leaves_nothing_behind() -> None:
    async def script(house: House) -> None:
        with pytest.raises(TtsError):
            await house.conversation.announcing.announce(TEXT, "ja")
        await house.conversation.listen("auto")
        house.engines.tts.error = None  # type: ignore[attr-defined]
        await house.speak(1.0)
        await house.quiet(3.0)

    house = converse(script, tts=FakeTts(error=TtsError("no voice")))
    assert [result.outcome for result in house.results] == ["ok"]


@pytest.mark.parametrize(("after", "attended"), [(3.0, True), (12.0, False)])
def test_attention_is_waited_for(after: float, attended: bool) -> None:
    async def script(house: House) -> None:
        waiting = asyncio.create_task(house.conversation.announcing.attended(10.0))
        await asyncio.sleep(after)
        house.conversation.interrupt("touch")
        assert await waiting is attended

    converse(script)


def test_of_a_device_that_goes_nobody_awaits_attention() -> None:
    async def script(house: House) -> None:
        waiting = asyncio.create_task(house.conversation.announcing.attended(10.0))
        await asyncio.sleep(1.0)
        await house.conversation.close()
        assert await waiting is False
        assert house.now() == pytest.approx(1.0, abs=0.01)

    converse(script)
