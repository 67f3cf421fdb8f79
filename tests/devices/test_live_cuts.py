"""Sentences that are cut: by an abort, by a connection that breaks. What was said stays said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from server.commands.simulated_robot import SimulatedRobot
from server.context.prompts import answer_text
from server.devices.wire import (
    Action,
    CloseCode,
    DeviceError,
    Face,
    Sentence,
    ServerHello,
    SpeechStart,
    SpeechStop,
    State,
    Transcript,
    TurnAnswer,
)
from server.errors import TtsError
from tests.devices.conftest import LiveServer, eventually
from tests.devices.live_robots import (
    LONG,
    LONG_REPLY,
    SENTENCE,
    SILENT_SECONDS,
    Silence,
    answered,
    ask,
    live_server,
    robot,
    scripted,
    tone,
)
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, answer

pytestmark = pytest.mark.integration


async def stored(live: LiveServer, turn_id: int) -> dict[str, Any]:
    turn: dict[str, Any] = (await live.client.get(f"/v1/turns/{turn_id}")).json()
    return turn


async def speaking_turn(desk: SimulatedRobot) -> int:
    return (await desk.wait_for(SpeechStart)).turn_id


@pytest.mark.parametrize("acknowledges", [True, False])
async def test_an_abort_is_silence_and_history_keeps_what_was_played(tmp_path: Path, acknowledges: bool) -> None:
    async with scripted(tmp_path) as live, robot(live, acknowledges=acknowledges) as desk:
        await desk.listen("auto")
        await ask(desk)
        await asyncio.sleep(1.0)
        silence = Silence(desk)
        await desk.abort()
        assert await silence.seconds() < SILENT_SECONDS
        place = len(desk.got)
        turn = await answered(desk, outcome="interrupted")
        played = desk.speaker.played_ms(desk.monotonic()) / 10
        assert LONG_REPLY.startswith(turn["reply"])
        assert len(turn["reply"]) == pytest.approx(played, abs=25)
        assert [m for _, m in desk.got[place:] if isinstance(m, Sentence | SpeechStart)] == []
        assert (await stored(live, turn["turn_id"]))["reply"] == turn["reply"]
        await asyncio.sleep(0.6)
        desk.first_sound_at = None
        since = len(desk.got)
        await ask(desk)
        await answered(desk, since)
        words = "".join(m.content or "" for m in live.engines.llm.requests[-1].messages)  # type: ignore[attr-defined]
        assert turn["reply"] in words
        assert LONG_REPLY not in words


async def test_an_abort_while_it_thinks_is_no_answer(tmp_path: Path) -> None:
    # What is begun early would take one of the two scripts, used or not.
    env = {"STACKCHAN_LIVE__ANSWER_EARLY": "false"}
    llm = FakeLlm(scripts=[[asyncio.Event()], answer()])
    async with live_server(tmp_path, env=env, llm=llm) as live, robot(live) as desk:
        await desk.listen("auto")
        await desk.say(tone(0.6))
        assert await desk.be_quiet_until(lambda: bool(llm.requests), 10)
        await desk.abort()
        turn = await answered(desk, outcome="interrupted")
        assert (turn["transcript"], turn["reply"], turn["audio"]) == ("こんにちは", "", None)
        assert desk.messages(SpeechStart) == []
        since = len(desk.got)
        await ask(desk)
        await answered(desk, since)
        told = [(m.role, m.content) for m in llm.requests[-1].messages if m.role in ("user", "assistant")][-3:]
        assert told[0] == told[2] == ("user", "こんにちは")  # "no, I mean …" is about what was asked
        assert told[1] == ("assistant", answer_text("neutral", "none", "…"))


async def test_a_turn_goes_on_after_a_cut_and_its_rest_is_heard(tmp_path: Path) -> None:
    async with live_server(tmp_path, llm=FakeLlm(scripts=[LONG])) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        turn_id = await speaking_turn(desk)
        await asyncio.sleep(0.5)
        await desk.disconnect(rudely=True)
        before_ms = desk.speaker.queued_ms
        assert 300 < before_ms < 1500
        await asyncio.sleep(0.5)
        session_id = desk.hello.session_id if desk.hello else ""
        hello = await desk.connect()
        assert hello.session_id == session_id
        turn = await answered(desk)
        assert (turn["turn_id"], turn["reply"]) == (turn_id, LONG_REPLY)
        # What was on its way when the line broke may be lost, no more than the lead. It is told to count anew.
        assert 3000 - 140 <= before_ms + desk.speaker.queued_ms <= 3060
        assert [m.turn_id for m in desk.messages(SpeechStart)] == [turn_id, turn_id]


async def test_a_cut_before_the_first_sound_loses_nothing_of_the_voice(tmp_path: Path) -> None:
    async with scripted(tmp_path, [1.0, *answer()]) as live, robot(live) as desk:
        await desk.listen("auto")
        await desk.say(tone(0.6))
        # What the server has not read by then is lost with the line.
        assert await desk.be_quiet_until(lambda: State("thinking") in desk.messages(State), 10)
        await desk.disconnect(rudely=True)
        await desk.connect()
        turn = await answered(desk)
        assert desk.speaker.queued_ms == pytest.approx(turn["audio"]["duration_ms"], abs=30)


async def test_who_does_not_come_back_was_answered_all_the_same(tmp_path: Path) -> None:
    env = {"STACKCHAN_LIVE__RESUME_SECONDS": "0.5"}
    async with live_server(tmp_path, env=env, llm=FakeLlm(scripts=[LONG])) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        turn_id = await speaking_turn(desk)
        await desk.disconnect(rudely=True)
        devices = live.app.state.live.devices
        await eventually(lambda: not devices._devices)
        turn = await stored(live, turn_id)
        assert (turn["status"], turn["outcome"], turn["reply"]) == ("done", "ok", LONG_REPLY)


async def test_who_comes_back_is_shown_what_it_missed(tmp_path: Path) -> None:
    async with scripted(tmp_path) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        await desk.disconnect(rudely=True)
        since = len(desk.got)
        await desk.connect()
        # In the middle of the turn: the words, the face and the movement.
        await desk.wait_for(Face, since=since)
        await desk.wait_for(SpeechStart, since=since)
        shown = [ServerHello, State, Transcript, Face, Action, SpeechStart]
        assert [type(m) for _, m in desk.got[since:]][:6] == shown
        # And silenced like any other.
        silence = Silence(desk)
        await desk.abort()
        assert await silence.seconds() < SILENT_SECONDS
        turn = await answered(desk, since, outcome="interrupted")
        assert 0 < len(turn["reply"]) < len(LONG_REPLY)
        assert LONG_REPLY.startswith(turn["reply"])
        sounds = [type(m) for _, m in desk.got[since:]]
        assert (sounds.count(SpeechStart), sounds.count(SpeechStop), sounds.count(TurnAnswer)) == (1, 1, 1)


async def test_who_comes_back_gets_the_answer_that_had_no_voice(tmp_path: Path) -> None:
    env = {"STACKCHAN_LIVE__ANSWER_EARLY": "false"}
    llm = FakeLlm(scripts=[[0.5, *answer()]])
    async with (
        live_server(tmp_path, env=env, llm=llm, tts=FakeTts(error=TtsError("hoarse"))) as live,
        robot(live) as desk,
    ):
        await desk.listen("manual")
        await desk.say(tone(0.6))
        await desk.stop_listening()
        await desk.wait_for(State, wanted=lambda state: state.value == "thinking")
        await desk.disconnect(rudely=True)
        device = live.app.state.live.devices._devices["desk"]
        await eventually(lambda: device.missed is not None)
        since = len(desk.got)
        await desk.connect()
        answer_of = await desk.wait_for(TurnAnswer, since=since)
        assert answer_of.answer["reply"].endswith("行こうよ。")
        assert desk.messages(State, since=since)[0] == State("idle")
        await desk.disconnect()
        await eventually(lambda: not live.app.state.live.devices._devices)


async def test_who_comes_back_for_something_else_does_not_hear_the_rest(tmp_path: Path) -> None:
    async with scripted(tmp_path) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        turn_id = await speaking_turn(desk)
        await desk.disconnect(rudely=True)
        async with robot(live, session_label="another-day") as again:
            assert again.hello is not None
            assert desk.hello is not None
            assert again.hello.session_id != desk.hello.session_id
            await eventually(lambda: live.app.state.service.runner.running == 0)
            await again.listen("auto")
            await ask(again)
            turn = await answered(again)
            assert turn["turn_id"] > turn_id
            assert {m.turn_id for m in again.messages(SpeechStart)} == {turn["turn_id"]}
        before = await stored(live, turn_id)
        assert before["outcome"] == "interrupted"
        assert 0 < len(before["reply"]) < len(LONG_REPLY)
        assert LONG_REPLY.startswith(before["reply"])


@pytest.mark.parametrize(("label", "rudely"), [(None, True), ("after-the-reboot", False)])
async def test_who_begins_anew_while_it_thinks_is_answered_at_once(
    tmp_path: Path, label: str | None, rudely: bool
) -> None:
    """A robot that has rebooted, a page that was loaded again."""
    async with scripted(tmp_path, [60.0, *answer()], answer()) as live, robot(live, session_label="before") as desk:
        await desk.listen("manual")
        await desk.say(tone(0.6))
        await desk.stop_listening()
        await eventually(lambda: bool(live.engines.llm.requests))  # type: ignore[attr-defined]
        if rudely:
            await desk.disconnect(rudely=True)
        async with robot(live, session_label=label) as again:
            await again.listen("auto")
            await ask(again)
            turn = await answered(again)
            assert again.messages(DeviceError) == []
            assert turn["reply"].endswith("行こうよ。")
            before = await stored(live, turn["turn_id"] - 1)
            assert (before["status"], before["outcome"], before["reply"]) == ("done", "interrupted", "")
            assert before["transcript"] == "こんにちは"
        assert live.engines.llm.cancelled == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("moment", ["thinking", "speaking"])
async def test_who_comes_back_too_late_gets_nothing_of_the_old_turn(tmp_path: Path, moment: str) -> None:
    env = {"STACKCHAN_LIVE__RESUME_SECONDS": "0.3", "STACKCHAN_LIVE__ANSWER_EARLY": "false"}
    first = LONG if moment == "speaking" else [60.0, *LONG]
    async with live_server(tmp_path, env=env, llm=FakeLlm(scripts=[first, answer()])) as live, robot(live) as desk:
        await desk.listen("manual")
        await desk.say(tone(0.6))
        await desk.stop_listening()
        await desk.wait_for(State, wanted=lambda state: state.value == moment)
        turn_id = 1 if moment == "thinking" else await speaking_turn(desk)
        await desk.disconnect(rudely=True)
        await asyncio.sleep(0.45)
        since, before = len(desk.got), desk.hello
        desk.first_sound_at = None
        assert before is not None
        assert (await desk.connect()).session_id == before.session_id
        await desk.be_quiet(0.4)
        assert [message for _, message in desk.got[since + 1 :]] == [State("idle")]
        assert desk.first_sound_at is None
        await desk.listen("auto")
        await ask(desk)
        turn = await answered(desk, since)
        assert desk.messages(DeviceError) == []
        assert {m.turn_id for m in desk.messages(SpeechStart, since=since)} == {turn["turn_id"]} != {turn_id}
        old = await stored(live, turn["turn_id"] - 1)
        assert old["outcome"] == {"speaking": "ok", "thinking": "interrupted"}[moment]


async def test_a_server_that_stops_keeps_of_its_speech_what_was_played(tmp_path: Path) -> None:
    async with scripted(tmp_path) as live:
        desk = robot(live)
        await desk.connect()
        await desk.listen("auto")
        await ask(desk)
        turn_id = await speaking_turn(desk)
        await asyncio.sleep(0.5)
    await eventually(lambda: desk.close_code is not None)
    assert desk.close_code == CloseCode.GOING_AWAY
    (told,) = desk.messages(TurnAnswer)
    assert len(desk.messages(SpeechStop)) == 1
    async with live_server(tmp_path) as live:
        turn = await stored(live, turn_id)
    assert (turn["outcome"], turn["reply"]) == ("interrupted", told.answer["reply"])
    assert 20 < len(turn["reply"]) < 150
    assert LONG_REPLY.startswith(turn["reply"])


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.3, 0.5, 0.6, 0.8, 1.2])
async def test_words_are_stored_whenever_the_line_is_cut(tmp_path: Path, moment: float) -> None:
    """`moment`: seconds after the end of the utterance is certain, in a turn whose stages take 0.2 s each."""

    class Slow(FakeAsr):
        async def transcribe(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0.2)
            return await super().transcribe(*args, **kwargs)

    engines: dict[str, Any] = {"asr": Slow(), "llm": FakeLlm(scripts=[[0.2, *answer()]])}
    async with live_server(tmp_path, env={"STACKCHAN_LIVE__RESUME_SECONDS": "0.3"}, **engines) as live:
        async with robot(live) as desk:
            await desk.listen("manual")
            await desk.say(tone(0.5))
            await desk.stop_listening()
            await desk.wait_for(State, wanted=lambda state: state.value == "thinking")
            await asyncio.sleep(moment)
            await desk.disconnect(rudely=True)
        await eventually(lambda: not live.app.state.live.devices._devices)
        turn = await stored(live, 1)
        assert (turn["status"], turn["outcome"], turn["transcript"]) == ("done", "ok", "こんにちは")
        assert turn["reply"].endswith("行こうよ。")


async def test_a_sentence_that_was_cut_is_kept_to_the_word(tmp_path: Path) -> None:
    english = "It is a sunny day, so let us go to the park and look at the flowers together. " * 6
    llm = FakeLlm(scripts=[answer('{"emotion":"happy","action":"nod","reply":"' + english.strip() + '"}')])
    asr = FakeAsr(text="Good morning!", language="en")
    async with live_server(tmp_path, llm=llm, asr=asr) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        await asyncio.sleep(0.55)
        await desk.abort()
        turn = await answered(desk, outcome="interrupted")
        assert english.startswith(turn["reply"])
        assert turn["reply"].rstrip()[-1].isalpha() or turn["reply"].rstrip()[-1] in ".,"
        assert english[len(turn["reply"])] in " .,"
        assert SENTENCE not in turn["reply"]


async def test_touch_and_cut_at_the_same_moment_end_the_turn(tmp_path: Path) -> None:
    env = {"STACKCHAN_LIVE__RESUME_SECONDS": "0.5"}
    async with live_server(tmp_path, env=env, llm=FakeLlm(scripts=[LONG])) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        turn_id = await speaking_turn(desk)
        await desk.abort()
        await desk.disconnect(rudely=True)
        await eventually(lambda: not live.app.state.live.devices._devices)
        turn = await stored(live, turn_id)
        assert turn["outcome"] in ("interrupted", "ok")
        assert desk.messages(TurnAnswer) == []
