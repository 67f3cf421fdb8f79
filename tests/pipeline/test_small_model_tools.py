"""What a small model is offered from call to call of one turn: the tools of memory once each, none after forgetting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server.engines.base import LlmDone, LlmToolCall, ToolSpec
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.turns import play_turn

pytestmark = pytest.mark.unit

FOUND = {"candidates": [{"memory_id": "mem_1", "summary": "パソコンを三万円で買った。"}]}
SOURCE = {"turns": [{"source_turn_id": 1, "text": "パソコンを三万円で買ったよ"}], "source_checked": True}


class Given:
    """A tool that always gives the same."""

    def __init__(self, name, result):
        self.spec = ToolSpec(name, name, {"type": "object", "properties": {"memory_id": {"type": "string"}}})
        self.result = result

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments, asker):
        return self.result


def offered(words, forgetting, *calls, small=True):
    """The names of the tools in each call of a turn."""
    tools = [Given("search_memory", FOUND), Given("read_memory_source", SOURCE), Given("forget_memory", forgetting)]
    llm = FakeLlm(scripts=[*([call, LlmDone("tool_calls")] for call in calls), answer()])
    llm.capabilities = replace(llm.capabilities, wants_examples=small)
    played = play_turn(TurnRequest("desk", text=words), llm=llm, tools=tools)
    assert played.result.outcome == "ok"
    return [[tool.name for tool in request.tools] for request in llm.requests]


SEARCH = LlmToolCall("search_memory", {"query": "パソコン"}, "c1")
FORGET = LlmToolCall("forget_memory", {"query": "パソコン"}, "c1")


def test_each_tool_once_and_a_source_when_something_was_found():
    read = LlmToolCall("read_memory_source", {"memory_id": "m1"}, "c2")
    assert offered("パソコンはいくらだった？", {}, SEARCH, read) == [
        ["search_memory", "forget_memory"],
        ["read_memory_source", "forget_memory"],
    ]
    assert offered("パソコンを買ったんだ。", {}, SEARCH, read)[2] == ["forget_memory"]


@pytest.mark.parametrize(
    "result",
    [{"forgotten": 1}, {"forgotten": 0, "note": "nothing found"}, {"forgotten": 0, "which": FOUND["candidates"]}],
)
def test_after_a_request_to_forget_nothing_is_looked_up(result):
    # Where only one reply is true the model is not even asked.
    assert offered("パソコンのことは忘れて", result, FORGET)[1:] in ([], [[]])


def test_a_large_model_may_look_up_what_it_asks_the_user_about():
    which = {"forgotten": 0, "which": FOUND["candidates"]}
    after = offered("パソコンのことは忘れて", which, FORGET, small=False)[-1]
    assert after == ["search_memory", "read_memory_source", "forget_memory"]


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("call", "result"), [(SEARCH, FOUND), (FORGET, {"forgotten": 1})])
def test_only_a_small_model_is_held_to_replies_made_of_the_result(call, result, small):
    tools = [Given(call.name, result)]
    llm = FakeLlm(scripts=[[call, LlmDone("tool_calls")], answer()])
    llm.capabilities = replace(llm.capabilities, wants_examples=small)
    words = "パソコンはいくらだった？" if call is SEARCH else "パソコンのことは忘れて"
    assert play_turn(TurnRequest("desk", text=words), llm=llm, tools=tools).result.outcome == "ok"
    before, after = (request.answer_schema["properties"]["reply"] for request in llm.requests)
    assert ("enum" in after or after != before) is small
