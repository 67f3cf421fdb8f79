"""A turn that is spoken live: words heard early, an answer begun early, and an end at any moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from server.engines.base import LlmText
from server.errors import AsrError, LlmError
from server.events import SpeechProduced, TurnEvent
from server.persona import default_persona_path, load_persona
from server.pipeline.apology import APOLOGIES
from server.pipeline.clips import VoiceClips
from server.pipeline.filler import THAT_WAS_LONG
from server.pipeline.live import LiveTurn
from server.pipeline.request import Heard, TurnRequest
from server.pipeline.speculation import HeldCompletion
from server.pipeline.speech_ahead import HeldAnswer
from tests.fakes.engines import ANSWER, FakeAsr, FakeLlm, FakeTts, answer, loud
from tests.pipeline.turns import SETTINGS, FakeJournal, Played, in_virtual_time, play_turn, take_turn

pytestmark = pytest.mark.unit

REPLY = "今日はいい天気だから、散歩に行こうよ。"


@dataclass
class Device:
    """Plays in real time from the first sound on."""

    sent_ms: float = 0.0
    began: float | None = None
    freed: list[float] = field(default_factory=list)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def played_ms(self) -> float:
        return 0.0 if self.began is None else min(self.sent_ms, (self.now() - self.began) * 1000)

    async def final_ms(self) -> float:
        return self.played_ms()

    async def played_out(self) -> None:
        await asyncio.sleep((self.sent_ms - self.played_ms()) / 1000)

    async def take(self, event: TurnEvent) -> None:
        if isinstance(event, SpeechProduced):
            self.began = self.now() if self.began is None else self.began
            self.sent_ms += event.chunk.duration_seconds * 1000


def play_live(
    live_after: float | None = None, *, early: Any = None, journal: FakeJournal | None = None, **engines: Any
) -> tuple[Played, Device]:
    """A live turn, interrupted after so many seconds."""

    async def play() -> tuple[Played, Device]:
        device = Device()
        live = LiveTurn(device, models_free=lambda: device.freed.append(device.now()))
        if live_after is not None:
            asyncio.get_running_loop().call_later(live_after, live.interrupt, "touch")
        words = asyncio.ensure_future(early()) if early is not None else None
        request = TurnRequest("desk", samples=loud(1.0), heard_early=words, live=live)
        return await take_turn(request, emit=device.take, journal=journal, **engines), device

    return in_virtual_time(play())


def test_a_live_turn_ends_when_it_is_played() -> None:
    played, device = play_live()
    assert played.result.outcome == "ok"
    assert played.result.reply == REPLY
    assert played.seconds == pytest.approx(device.sent_ms / 1000, abs=0.05)
    assert device.freed[0] < 0.01
    assert "interrupted" not in played.trace
    assert played.journal.log[-2:] == ["StateChanged", "TurnEnded"]
    assert played.states == ["listening", "thinking", "speaking", "idle"]


def test_words_that_were_heard_early_are_not_heard_again() -> None:
    async def early() -> Heard:
        await asyncio.sleep(0.2)
        return Heard("右を見て", "ja", 900)

    asr = FakeAsr()
    played, _ = play_live(early=early, asr=asr)
    assert (played.result.transcript, asr.heard) == ("右を見て", [])
    assert played.journal.heard_words == [Heard("右を見て", "ja", 900)]


def test_ears_that_failed_early_apologize_and_words_nobody_said_end_the_turn() -> None:
    async def fail() -> Heard:
        raise AsrError("deaf")

    async def nothing() -> None:
        return None

    failed, _ = play_live(early=fail)
    assert (failed.result.outcome, failed.result.error and failed.result.error.code) == ("failed", "asr_failed")
    assert failed.spoken
    silent, _ = play_live(early=nothing)
    assert (silent.result.outcome, silent.journal.heard_words) == ("no_speech", [])


@pytest.mark.parametrize("after", [None, 0.1])
def test_an_apology_is_part_of_its_turn_until_it_is_played_or_somebody_ends_it(after: float | None) -> None:
    played, device = play_live(after, llm=FakeLlm(scripts=[[LlmError("x", code="llm_unauthorized")]]))
    whole = APOLOGIES["out_of_order"]["ja"]
    assert (played.result.outcome, played.result.error and played.result.error.code) == ("failed", "llm_unauthorized")
    assert played.seconds == pytest.approx(device.sent_ms / 1000 if after is None else after, abs=0.05)
    if after is None:
        assert played.result.reply == whole
    else:
        assert whole.startswith(played.result.reply)
        assert len(played.result.reply) == pytest.approx(10, abs=2)


@pytest.mark.parametrize("after", [0.0, 0.03, 0.05, 0.1, 0.13, 0.15])
def test_interrupted_it_keeps_what_was_played_and_is_over_at_once(after: float) -> None:
    played, _ = play_live(after)
    assert played.result.outcome == "interrupted"
    assert played.seconds == pytest.approx(after, abs=0.02)
    assert REPLY.startswith(played.result.reply)
    assert played.result.reply != REPLY
    # 10 ms a character; the second sentence is under way.
    assert len(played.result.reply) == pytest.approx(after * 100, abs=2)
    assert played.trace["interrupted"] == "touch"
    assert played.journal.log.count("ended") == 1
    assert played.states[-1] == "idle"


def test_interrupted_before_it_speaks_it_says_nothing_and_keeps_the_users_words() -> None:
    llm = FakeLlm(scripts=[[LlmText(ANSWER[:12]), asyncio.Event()]])
    played, _ = play_live(1.0, llm=llm)
    assert (played.result.outcome, played.result.reply, played.result.transcript) == ("interrupted", "", "こんにちは")
    assert played.journal.heard_words
    assert llm.cancelled == 1
    assert played.seconds == pytest.approx(1.0, abs=0.02)


def test_interrupted_while_the_voice_works_the_voice_is_left() -> None:
    played, _ = play_live(1.0, tts=FakeTts(wait=asyncio.Event()))
    assert (played.result.outcome, played.result.reply) == ("interrupted", "")
    assert (played.result.emotion, played.result.action) == ("happy", "nod")
    assert played.seconds == pytest.approx(1.0, abs=0.02)


def test_interrupted_while_it_hears_there_are_no_words() -> None:
    played, _ = play_live(1.0, asr=FakeAsr(wait=asyncio.Event()))
    assert (played.result.outcome, played.result.transcript, played.journal.heard_words) == ("interrupted", "", [])


def test_words_that_are_being_stored_when_it_is_interrupted_are_stored() -> None:
    class Slow(FakeJournal):
        async def heard(self, turn: Any, heard: Any, now: Any) -> None:
            await asyncio.sleep(0.5)
            await super().heard(turn, heard, now)

    journal = Slow()
    played, _ = play_live(0.2, journal=journal)
    assert played.result.outcome == "interrupted"
    assert [heard.text for heard in journal.heard_words] == ["こんにちは"]
    assert played.result.transcript == "こんにちは"


def test_a_turn_that_is_over_is_not_interrupted_any_more() -> None:
    played, _ = play_live(60.0)
    assert (played.result.outcome, played.result.reply) == ("ok", REPLY)


async def test_what_ends_because_it_is_interrupted_has_not_ended_by_itself() -> None:
    live = LiveTurn(Device())
    asyncio.get_running_loop().call_later(0.01, live.interrupt, "touch")
    assert await live.unless_interrupted(live.interrupted.wait()) is False
    assert await LiveTurn(Device()).unless_interrupted(asyncio.sleep(0)) is True


def held_turn(change: str = "") -> tuple[Played, FakeLlm]:
    """A turn for which an answer was begun: the one it asks for, but for `change`."""

    async def play() -> tuple[Played, FakeLlm]:
        first = FakeLlm()
        await take_turn(llm=first)
        llm = FakeLlm(scripts=[answer(ANSWER.replace("散歩", "公園")), answer()])
        asked = first.requests[0]
        if change:
            asked = replace(asked, seed=asked.seed + 1)
        held = HeldCompletion(llm, asked)
        await asyncio.sleep(0.1)
        live = LiveTurn(Device(), held=HeldAnswer(held))
        return await take_turn(TurnRequest("desk", samples=loud(1.0), live=live), llm=llm), llm

    return in_virtual_time(play())


def test_an_answer_begun_early_is_used_for_exactly_the_same_question() -> None:
    played, llm = held_turn()
    assert played.result.reply == REPLY.replace("散歩", "公園")
    assert played.trace["speculation"] == "used"
    assert len(llm.requests) == 1
    assert played.trace["llm"]["calls"] == 1


def test_an_answer_to_another_question_is_thrown_away() -> None:
    played, llm = held_turn("seed")
    assert played.result.reply == REPLY
    assert played.trace["speculation"] == "wasted"
    assert len(llm.requests) == 2


def test_an_answer_that_nobody_needs_is_dropped() -> None:
    async def play() -> tuple[Played, FakeLlm, HeldCompletion]:
        llm = FakeLlm(scripts=[[LlmText("{"), asyncio.Event()]])
        held = HeldCompletion(llm, (await asked()))
        await asyncio.sleep(0)
        live = LiveTurn(Device(), held=HeldAnswer(held))
        request = TurnRequest("desk", samples=loud(1.0), live=live)
        return await take_turn(request, llm=llm, asr=FakeAsr(text="")), llm, held

    async def asked() -> Any:
        first = FakeLlm()
        await take_turn(llm=first)
        return first.requests[0]

    played, llm, held = in_virtual_time(play())
    assert (played.result.outcome, llm.cancelled, held.used) == ("no_speech", 1, False)


def test_an_uploaded_turn_waits_for_no_playback() -> None:
    assert play_turn().seconds < 0.05


def test_who_talks_too_long_is_told_before_the_answer() -> None:
    async def play(too_long: bool) -> Played:
        clips = VoiceClips()
        persona = load_persona(default_persona_path())
        await clips.make_for(persona, FakeTts(), SETTINGS.speech_sample_rate_hz, timeout_seconds=5)
        live = LiveTurn(Device(), too_long=too_long)
        request = TurnRequest("desk", samples=loud(1.0), live=live)
        return await take_turn(request, controller={"clips": clips})

    short, long = in_virtual_time(play(False)), in_virtual_time(play(True))
    told = round(0.01 * len(THAT_WAS_LONG["ja"]) * SETTINGS.speech_sample_rate_hz)
    assert long.samples - short.samples == told
    assert (long.result.reply, long.spoken) == (short.result.reply, short.spoken)
    assert (long.trace["too_long"], short.trace.get("too_long")) == (True, None)
