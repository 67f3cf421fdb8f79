"""Whether a tool is of use may be told too late, on a busy machine: no request is sent that the turn would not use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server.engines.base import LlmDone, LlmToolCall, ToolSpec
from server.persona import default_persona_path, load_persona
from server.pipeline.live import LiveTurn
from server.pipeline.request import Heard, TurnRequest
from server.pipeline.speculation import HeldCompletion
from server.pipeline.speech_ahead import HeldAnswer
from server.pipeline.thinking import Thinker
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.test_live_turn import Device
from tests.pipeline.turns import SETTINGS, TURN, Played, in_virtual_time, take_turn

pytestmark = pytest.mark.unit

WORDS = "前に買ったPC、なんだっけ？"
HEARD = Heard(WORDS, "ja")
SOON, LATE = 0.1, 3.0


class Tool:
    """One that takes the next of `seconds` to tell that it is `prior` likelier than else, or (None) of no use.

    `asked`: how often it was.
    """

    def __init__(self, name: str, *seconds: float, prior: float | None = 2.0) -> None:
        self.spec = ToolSpec(name, "Searches.", {"type": "object", "properties": {}})
        self._seconds = list(seconds)
        self._prior = prior
        self.asked = 0

    async def offer(self, asker: Any) -> float | None:
        self.asked += 1
        seconds = self._seconds.pop(0)
        if seconds < 0:
            raise ValueError("a defect")
        await asyncio.sleep(seconds)
        return self._prior

    async def run(self, arguments: Any, asker: Any) -> dict[str, Any]:
        return {}


def thinker(llm: FakeLlm, *tools: Tool) -> Thinker:
    return Thinker(llm, load_persona(default_persona_path()), SETTINGS, tools)


@pytest.mark.parametrize(("seconds", "known"), [(SOON, True), (LATE, False), (-1.0, False)])
def test_what_is_not_known_in_time_is_not_asked_early(seconds: float, known: bool) -> None:
    request = in_virtual_time(thinker(FakeLlm(), Tool("search_memory", seconds)).first_request(TURN, HEARD))
    assert (request is not None) is known
    if request is not None:
        assert [spec.prior for spec in request.tools] == [2.0]


def begun_early(llm: FakeLlm, tools: list[Tool]) -> Played:
    async def play() -> Played:
        request = await thinker(llm, *tools).first_request(TURN, HEARD)
        assert request is not None
        device = Device()
        live = LiveTurn(device, held=HeldAnswer(HeldCompletion(llm, request)))
        return await take_turn(TurnRequest("desk", text=WORDS, live=live), tools=tools, llm=llm, emit=device.take)

    played = in_virtual_time(play())
    assert played.result.outcome == "ok"
    assert played.trace["speculation"] == "used"
    return played


@pytest.mark.parametrize("prior", [2.0, None])
def test_what_was_told_early_is_not_asked_again(prior: float | None) -> None:
    llm = FakeLlm()
    tools = [Tool("search_memory", SOON, prior=prior), Tool("forget_memory", SOON, prior=None)]
    begun_early(llm, tools)
    assert len(llm.requests) == 1
    assert [tool.asked for tool in tools] == [1, 1]


@pytest.mark.parametrize("second", [SOON, LATE])
def test_after_a_call_they_are_asked_again_and_what_was_told_stands_where_it_is_late(second: float) -> None:
    llm = FakeLlm(scripts=[[LlmToolCall("get_time", {}), LlmDone("tool_calls")], answer()])
    tools = [Tool("get_time", SOON, second), Tool("search_memory", SOON, SOON, prior=None)]
    played = begun_early(llm, tools)
    assert [call["name"] for call in played.result.tool_calls] == ["get_time"]
    offered = [[(spec.name, spec.prior) for spec in request.tools] for request in llm.requests]
    assert offered == [[("get_time", 2.0)]] * 2
    assert [tool.asked for tool in tools] == [2, 2]


def test_without_an_early_answer_a_late_tool_is_offered_as_it_is() -> None:
    llm = FakeLlm()
    in_virtual_time(take_turn(TurnRequest("desk", text=WORDS), tools=[Tool("search_memory", LATE)], llm=llm))
    assert [(spec.name, spec.prior) for spec in llm.requests[0].tools] == [("search_memory", 0.0)]
