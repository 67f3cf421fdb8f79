"""A whole conversation over a real socket: a device is heard, answered, and keeps its conversation."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from server.devices.wire import (
    Action,
    Capabilities,
    DeviceError,
    DeviceEvent,
    Face,
    Levels,
    Ping,
    Pong,
    Sentence,
    ServerHello,
    SpeechStart,
    SpeechStop,
    State,
    Transcript,
    TurnAnswer,
)
from tests.devices.conftest import eventually
from tests.devices.live_robots import (
    LONG,
    LONG_REPLY,
    SILENT_SECONDS,
    Silence,
    Stalls,
    answered,
    ask,
    live_server,
    microphone,
    robot,
    scripted,
    tone,
)
from tests.fakes.engines import FakeAsr, FakeLlm, answer
from tests.fakes.streaming_asr import StreamingFakeAsr
from tests.firmware.vector_turns import WHOLE, Sound

pytestmark = pytest.mark.integration

REPLY = "今日はいい天気だから、散歩に行こうよ。"


def kinds(got: list[tuple[float, Any]]) -> list[str]:
    """What came, one word each; repeated levels once."""
    words = [f"state {m.value}" if isinstance(m, State) else type(m).__name__ for _, m in got]
    return [word for word, _ in itertools.groupby(words)]


@pytest.mark.parametrize(("audio", "frame_ms"), [*itertools.product(("pcm16", "opus"), (10, 20, 60, 120))])
async def test_a_turn_in_every_format_and_frame_size(tmp_path: Path, audio: str, frame_ms: int) -> None:
    async with (
        live_server(tmp_path) as live,
        robot(live, microphone=microphone(audio, frame_ms), keeps_sound=True) as desk,
    ):
        assert desk.hello is not None
        assert (desk.hello.audio.format, desk.hello.audio.frame_ms) == (audio, frame_ms)
        await desk.listen("auto")
        await ask(desk)
        turn = await answered(desk)
        assert (turn["transcript"], turn["reply"], turn["emotion"]) == ("こんにちは", REPLY, "happy")
        heard_ms = sum(map(len, desk.sound)) / 16
        assert heard_ms == pytest.approx(turn["audio"]["duration_ms"], abs=2 * frame_ms + 10)
        (heard,) = live.engines.asr.heard  # type: ignore[attr-defined]
        assert len(heard) / 16_000 == pytest.approx(0.6 + 0.3, abs=0.4)
        stored = (await live.client.get(f"/v1/turns/{turn['turn_id']}")).json()
        assert (stored["transcript"], stored["reply"]) == ("こんにちは", REPLY)


async def test_the_words_so_far_come_before_the_final_ones(tmp_path: Path) -> None:
    asr = StreamingFakeAsr(text="Good morning, robot!", language="en", hears=["Good", "Good morning"])
    async with live_server(tmp_path, asr=asr) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk, 2.3)
        await answered(desk)
        heard = [message for _, message in desk.got if isinstance(message, Transcript)]
        assert heard == [
            Transcript("Good", final=False),
            Transcript("Good morning", final=False),
            Transcript("Good morning, robot!", final=True),
        ]
        assert asr.open_streams == 0


async def test_everything_comes_in_its_order_and_english_too(tmp_path: Path) -> None:
    english = answer('{"emotion":"happy","action":"nod","reply":"Nice to see you. Shall we go for a walk?"}')
    engines: dict[str, Any] = {"asr": FakeAsr(text="Good morning!", language="en"), "llm": FakeLlm(scripts=[english])}
    capabilities = Capabilities(levels=True)
    async with live_server(tmp_path, **engines) as live, robot(live, capabilities=capabilities) as desk:
        await desk.listen("auto")
        await ask(desk)
        await answered(desk)
        got = kinds(desk.got)
        shown = [message for _, message, sender in WHOLE if sender == "server" and not isinstance(message, Sound)]
        assert list(dict.fromkeys(got)) == list(dict.fromkeys(kinds([(0, message) for message in shown])))
        assert got[:4] == ["ServerHello", "state idle", "state listening", "state thinking"]
        assert [word for word in got if not word.startswith(("state", "Levels"))] == [
            *("ServerHello", "Transcript", "Face", "Action", "SpeechStart", "Sentence", "Sentence"),
            *("SpeechStop", "TurnAnswer"),
        ]
        assert [m.value for m in desk.messages(State)] == ["idle", "listening", "thinking", "speaking", "listening"]
        assert desk.messages(Transcript) == [Transcript("Good morning!", final=True)]
        assert (desk.messages(Face), desk.messages(Action)) == ([Face("happy")], [Action("nod")])
        assert [m.text for m in desk.messages(Sentence)] == ["Nice to see you.", "Shall we go for a walk?"]
        levels = desk.messages(Levels)
        shown_ms = sum(len(m.values) for m in levels) * 40
        assert shown_ms == pytest.approx(desk.messages(TurnAnswer)[0].answer["audio"]["duration_ms"], abs=120)


async def test_without_the_capability_no_levels_come(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        await answered(desk)
        assert desk.messages(Levels) == []


async def test_push_to_talk_hears_all_until_the_finger_is_lifted(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live) as desk:
        await desk.listen("manual")
        await desk.say(tone(0.4), end=False)
        await desk.be_quiet(0.8)  # a pause is no end
        assert desk.messages(TurnAnswer) == []
        await desk.say(tone(0.4))
        await desk.stop_listening()
        await answered(desk)
        (heard,) = live.engines.asr.heard  # type: ignore[attr-defined]
        assert len(heard) / 16_000 == pytest.approx(1.6, abs=0.05)
        assert desk.messages(State)[-1].value == "idle"


async def test_open_microphone_is_interrupted_by_voice_and_answers_what_was_said(tmp_path: Path) -> None:
    capabilities = Capabilities(echo_cancel=True)
    async with scripted(tmp_path) as live, robot(live, capabilities=capabilities) as desk:
        await desk.listen("realtime")
        await ask(desk)
        await desk.be_quiet(0.5)
        silence = Silence(desk)
        await desk.say(tone(1.0))
        # Half a second of speech and its windows, and the promise.
        assert await silence.seconds() < 0.5 + 0.1 + SILENT_SECONDS
        assert await desk.be_quiet_until(lambda: len(desk.messages(TurnAnswer)) == 2, 10)
        first, second = (m.answer for m in desk.messages(TurnAnswer))
        assert (first["outcome"], second["outcome"]) == ("interrupted", "ok")
        assert LONG_REPLY.startswith(first["reply"])
        assert 0 < len(first["reply"]) < 200


async def test_several_turns_are_one_conversation(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live) as desk:
        await desk.listen("auto")
        sessions = set()
        for _ in range(2):
            since = len(desk.got)
            await ask(desk)
            sessions.add((await answered(desk, since))["session_id"])
            await desk.be_quiet(0.6)
        assert desk.hello is not None
        assert sessions == {desk.hello.session_id}
        second = live.engines.llm.requests[-1]  # type: ignore[attr-defined]
        assert sum("こんにちは" in (message.content or "") for message in second.messages) >= 2


@pytest.mark.parametrize("kind", ["touch", "button", "wake", "wake_word"])
async def test_a_touched_robot_is_silent_and_keeps_what_was_played(tmp_path: Path, kind: str) -> None:
    async with live_server(tmp_path, llm=FakeLlm(scripts=[LONG])) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        await asyncio.sleep(0.4)
        silence = Silence(desk)
        await desk.send(DeviceEvent(kind))
        assert await silence.seconds() < SILENT_SECONDS
        turn = await answered(desk, outcome="interrupted")
        assert 30 <= len(turn["reply"]) <= 70


async def test_other_events_and_pings_disturb_nothing(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live) as desk:
        await desk.listen("auto")
        await ask(desk)
        await desk.send(DeviceEvent("shake", 3))
        await desk.send(Ping())
        await answered(desk)
        assert len(desk.messages(Pong)) == 1
        assert desk.messages(DeviceError) == []


async def test_a_turn_over_http_and_a_live_one_of_the_same_device_take_turns(tmp_path: Path) -> None:
    async with scripted(tmp_path, answer(), LONG, answer()) as live, robot(live) as desk:
        await desk.listen("auto")
        typed = (await live.client.post("/v1/turns", json={"text": "おはよう"})).json()
        assert typed["outcome"] == "ok"
        await ask(desk)
        busy = await live.client.post("/v1/turns", json={"text": "ねえ"})
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "device_busy")
        await desk.abort()
        spoken = await answered(desk, outcome="interrupted")
        assert spoken["session_id"] == typed["session_id"]
        again = await live.client.post("/v1/turns", json={"text": "じゃあね"})
        assert again.json()["outcome"] == "ok"
        assert any("おはよう" in (m.content or "") for m in live.engines.llm.requests[1].messages)  # type: ignore[attr-defined]


async def test_while_another_interface_is_answered_the_live_device_is_told_it_is_busy(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with live_server(tmp_path, llm=FakeLlm(scripts=[[never], answer()])) as live, robot(live) as desk:
        posting = asyncio.create_task(live.client.post("/v1/turns", json={"text": "おはよう"}))
        await eventually(lambda: live.engines.llm.requests)  # type: ignore[attr-defined]
        await desk.listen("auto")
        await desk.say(tone(0.6))
        assert await desk.be_quiet_until(lambda: bool(desk.messages(DeviceError)), 5)
        assert desk.messages(DeviceError)[0].code == "device_busy"
        assert desk.messages(State)[-1].value == "listening"
        never.set()
        await posting


async def test_the_device_gets_only_its_lead_ahead_and_never_runs_empty(tmp_path: Path) -> None:
    async with (
        live_server(tmp_path, llm=FakeLlm(scripts=[LONG])) as live,
        robot(live, microphone=microphone("pcm16", 60)) as desk,
    ):
        await desk.listen("auto")
        await ask(desk)
        most, stalls = 0.0, Stalls()
        while not desk.messages(SpeechStop):
            most = max(most, desk.speaker.queued_ms - desk.speaker.played_ms(desk.monotonic()))
            await stalls.sleep(0.005)
        # Five frames; what arrives late on a busy machine begins to be played late.
        assert 240 < most <= 5 * 60 + 60 + stalls.longest_ms
        assert desk.speaker.underruns == 0 or stalls.longest_ms > 200
        turn = await answered(desk)
        assert turn["reply"] == LONG_REPLY
        began = next(at for at, m in desk.got if isinstance(m, SpeechStart))
        stopped = next(at for at, m in desk.got if isinstance(m, SpeechStop))
        assert stopped - began == pytest.approx(turn["audio"]["duration_ms"] / 1000, abs=0.3)


async def test_the_server_says_who_it_is(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live) as desk:
        assert desk.messages(ServerHello) == [desk.hello]
        assert desk.hello is not None
        assert (desk.hello.persona_name, desk.hello.language) == ("スタックチャン", "ja")
