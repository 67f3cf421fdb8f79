"""A live conversation with scripted engines, in virtual time: what becomes a turn, and what ends one."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from server.errors import BusyError, OverloadError, VadError
from tests.fakes.engines import FakeAsr, FakeLlm, answer, loud, silence
from tests.pipeline.live_house import SPOKEN_SECONDS, House, converse

pytestmark = pytest.mark.unit

SAID = ["heard こんにちは", "says 今日はいい天気だから、", "says 散歩に行こうよ。"]


def test_what_is_said_is_answered_and_then_listened_for_again() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.quiet(1.0)
        await house.speak(1.0)
        await house.quiet(3.0)
        await house.speak(0.6)
        await house.quiet(3.0)

    house = converse(script)
    turn = ["thinking", SAID[0], "speaking", *SAID[1:], "listening"]
    assert house.log == ["listening", *turn, *turn]
    assert [result.outcome for result in house.results] == ["ok", "ok"]
    assert [len(request.samples) / 16_000 for request in house.runner.requests if request.samples is not None] == (
        pytest.approx([1.6, 1.2], abs=0.04)
    )


@pytest.mark.parametrize("early", [True, False])
def test_words_are_heard_once_and_answered_early_or_at_the_end(early: bool) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(2.0)

    house = converse(script, answer_early=early)
    assert len(house.engines.asr.heard) == 1  # type: ignore[attr-defined]
    assert len(house.engines.llm.requests) == 1  # type: ignore[attr-defined]
    trace = house.journal.traces[0]
    assert trace["marks"]["endpoint"] == pytest.approx(500, abs=33)
    assert trace.get("speculation") == ("used" if early else None)
    # Everything was there when the silence was long enough.
    assert trace["marks"]["first_audio"] == pytest.approx(trace["marks"]["endpoint"], abs=5)


def test_a_pause_inside_a_sentence_starts_again_and_leaves_nothing() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.6)
        await house.quiet(0.4)
        await house.speak(0.6)
        await house.quiet(2.0)

    never = asyncio.Event()
    llm = FakeLlm(scripts=[[never], answer()])
    house = converse(script, llm=llm)
    assert [result.outcome for result in house.results] == ["ok"]
    assert llm.cancelled == 1
    assert len(house.engines.asr.heard) == 2  # type: ignore[attr-defined]
    assert house.journal.log.count("heard") == 1


@pytest.mark.parametrize("pieces", [1, 2, 6])
def test_one_answer_is_begun_early_however_often_somebody_pauses_and_each_is_counted(pieces: int) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        for _ in range(2):
            for _ in range(pieces):
                await house.speak(0.6)
                await house.quiet(0.3)
            await house.quiet(4.0)

    house = converse(script)
    assert [result.outcome for result in house.results] == ["ok", "ok"]
    calls_each = 1 if pieces == 1 else 2
    assert len(house.engines.llm.requests) == 2 * calls_each  # type: ignore[attr-defined]
    assert len(house.engines.asr.heard) == 2 * pieces  # type: ignore[attr-defined]
    used = {"calls": 1, "early_used": int(pieces == 1), "early_wasted": int(pieces > 1)}
    assert [{name: trace["llm"][name] for name in used} for trace in house.journal.traces] == [used, used]
    assert house.early_calls == ["used" if pieces == 1 else "wasted"] * 2


def test_sound_that_comes_in_one_piece_is_heard_as_in_many() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.conversation.hear(np.concatenate([silence(0.5), loud(1.0), silence(1.5)]))
        await house.quiet(4.0)
        await house.conversation.hear(np.concatenate([loud(1.0), silence(0.6), loud(0.6), silence(0.2)]))
        await house.quiet(4.0)

    house = converse(script)
    assert [result.outcome for result in house.results] == ["ok", "ok"]
    first, *_ = (len(request.samples) / 16_000 for request in house.runner.requests if request.samples is not None)
    assert first == pytest.approx(1.6, abs=0.05)


def test_an_answer_begun_early_of_which_no_turn_comes_is_counted_as_wasted() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.6)
        await house.quiet(0.3)
        await house.conversation.abort("touch")
        await house.quiet(1.0)

    house = converse(script)
    assert (house.results, house.early_calls) == ([], ["wasted"])


def test_no_answer_is_begun_early_while_others_need_the_model() -> None:
    async def script(house: House) -> None:
        house.idle = False
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(2.0)

    house = converse(script)
    assert "speculation" not in house.journal.traces[0]
    assert len(house.engines.llm.requests) == 1  # type: ignore[attr-defined]


def test_a_click_is_nothing_and_noise_without_words_goes_back_to_listening() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(0.064)
        await house.quiet(1.0)
        assert house.log == ["listening"]
        await house.speak(1.0)
        await house.quiet(1.0)

    house = converse(script, asr=FakeAsr(text=""))
    assert house.log == ["listening", "thinking", "listening"]
    assert [result.outcome for result in house.results] == ["no_speech"]
    assert house.engines.llm.requests == []  # type: ignore[attr-defined]


def test_while_it_speaks_and_a_little_after_a_simple_microphone_is_not_believed() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(0.6)
        await house.speak(SPOKEN_SECONDS + 0.45)  # its own voice
        await house.quiet(2.0)
        await house.speak(1.0)
        await house.quiet(2.0)

    house = converse(script)
    assert [result.outcome for result in house.results] == ["ok", "ok"]
    assert house.hushed == []


LONG = answer('{"emotion":"happy","action":"nod","reply":"' + "今日はいい天気だね。" * 30 + '"}')


@pytest.mark.parametrize("mode", ["auto", "realtime"])
def test_it_is_interrupted_by_voice_where_it_does_not_hear_itself(mode: Any) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen(mode)
        await house.speak(1.0)
        await house.quiet(1.0)
        await house.speak(0.3)  # うん
        await house.quiet(0.6)
        await house.speak(1.5)
        await house.quiet(4.0)

    llm = FakeLlm(scripts=[LONG, answer()])
    house = converse(script, echo_cancel=mode == "realtime", llm=llm)
    if mode == "auto":
        assert [result.outcome for result in house.results] == ["ok"]
        return
    assert [result.outcome for result in house.results] == ["interrupted", "ok"]
    # Half a second of speech, after 2.9 s of talk and pauses.
    assert house.hushed == pytest.approx([3.4], abs=0.1)
    assert len(house.results[0].reply) == pytest.approx(190, abs=12)
    # Nothing of what interrupted it is lost.
    second = house.runner.requests[1].samples
    assert second is not None
    assert np.count_nonzero(second) / 16_000 == pytest.approx(1.5, abs=0.05)


def test_an_abort_is_silence_at_once_and_then_it_listens() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(1.5)
        await house.conversation.abort("touch")
        await house.quiet(1.0)
        await house.speak(1.0)
        await house.quiet(1.0)

    house = converse(script, llm=FakeLlm(scripts=[LONG, answer()]))
    assert [result.outcome for result in house.results] == ["interrupted", "ok"]
    assert house.log[-1] == "listening"
    assert house.hushed == pytest.approx([2.5], abs=0.05)


def test_a_turn_that_is_only_beginning_is_one_and_can_be_ended() -> None:
    async def script(house: House) -> None:
        house.runner.start_seconds = 0.3
        await house.conversation.listen("auto")
        await house.speak(1.0)
        hearing = asyncio.create_task(house.quiet(1.0))
        await asyncio.sleep(0.6)
        assert house.log[-1] == "thinking"
        assert house.conversation.in_turn
        ending = asyncio.create_task(house.conversation.settled())
        await asyncio.sleep(0.1)
        assert not ending.done()
        assert house.runner.requests == []
        house.conversation.interrupt("touch")
        await asyncio.gather(hearing, ending)
        assert not house.conversation.in_turn

    house = converse(script)
    assert [result.outcome for result in house.results] == ["interrupted"]
    assert house.log[-1] == "listening"


def test_an_abort_with_nothing_to_end_shuts_the_ears() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.conversation.abort("button")
        await house.speak(1.0)
        await house.quiet(2.0)

    house = converse(script)
    assert house.log == ["listening", "idle"]
    assert house.results == []


def test_push_to_talk_ends_with_the_finger_not_with_a_pause() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("manual")
        await house.speak(0.6)
        await house.quiet(2.0)
        await house.speak(0.6)
        await house.conversation.stop_listening()
        await house.quiet(1.0)

    house = converse(script)
    assert house.log == ["listening", "thinking", SAID[0], "speaking", *SAID[1:], "idle"]
    assert len(house.runner.requests[0].samples) / 16_000 == pytest.approx(3.2, abs=0.05)  # type: ignore[arg-type]


def test_a_finger_lifted_at_once_says_nothing() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("manual")
        await house.conversation.stop_listening()
        await house.conversation.stop_listening()

    assert converse(script).log == ["listening", "idle"]


def test_a_microphone_that_is_shut_ends_what_is_said() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(0.1)
        await house.conversation.stop_listening()

    house = converse(script)
    assert [result.outcome for result in house.results] == ["ok"]
    assert house.log[-1] == "idle"


def test_endless_talk_is_answered_in_pieces() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(31.0)
        await house.quiet(2.0)

    house = converse(script)
    assert house.runner.requests[0].live.too_long  # type: ignore[union-attr]
    assert len(house.runner.requests[0].samples) / 16_000 == pytest.approx(30, abs=0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("refusal", [BusyError("busy"), OverloadError("full", retry_after_seconds=3)])
def test_where_there_is_no_place_it_says_so_and_listens_again(refusal: Exception) -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        house.runner.refusal = refusal
        await house.speak(1.0)
        await house.quiet(1.0)
        house.runner.refusal = None
        await house.speak(1.0)
        await house.quiet(2.0)

    house = converse(script)
    assert house.log[:4] == ["listening", "thinking", f"error {refusal.code}", "listening"]  # type: ignore[attr-defined]
    assert [result.outcome for result in house.results] == ["ok"]


def test_a_device_that_goes_away_leaves_a_turn_to_its_end() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        await house.speak(1.0)
        await house.quiet(0.55)
        assert house.conversation.in_turn

    house = converse(script)
    assert [result.outcome for result in house.results] == ["ok"]


def test_ears_that_fail_are_told_and_opened_again() -> None:
    async def script(house: House) -> None:
        await house.conversation.listen("auto")
        working, vad = house.engines.vad.open_stream, house.engines.vad

        class Broken:
            async def push(self, samples: Any) -> list[float]:
                raise VadError("deaf")

            def close(self) -> None: ...

        vad.open_stream = Broken  # type: ignore[method-assign,assignment]
        await house.conversation.listen("auto")
        await house.speak(3.2)
        vad.open_stream = working  # type: ignore[method-assign]
        await house.quiet(0.3)
        await house.speak(1.0)
        await house.quiet(2.0)

    house = converse(script)
    assert house.log[:3] == ["listening", "error vad_failed", "thinking"]  # once, not with every frame
    assert [result.outcome for result in house.results] == ["ok"]
