"""A device is told to be quieter by voice, over a real socket; and what it does not send is silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.devices.wire import AudioFormat, Capabilities, Command, TurnAnswer
from server.engines.base import LlmDone, LlmToolCall
from tests.devices.live_robots import answered, ask, live_server, microphone, robot, tone
from tests.fakes.engines import FakeAsr, FakeLlm, answer

pytestmark = pytest.mark.integration

ABLE = Capabilities(commands=("volume", "mute"))


def calls(tool: str) -> FakeLlm:
    script: Any = [LlmToolCall(tool, {}), LlmDone("tool_calls")]
    return FakeLlm(scripts=[script, answer()])


async def test_it_is_quieter_when_it_is_asked_to_be(tmp_path: Path) -> None:
    engines: dict[str, Any] = {"asr": FakeAsr(text="もう少し音を小さくして"), "llm": calls("set_volume")}
    async with live_server(tmp_path, **engines) as live, robot(live, capabilities=ABLE) as desk:
        await desk.listen("auto")
        await ask(desk)
        turn = await answered(desk)
        assert [(m.name, m.args) for m in desk.messages(Command)] == [("volume", {"change": -10})]
        assert desk.volume_percent == 50
        assert turn["reply"] == "音の大きさを50パーセントにしたよ。"


async def test_typed_words_turn_the_microphone_of_the_device_that_is_connected(tmp_path: Path) -> None:
    async with live_server(tmp_path, llm=calls("mute_microphone")) as live, robot(live, capabilities=ABLE) as desk:
        typed = await live.client.post("/v1/turns", json={"text": "mute the microphone"})
        assert typed.json()["outcome"] == "ok"
        assert desk.muted


async def test_a_device_that_names_no_command_is_given_none_and_it_is_said(tmp_path: Path) -> None:
    async with live_server(tmp_path, llm=calls("set_volume")) as live, robot(live) as desk:
        typed = await live.client.post("/v1/turns", json={"text": "音を小さくして"})
        assert typed.json()["outcome"] == "ok"
        assert typed.json()["reply"] == "ここでは音の大きさを変えられないよ。"
        assert desk.messages(Command) == []


async def test_what_a_device_leaves_out_of_its_sound_is_silence(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, robot(live, microphone=microphone("opus", 20)) as desk:
        await desk.listen("auto")
        await desk.say(tone(0.6))  # and then no frame at all
        turn = await desk.wait_for(TurnAnswer, 10)
        assert turn.answer["outcome"] == "ok"


@pytest.mark.parametrize("voice", [AudioFormat("pcm16", 24_000, 60), AudioFormat("opus", 48_000, 20)])
async def test_the_voice_comes_as_it_was_asked_for_beside_another_microphone(
    tmp_path: Path, voice: AudioFormat
) -> None:
    async with live_server(tmp_path) as live, robot(live, voice=voice, keeps_sound=True) as desk:
        assert desk.hello is not None
        assert desk.hello.audio == voice
        await desk.listen("auto")
        await ask(desk)
        turn = await answered(desk)
        heard_ms = sum(map(len, desk.sound)) / 16
        assert heard_ms == pytest.approx(turn["audio"]["duration_ms"], abs=2 * voice.frame_ms + 10)
