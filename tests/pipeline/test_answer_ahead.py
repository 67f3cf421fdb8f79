"""A live conversation in virtual time whose engines take their time: how much passes while the end is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from server.engines.base import SpeechRequest
from server.events import AudioChunk
from tests.fakes.engines import FakeLlm, FakeTts, answer
from tests.pipeline.live_house import House, converse

pytestmark = pytest.mark.unit

FIRST, SECOND = "今日はいい天気だから、", "散歩に行こうよ。"


class SlowTts(FakeTts):
    """Thinks for so long before every piece."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.cancelled = 0

    async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        async for chunk in super().synthesize(request):
            yield chunk


def slow_llm() -> FakeLlm:
    return FakeLlm(scripts=[[0.2, *answer()]])


async def one_utterance(house: House) -> None:
    await house.conversation.listen("auto")
    await house.speak(1.0)
    await house.quiet(3.0)


def spoken(house: House) -> list[str]:
    tts: Any = house.engines.tts
    return [request.text for request in tts.spoken]


def test_the_voice_of_the_first_clause_is_there_when_the_silence_was_long_enough() -> None:
    house = converse(one_utterance, llm=slow_llm(), tts=SlowTts(0.1))
    marks = house.journal.traces[0]["marks"]
    assert marks["first_audio"] == pytest.approx(marks["endpoint"], abs=5)
    assert house.journal.traces[0]["speech_ahead"] == "used"
    assert spoken(house) == [FIRST, SECOND]
    assert house.log[2:5] == ["heard こんにちは", "speaking", f"says {FIRST}"]


def test_a_voice_that_is_still_at_it_then_goes_on_and_is_not_begun_again() -> None:
    house = converse(one_utterance, llm=slow_llm(), tts=SlowTts(0.6))
    marks = house.journal.traces[0]["marks"]
    # Silence noticed after 32 ms, the model 200, the voice 600.
    assert marks["first_audio"] == pytest.approx(32 + 200 + 600, abs=5)
    assert spoken(house) == [FIRST, SECOND]
    assert house.engines.tts.cancelled == 0  # type: ignore[attr-defined]


def test_nothing_is_heard_of_a_voice_whose_words_came_too_early() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.6)
        await house.quiet(0.4)
        assert house.log == ["listening"]
        await house.speak(0.6)
        await house.quiet(3.0)

    house = converse(script, llm=slow_llm(), tts=SlowTts(0.3))
    assert house.engines.tts.cancelled == 1  # type: ignore[attr-defined]
    assert house.log.count(f"says {FIRST}") == 1
    assert [result.outcome for result in house.results] == ["ok"]
    assert house.log.index(f"says {FIRST}") > house.log.index("thinking")


def test_without_early_answers_the_voice_waits_for_the_turn() -> None:
    house = converse(one_utterance, llm=slow_llm(), tts=SlowTts(0.1), answer_early=False)
    trace = house.journal.traces[0]
    assert "speech_ahead" not in trace
    assert trace["marks"]["first_audio"] == pytest.approx(trace["marks"]["endpoint"] + 300, abs=10)


@pytest.mark.parametrize("early", [True, False])
def test_what_was_prepared_for_nobody_is_let_go(early: bool) -> None:
    """The device goes away before the end of its utterance is certain."""

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.6)
        await house.quiet(0.4)
        await house.conversation.close()

    house = converse(script, llm=slow_llm(), tts=SlowTts(60.0), answer_early=early)
    assert house.results == []
    assert house.engines.tts.cancelled == (1 if early else 0)  # type: ignore[attr-defined]
