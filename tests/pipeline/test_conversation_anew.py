"""A conversation goes on whatever went before: an abort, words that were dropped, a failure of everything."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from server.errors import AuthError, LlmError, TtsError
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, answer
from tests.pipeline.live_house import House, converse
from tests.pipeline.test_talking_over import LONG

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("seconds", [0.4, 1.0])
def test_who_aborts_and_presses_may_speak_at_once(seconds: float) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(1.5)
        await house.conversation.abort("button")
        await house.conversation.listen("manual")
        await house.speak(seconds)
        await house.conversation.stop_listening()
        await asyncio.sleep(3)

    house = converse(script, llm=FakeLlm(scripts=[LONG, answer()]))
    assert [result.outcome for result in house.results] == ["interrupted", "ok"]
    samples = house.runner.requests[1].samples
    assert samples is not None
    assert len(samples) / 16_000 == pytest.approx(seconds, abs=0.033)


@pytest.mark.parametrize(
    ("modes", "ending"),
    [
        (("auto",), "shut"),
        (("manual", "auto"), "shut"),
        (("manual",), "shut"),
        (("realtime",), "shut"),
        (("auto",), "silence"),
        (("auto",), "too long"),
    ],
)
def test_whoever_begins_anew_is_answered_to_the_new_words(modes: tuple[Any, ...], ending: str) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.quiet(0.2)
        await house.speak(0.6)
        await house.quiet(0.16)
        assert len(asr.heard) == 1  # ahead of the end that never comes
        for mode in modes:
            await house.conversation.listen(mode)
        await house.quiet(0.2)
        await house.hear(31 if ending == "too long" else 0.8, 0.25)
        if ending == "silence":
            await house.quiet(0.6)
        if ending != "too long":
            await house.conversation.stop_listening()
        await asyncio.sleep(3)

    asr = FakeAsr()
    house = converse(script, asr=asr, echo_cancel="realtime" in modes, answer_early=False)
    assert house.results[0].outcome == "ok"
    uploaded = house.runner.requests[0].samples
    assert uploaded is not None
    # Of the first words, said twice as loud, nothing is in what was heard for the turn.
    for samples in (uploaded, asr.heard[1]):
        assert max(abs(samples)) == pytest.approx(0.25)
        assert np.count_nonzero(samples) / 16_000 == pytest.approx(29.7 if ending == "too long" else 0.8, abs=0.5)


@pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
def test_nothing_that_fails_leaves_it_stuck(mode: Any) -> None:
    async def say_it(house: House) -> None:
        await house.conversation.listen(mode)
        await house.speak(1.0)
        await house.quiet(1.0)
        await house.conversation.stop_listening()
        await house.quiet(3.0)

    async def script(house: House) -> None:
        await house.conversation.listen(mode)
        await house.speak(1.0)
        if mode == "manual":
            await house.conversation.stop_listening()
        await house.quiet(3.0)
        assert house.log[-1] == ("idle" if mode == "manual" else "listening")
        assert house.conversation.is_quiet
        tts.error = None
        await say_it(house)

    tts = FakeTts(error=TtsError("no voice"))
    llm = FakeLlm(scripts=[[LlmError("no model")], answer()])
    house = converse(script, llm=llm, tts=tts, echo_cancel=mode == "realtime", answer_early=False)
    assert "error" in house.log
    assert [result.outcome for result in house.results] == ["failed", "ok"]


def test_whose_admission_has_ended_gets_no_turn_and_the_connection_is_told() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        house.shut_out = AuthError("This token is not known here.", code="token_invalid")
        with pytest.raises(AuthError):
            await house.quiet(1.0)
        assert not house.conversation.in_turn

    house = converse(script)
    assert (house.runner.requests, house.results) == ([], [])
