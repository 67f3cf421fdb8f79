"""The turn's one tool loop over an endpoint: called natively, written as text, and with mistakes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from server.engines.base import LlmToolCall
from server.errors import StackChanError
from server.memory.asking import Asker
from server.pipeline.tool_loop import ToolLoop
from server.pipeline.trace import TurnTrace
from tests.fakes.chat_engine import ANSWER, REQUEST, SEARCH, engine, text_of
from tests.fakes.chat_server import call_tools, call_tools_in_pieces, running_chat_server, say

pytestmark = pytest.mark.integration

ASKER = Asker(
    persona="stackchan",
    speaker=None,
    session_id="01J00000000000000000000000",
    turn_id=1,
    asked_at=datetime(2026, 7, 23, tzinfo=UTC),
    zone=UTC,
    words="猫は何色だっけ？",
)


@pytest.fixture
def chat():
    with running_chat_server() as server:
        yield server


@dataclass
class Search:
    spec: Any = SEARCH
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        self.asked.append(arguments)
        if "query" not in arguments:
            raise StackChanError("query is missing")
        return {"memories": [f"{arguments['query']}は黒い"]}


async def run(made, tool, rounds=3):
    """The answer's text, and the names of the tools that ran."""
    loop = ToolLoop([tool], rounds, TurnTrace(time.perf_counter), ASKER)
    text = ""

    async def ask(said, offered):
        nonlocal text
        request = replace(REQUEST, messages=(*REQUEST.messages, *said), tools=tuple(offered))
        out = [delta async for delta in made.generate(request)]
        text += text_of(out)
        return [delta for delta in out if isinstance(delta, LlmToolCall)]

    await loop.run(ask)
    return text, [done.name for done in loop.runs]


@pytest.mark.parametrize("tools", ["native", "written"])
@pytest.mark.parametrize(
    "call",
    [
        call_tools(("search_memory", {"query": "猫"})),
        say('{"tool":"search_memory","args":{"query":"猫"}}'),
        say('<tool_call>{"name":"search_memory","arguments":{"query":"猫"}}</tool_call>'),
    ],
)
async def test_a_call_is_run_and_its_result_is_answered(chat, tools, call):
    chat.play(call, say(ANSWER))
    tool = Search()
    async with engine(chat, tools=tools) as made:
        text, ran = await run(made, tool)
    assert (tool.asked, ran) == ([{"query": "猫"}], ["search_memory"])
    assert text == ANSWER
    first, second = (request.json["messages"] for request in chat.completions)
    assert second[: len(first)] == first
    called, result = second[len(first) :]
    assert "猫は黒い" in result["content"]
    if tools == "native":
        assert (result["role"], called["tool_calls"][0]["id"]) == ("tool", result["tool_call_id"])
    else:
        assert (result["role"], called["content"]) == ("user", '{"tool":"search_memory","args":{"query":"猫"}}')
        assert "tools" not in chat.completions[0].json


async def test_several_calls_of_one_answer_are_all_answered(chat):
    chat.play(call_tools_in_pieces(("search_memory", {"query": "猫"}), ("search_memory", {"query": "犬"})), say(ANSWER))
    tool = Search()
    async with engine(chat) as made:
        text, ran = await run(made, tool)
    assert [asked["query"] for asked in tool.asked] == ["猫", "犬"]
    assert len(ran) == 2
    assert text == ANSWER
    messages = chat.completions[1].json["messages"]
    called = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert called == [message["tool_call_id"] for message in messages if message["role"] == "tool"]


async def test_a_wrong_call_is_answered_with_what_is_wrong(chat):
    chat.play(
        call_tools(("serch", {"query": "猫"})),
        call_tools(("search_memory", {})),
        call_tools(("search_memory", {"query": "猫"})),
        say(ANSWER),
    )
    tool = Search()
    async with engine(chat) as made:
        text, ran = await run(made, tool)
    assert ran == ["serch", "search_memory", "search_memory"]
    results = [message["content"] for message in chat.completions[3].json["messages"] if message["role"] == "tool"]
    assert "search_memory" in results[0]
    assert "query is missing" in results[1]
    assert text == ANSWER


async def test_the_last_round_offers_no_tool(chat):
    chat.play(call_tools(("search_memory", {"query": "猫"})), say(ANSWER))
    async with engine(chat, preset="vllm") as made:
        assert await run(made, Search(), rounds=1) == (ANSWER, ["search_memory"])
    last = chat.completions[-1].json
    assert "tools" not in last
    assert last["response_format"]["type"] == "json_schema"
