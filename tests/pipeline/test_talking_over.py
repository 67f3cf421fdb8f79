"""Somebody presses to talk while the robot still speaks: it is silent, and every word that follows is heard."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.live_house import House, converse

pytestmark = pytest.mark.unit

LONG = answer('{"emotion":"happy","action":"nod","reply":"' + "今日はいい天気だね。" * 30 + '"}')


def over(house: House) -> list[str]:
    return [result.outcome for result in house.results]


def said_seconds(house: House) -> list[float]:
    return [len(request.samples) / 16_000 for request in house.runner.requests if request.samples is not None]


# Without echo cancellation, too: who presses has made it silent.
@pytest.mark.parametrize("echo_cancel", [True, False])
def test_who_presses_again_while_it_speaks_is_heard(echo_cancel: bool) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("manual")
        await house.speak(1.0)
        await house.conversation.stop_listening()
        await asyncio.sleep(0.5)
        assert house.conversation.state == "speaking"
        await house.conversation.abort("button")
        await house.conversation.listen("manual")
        await house.speak(1.5)
        await house.conversation.stop_listening()
        await asyncio.sleep(1)

    house = converse(script, echo_cancel=echo_cancel, llm=FakeLlm(scripts=[LONG, answer()]))
    assert over(house) == ["interrupted", "ok"]
    assert said_seconds(house) == pytest.approx([1.0, 1.5], abs=0.05)
    assert house.log[-1] == "idle"


def test_words_said_before_the_old_turn_has_ended_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(house: House) -> None:
        store = house.journal.ended

        async def slow_store(*args: object, **named: object) -> object:
            await asyncio.sleep(1.0)
            return await store(*args, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(house.journal, "ended", slow_store)
        await house.conversation.listen("manual")
        await house.speak(1.0)
        await house.conversation.stop_listening()
        await asyncio.sleep(0.5)
        await house.conversation.abort("button")
        await house.conversation.listen("manual")
        await house.speak(0.6)
        await house.conversation.stop_listening()
        await asyncio.sleep(3)

    house = converse(script, echo_cancel=True, llm=FakeLlm(scripts=[LONG, answer()]))
    assert over(house) == ["interrupted", "ok"]
    assert said_seconds(house) == pytest.approx([1.0, 0.6], abs=0.05)


def test_one_press_is_one_utterance_however_long() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("manual")
        await house.speak(32.0)
        await asyncio.sleep(3)
        await house.speak(1.0)
        await asyncio.sleep(3)

    house = converse(script)
    assert over(house) == ["ok"]
    assert house.log[-1] == "idle"
