"""An engine that can hear while somebody speaks does so, in virtual time; one that fails at it costs nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from server.errors import AsrError, VadError
from tests.fakes.engines import FakeAsr, FakeLlm, FakeVad, loud, silence
from tests.fakes.streaming_asr import StreamingFakeAsr
from tests.pipeline.live_house import House, converse
from tests.pipeline.test_talking_over import LONG

pytestmark = pytest.mark.unit


async def speak_once(house: House) -> None:
    await house.conversation.listen("auto")
    await house.quiet(1.0)
    await house.speak(1.0)
    await house.quiet(3.0)


def test_it_hears_the_utterance_from_its_beginning_and_is_asked_in_the_first_silence() -> None:
    asr = StreamingFakeAsr()
    house = converse(speak_once, asr=asr)
    (stream,), (request,) = asr.streams, house.runner.requests
    assert request.samples is not None
    heard = stream.samples
    assert np.array_equal(heard[: len(request.samples)], request.samples[: len(heard)])
    # 300 ms from before the first sound, the sound, and one window of silence.
    assert [count / 16_000 for count in stream.asked] == pytest.approx([1.3 + 0.032], abs=0.033)
    assert asr.heard == []
    assert (stream.languages, stream.closed) == (("ja", "en"), True)
    assert house.log == ["listening", "thinking", "heard こんにちは", "speaking", *house.log[4:-1], "listening"]


def test_a_pause_inside_a_sentence_asks_the_same_stream_again() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.6)
        await house.quiet(0.3)
        await house.speak(0.6)
        await house.quiet(3.0)

    asr = StreamingFakeAsr(takes_seconds=0.2)
    house = converse(script, asr=asr)
    (stream,) = asr.streams
    assert len(stream.asked) == 2
    assert stream.asked[0] < stream.asked[1]
    assert [result.outcome for result in house.results] == ["ok"]
    assert asr.open_streams == 0


def test_what_was_asked_too_early_is_taken_back() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.6)
        await house.quiet(0.2)
        await house.speak(0.6)
        await house.quiet(8.0)

    asr = StreamingFakeAsr(takes_seconds=2.0)
    house = converse(script, asr=asr)
    assert (len(asr.streams[0].asked), asr.streams[0].cancelled) == (2, 1)
    assert [result.transcript for result in house.results] == ["こんにちは"]
    assert asr.open_streams == 0


@pytest.mark.parametrize(
    "broken",
    [
        {"open_error": AsrError("no room", code="engine_unavailable")},
        {"open_error": RuntimeError("a defect")},
        {"stream_error": AsrError("failed")},
    ],
    ids=["refuses", "defect", "fails"],
)
def test_where_it_fails_the_words_are_heard_in_one_piece(broken: dict[str, Any]) -> None:
    asr = StreamingFakeAsr(**broken)
    house = converse(speak_once, asr=asr)
    assert [result.transcript for result in house.results] == ["こんにちは"]
    assert len(asr.heard) == 1
    assert asr.open_streams == 0


def test_an_engine_that_cannot_hears_each_utterance_once_and_in_one_piece() -> None:
    asr = FakeAsr()
    house = converse(speak_once, asr=asr)
    assert len(asr.heard) == 1
    assert [result.outcome for result in house.results] == ["ok"]


def test_the_words_so_far_are_shown_until_the_final_ones_each_once() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(4.5)
        await house.quiet(3.0)

    asr = StreamingFakeAsr(text="What is the weather today?", language="en", hears=["What", "What", "What is the"])
    house = converse(script, asr=asr)
    assert house.log[:4] == ["listening", "hears What", "hears What is the", "thinking"]
    assert house.log[4] == "heard What is the weather today?"
    assert not [line for line in house.log[4:] if line.startswith("hears")]


def test_words_so_far_that_nobody_can_have_said_are_not_shown() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(3.5)
        await house.quiet(3.0)

    asr = StreamingFakeAsr(hears=["", "あ" * 200, "今日は"])
    house = converse(script, asr=asr)
    assert [line for line in house.log if line.startswith("hears")] == ["hears 今日は"]


@pytest.mark.parametrize("ending", ["abort", "leave", "shut", "end", "new microphone"])
def test_no_stream_outlives_what_is_being_said(ending: str) -> None:
    asr = StreamingFakeAsr(takes_seconds=1.0)

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        assert asr.open_streams == 1
        conversation = house.conversation
        if ending == "abort":
            await conversation.abort("touch")
        elif ending == "leave":
            await conversation.close()
        elif ending == "shut":
            await conversation.stop_listening()
        elif ending == "end":
            await conversation.end("replaced")
        else:
            await conversation.listen("auto")
        await asyncio.sleep(1.5)
        assert asr.open_streams == 0
        await asyncio.sleep(10)

    house = converse(script, asr=asr)
    assert [result.outcome for result in house.results] == ["ok"] * (ending == "shut")
    assert [len(stream.asked) for stream in asr.streams] == [int(ending == "shut")]


@pytest.mark.parametrize("quiet_seconds", [0.1, 0.3])
def test_who_is_cut_off_while_the_words_are_wanted_leaves_no_stream(quiet_seconds: float) -> None:
    asr = StreamingFakeAsr(takes_seconds=5.0)

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(quiet_seconds)
        await house.conversation.end("replaced")
        assert asr.open_streams == 0

    assert converse(script, asr=asr).results == []
    assert asr.streams[0].cancelled == 1


def test_a_voice_activity_engine_that_fails_in_the_middle_closes_the_stream() -> None:
    class Failing(FakeVad):
        fails = False

        async def probabilities(self, samples: Any) -> list[float]:
            if self.fails:
                raise VadError("it broke")
            return await super().probabilities(samples)

    vad, asr = Failing(), StreamingFakeAsr()

    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        vad.fails = True
        await house.speak(0.1)
        assert asr.open_streams == 0

    assert converse(script, asr=asr, vad=vad).log[-1] == "error vad_failed"


def test_what_is_said_for_too_long_is_heard_by_its_stream_too() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(31.0)
        await house.quiet(40.0)

    asr = StreamingFakeAsr()
    house = converse(script, asr=asr)
    assert house.results[0].outcome == "ok"
    assert asr.heard == []
    assert asr.streams[0].asked == [30 * 16_000]
    assert asr.open_streams == 0


def test_two_utterances_that_come_in_one_piece_are_two_streams_and_none_is_left() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.conversation.hear(np.concatenate([silence(0.5), loud(1.0), silence(1.5)]))
        await house.quiet(4.0)
        await house.conversation.hear(np.concatenate([loud(1.0), silence(0.6), loud(0.6), silence(0.2)]))
        await house.quiet(6.0)

    asr = StreamingFakeAsr()
    house = converse(script, asr=asr)
    assert {result.outcome for result in house.results} == {"ok"}
    assert asr.heard == []
    assert asr.open_streams == 0
    assert sum(len(stream.asked) for stream in asr.streams) >= len(house.results)


def test_nobody_is_heard_word_by_word_while_the_robot_answers() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("realtime")
        await house.speak(1.0)
        await house.quiet(0.7)
        await house.speak(0.3)  # a nod
        await house.quiet(20.0)

    asr = StreamingFakeAsr()
    house = converse(script, asr=asr, llm=FakeLlm(scripts=[LONG]), echo_cancel=True)
    assert [result.outcome for result in house.results] == ["ok"]
    assert len(asr.streams) == 1


def test_the_words_to_expect_are_given_when_somebody_begins_to_speak() -> None:
    async def script(house: House) -> None:
        house.expected = ("富士通", "Maplecott")
        await speak_once(house)

    asr = StreamingFakeAsr()
    converse(script, asr=asr)
    assert [stream.hot_words for stream in asr.streams] == [("富士通", "Maplecott")]
