"""A timer over a real socket: set in a turn, rung as an announcement, kept for a device that is not there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from server.devices.wire import DeviceEvent, Sentence, SpeechStart, SpeechStop, State, TurnAnswer
from server.engines.base import LlmDone, LlmToolCall
from tests.devices.conftest import eventually
from tests.devices.live_robots import live_server, robot
from tests.fakes.engines import FakeLlm, answer

pytestmark = pytest.mark.integration

SETS: Any = [LlmToolCall("set_timer", {}), LlmDone("tool_calls")]


def kept(folder: Path) -> int:
    """How many timers a restart would find."""
    with closing(sqlite3.connect(folder / "data" / "server.sqlite")) as connection:
        count: int = connection.execute("SELECT count(*) FROM timers").fetchone()[0]
    return count


async def set_timer(live: Any, words: str) -> str:
    """What the robot says to it."""
    answered = await live.client.post("/v1/turns", json={"text": words})
    assert answered.json()["outcome"] == "ok"
    return str(answered.json()["reply"])


async def test_it_rings_on_the_device_until_somebody_touches_it(tmp_path: Path) -> None:
    llm = FakeLlm(scripts=[SETS, answer()])
    async with live_server(tmp_path, llm=llm) as live, robot(live, keeps_sound=True) as desk:
        await set_timer(live, "お茶のタイマーを1秒でお願い")
        assert [tool.name for tool in llm.requests[0].tools] == ["set_timer"]
        rung = await desk.wait_for(Sentence)
        assert rung.text == "お茶の時間だよ。1秒たったよ。"
        await desk.wait_for(SpeechStop)
        await eventually(lambda: desk.messages(State)[-1].value == "idle")
        assert [m.value for m in desk.messages(State)] == ["idle", "speaking", "idle"]
        (started,) = desk.messages(SpeechStart)
        order = [message for _, message in desk.got if isinstance(message, State | SpeechStart | Sentence | SpeechStop)]
        assert [*map(type, order)] == [State, State, SpeechStart, Sentence, SpeechStop, State]
        assert started.turn_id == rung.turn_id
        # As `FakeTts` speaks it, at 10 ms a character.
        assert sum(map(len, desk.sound)) / 16_000 == pytest.approx(len(rung.text) / 100, abs=0.1)
        await desk.send(DeviceEvent("touch", None))
        await eventually(lambda: kept(tmp_path) == 0)
        assert len(desk.messages(Sentence)) == 1
        # It is no turn, and nothing that the robot has said in one.
        assert desk.messages(TurnAnswer) == []
        assert (await live.client.get(f"/v1/turns/{rung.turn_id}")).status_code == 404


async def test_it_waits_over_a_restart_for_its_device(tmp_path: Path) -> None:
    async with live_server(tmp_path, llm=FakeLlm(scripts=[SETS, answer()])) as live:
        async with robot(live):
            pass
        await set_timer(live, "set a timer for 1 second")
    async with live_server(tmp_path) as live:
        async with robot(live, "kitchen") as kitchen:
            await kitchen.be_quiet(1.2)
            assert kitchen.messages(Sentence) == []
        async with robot(live) as desk:
            assert "1" in (await desk.wait_for(Sentence)).text


async def test_where_nothing_can_ring_it_says_so_and_keeps_nothing(tmp_path: Path) -> None:
    async with live_server(tmp_path, llm=FakeLlm(scripts=[SETS])) as live:
        reply = await set_timer(live, "ラーメンのタイマーを3分でお願い")
    assert reply == "ここでは鳴らせないよ。ロボットかページで頼んでね。"
    assert kept(tmp_path) == 0
