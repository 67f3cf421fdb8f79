"""The robot's own body as tools: offered where the device obeys, told in its own words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from server.engines.base import LlmDone, LlmToolCall
from server.errors import NotFoundError, RequestError
from server.memory.asking import Asker
from server.pipeline.device_tools import MUTE, VOLUME, device_tools, stable_device_specs
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.turns import play_turn

pytestmark = pytest.mark.unit

SMALL = FakeLlm().capabilities
LARGE = replace(SMALL, wants_examples=False, native_tools=True)


class Body:
    """A device that obeys `commands`. `answer`: of every command, or raised."""

    def __init__(self, *commands: str, answer: Any = None) -> None:
        self.commands = commands
        self.answer = answer
        self.told: list[tuple[str, dict[str, Any]]] = []

    def obeys(self, command: str) -> bool:
        return command in self.commands

    async def command(self, name: str, args: Mapping[str, Any]) -> Any:
        self.told.append((name, dict(args)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def tools(body: Body | None, capabilities: Any = LARGE) -> dict[str, Any]:
    made: Any = device_tools(lambda device_id: body if device_id == "desk" else None, capabilities)
    return {tool.spec.name: tool for tool in made}


def asker(words: str, device_id: str = "desk") -> Asker:
    return Asker("p", None, "s", 1, datetime(2026, 11, 30, tzinfo=UTC), UTC, words, "ja", device_id)


async def offered(body: Body | None, capabilities: Any, words: str, device_id: str = "desk") -> list[str]:
    made = tools(body, capabilities)
    return [name for name, tool in made.items() if await tool.offer(asker(words, device_id)) is not None]


async def test_only_what_the_device_obeys_is_offered() -> None:
    both = ["set_volume", "mute_microphone"]
    assert await offered(Body(VOLUME, MUTE), LARGE, "やあ") == both
    assert await offered(Body(VOLUME), LARGE, "やあ") == ["set_volume"]
    assert await offered(Body(), LARGE, "音を小さくして") == []
    assert await offered(None, LARGE, "音を小さくして") == []
    assert await offered(Body(VOLUME, MUTE), LARGE, "音を小さくして", device_id="") == []
    assert [spec.name for spec in stable_device_specs(LARGE)] == both
    assert stable_device_specs(SMALL) == ()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("音を小さくして", ["set_volume"]),
        ("be louder", ["set_volume"]),
        ("mute", ["set_volume"]),
        ("マイクオフ", ["mute_microphone"]),
        ("マイクを切ってもいい？", []),
        ("please stop listening to music", []),
        ("マイクを切って", ["mute_microphone"]),
        ("今日はいい天気だね", []),
    ],
)
async def test_a_small_model_is_offered_what_the_words_ask_for(words: str, names: list[str]) -> None:
    for body in (Body(VOLUME, MUTE), Body(), None):
        assert await offered(body, SMALL, words) == names


@pytest.mark.parametrize(
    ("words", "call", "told"),
    [
        ("音を小さくして", "set_volume", (VOLUME, {"change": -20})),
        ("set the volume to 40", "set_volume", (VOLUME, {"percent": 40})),
        ("Can you please turn the volume down a bit?", "set_volume", (VOLUME, {"change": -10})),
        ("マイクをミュートして", "mute_microphone", (MUTE, {"on": True})),
        ("unmute the mic", "mute_microphone", (MUTE, {"on": False})),
    ],
)
def test_a_small_models_call_does_what_the_words_say(words: str, call: str, told: Any) -> None:
    body = Body(VOLUME, MUTE, answer={"percent": 40})
    llm = FakeLlm(scripts=[[LlmToolCall(call, {}), LlmDone("tool_calls")], answer()])
    played = play_turn(TurnRequest("desk", text=words), llm=llm, tools=tuple(tools(body, SMALL).values()))
    assert played.result.outcome == "ok"
    assert body.told == [told]
    assert [tool.name for tool in llm.requests[0].tools] == [call]


@pytest.mark.parametrize(
    ("answered", "arguments", "result"),
    [
        ({"percent": 35}, {"change": -20}, {"volume_percent": 35}),
        (None, {"percent": 50}, {"volume_percent": 50}),
        (None, {"change": 10}, {"volume_set": True}),
        ({"percent": "loud"}, {"change": 10}, {"volume_set": True}),
    ],
)
async def test_the_device_says_how_loud_it_is_now(answered: Any, arguments: dict[str, Any], result: Any) -> None:
    assert await tools(Body(VOLUME, answer=answered))["set_volume"].run(arguments, asker("…")) == result


@pytest.mark.parametrize(
    "arguments",
    [{}, {"percent": 101}, {"percent": -1}, {"change": -101}, {"percent": 50, "change": 5}, {"percent": True},
     {"change": "5"}, {"percent": 1.5}],
)  # fmt: skip
async def test_a_volume_that_is_none_is_refused(arguments: dict[str, Any]) -> None:
    body = Body(VOLUME)
    with pytest.raises(RequestError):
        await tools(body)["set_volume"].run(arguments, asker("…"))
    assert body.told == []


async def test_a_device_that_has_gone_or_refuses_is_told_to_the_model() -> None:
    with pytest.raises(RequestError):
        await tools(None)["mute_microphone"].run({"muted": True}, asker("…"))
    with pytest.raises(RequestError):
        await tools(Body(MUTE))["mute_microphone"].run({}, asker("…"))
    body = Body(MUTE, answer=NotFoundError("gone"))
    with pytest.raises(NotFoundError):
        await tools(body)["mute_microphone"].run({"muted": True}, asker("…"))


@pytest.mark.parametrize(
    ("words", "call", "body", "reply"),
    [
        ("もっと大きな声で", "set_volume", Body(VOLUME, answer={"percent": 70}), "音の大きさを70パーセントにしたよ。"),
        ("もっと大きな声で", "set_volume", None, "ここでは音の大きさを変えられないよ。"),
        (
            "もっと大きな声で",
            "set_volume",
            Body(VOLUME, answer=NotFoundError("gone")),
            "ごめんね、それはできなかったよ。",
        ),
        ("マイクを切って", "mute_microphone", Body(MUTE), "マイクを切ったよ。"),
        ("マイクを切って", "mute_microphone", Body(VOLUME), "ここではマイクを変えられないよ。"),
    ],
)
def test_a_small_model_cannot_but_call_and_says_what_became_of_it(
    words: str, call: str, body: Body | None, reply: str
) -> None:
    for small in (True, False):
        llm = FakeLlm(scripts=[[LlmToolCall(call, {"muted": True, "change": 20}), LlmDone("tool_calls")], answer()])
        llm.capabilities = replace(SMALL if small else LARGE)
        given = tuple(tools(body, llm.capabilities).values())
        played = play_turn(TurnRequest("desk", text=words), llm=llm, tools=given)
        if small:
            assert [(tool.name, tool.prior) for tool in llm.requests[0].tools] == [(call, math.inf)]
            assert played.result.reply == reply
        else:
            assert all("enum" not in one.answer_schema["properties"]["reply"] for one in llm.requests)
