"""The endpoint engine against a real server: what it sends and what it makes of each answer."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

from server.engines.base import LlmDone, LlmMessage, LlmRequest, LlmText, LlmToolCall
from tests.fakes.chat_engine import (
    ANSWER,
    REQUEST,
    SEARCH,
    WITH_TOOL,
    ask,
    engine,
    failure,
    text_of,
)
from tests.fakes.chat_server import (
    call_tools,
    call_tools_in_pieces,
    chunk,
    fail,
    hold,
    running_chat_server,
    say,
    think_then_say,
    whole,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def chat():
    with running_chat_server() as server:
        yield server


# --- answers ---


@pytest.mark.parametrize(
    "behaviour",
    [
        say(ANSWER, step=1),
        say(ANSWER, step=1000),
        say(ANSWER, first_byte_seconds=0.05, drip_seconds=0.002),
        say(ANSWER, usage=None),
        say(ANSWER, done=False),
        say(ANSWER, finish=None),
        think_then_say("元気かな？ {}", ANSWER),
        think_then_say("元気かな {}", ANSWER, how="unopened"),
        think_then_say("元気かな？ {}", ANSWER, how="field"),
        whole(ANSWER),
    ],
)
async def test_an_answer_arrives_whole_without_thinking(chat, behaviour):
    chat.play(behaviour)
    async with engine(chat) as made:
        *said, done = await ask(made)
    assert text_of(said) == ANSWER
    assert done.finish_reason == "stop"


@pytest.mark.parametrize("answer", ["ただの文だよ。", "Just text.", f"```json\n{ANSWER}\n```"])
async def test_prose_and_fences_arrive_as_they_are(chat, answer):
    chat.play(say(answer))
    async with engine(chat) as made:
        assert text_of(await ask(made)) == answer


async def test_usage_and_cached_tokens_are_told(chat):
    async with engine(chat) as made:
        assert (await ask(made))[-1] == LlmDone("stop", prompt_tokens=100, cached_tokens=64, completion_tokens=20)


async def test_an_answer_streams_while_the_endpoint_still_writes(chat):
    chat.play(hold(ANSWER))
    async with engine(chat) as made, aclosing(made.generate(REQUEST)) as deltas_:
        assert (await anext(deltas_)) == LlmText(ANSWER)
        chat.release()
        assert isinstance(await anext(deltas_), LlmDone)


async def test_an_endpoint_that_keeps_its_stream_open_after_the_finish_does_not_keep_the_robot(chat):
    async def behave(connection):
        await connection.begin()
        await connection.event(chunk({"content": ANSWER}, "stop"))
        await asyncio.Event().wait()

    chat.play(behave)
    async with engine(chat) as made:
        async with asyncio.timeout(3):
            assert text_of(await ask(made)) == ANSWER


async def test_a_limit_of_tokens_is_told(chat):
    chat.play(say('{"reply":"と', finish="length"))
    async with engine(chat) as made:
        assert (await ask(made))[-1].finish_reason == "length"


# --- tools ---


@pytest.mark.parametrize(
    "behaviour",
    [
        call_tools(("search_memory", {"query": "富士通のPC"})),
        call_tools(("search_memory", {"query": "富士通のPC"}), index=False, ids=False, finish="stop"),
        call_tools_in_pieces(("search_memory", {"query": "富士通のPC"}), step=1),
        call_tools(("search_memory", "{'query': '富士通のPC'}")),
        whole("", calls=[("search_memory", {"query": "富士通のPC"})]),
        say('{"tool":"search_memory","args":{"query":"富士通のPC"}}'),
        say('{"name":"search_memory","arguments":{"query":"富士通のPC"}}'),
        say('```json\n{"name":"search_memory","arguments":{"query":"富士通のPC"}}\n```'),
        say('<tool_call>\n{"name":"search_memory","arguments":{"query":"富士通のPC"}}\n</tool_call>'),
        think_then_say("調べよう", '{"tool":"search_memory","args":{"query":"富士通のPC"}}'),
    ],
)
async def test_a_call_is_a_call_however_it_is_written(chat, behaviour):
    chat.play(behaviour)
    async with engine(chat) as made:
        call, done = await ask(made, WITH_TOOL)
    assert (call.name, call.arguments) == ("search_memory", {"query": "富士通のPC"})
    assert call.call_id
    assert done.finish_reason == "tool_calls"


async def test_several_calls_come_in_order(chat):
    chat.play(call_tools_in_pieces(("search_memory", {"query": "猫"}), ("search_memory", {"query": "犬"})))
    async with engine(chat) as made:
        calls = [delta for delta in await ask(made, WITH_TOOL) if isinstance(delta, LlmToolCall)]
    assert [call.arguments["query"] for call in calls] == ["猫", "犬"]
    assert [call.call_id for call in calls] == ["call_0", "call_1"]


async def test_a_call_and_its_result_go_back_in_the_endpoints_form(chat):
    chat.play(call_tools(("search_memory", {"query": "猫"})), say(ANSWER))
    async with engine(chat) as made:
        call, _ = await ask(made, WITH_TOOL)
        following = (
            LlmMessage("assistant", "", tool_calls=(call,)),
            LlmMessage("tool", "[data]\n{}", call_id=call.call_id),
        )
        assert text_of(await ask(made, LlmRequest((*REQUEST.messages, *following), tools=(SEARCH,)))) == ANSWER
    *_, called, result = chat.completions[1].json["messages"]
    assert called["tool_calls"][0]["id"] == result["tool_call_id"] == "call_0"
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {"query": "猫"}


async def test_arguments_that_cannot_be_understood_are_an_error_worth_a_retry(chat):
    chat.play(call_tools(("search_memory", "{{{")))
    async with engine(chat) as made:
        said, error = await failure(made, WITH_TOOL)
    assert (said, error.code, error.retryable) == ("", "llm_failed", True)


async def test_tools_and_a_form_are_never_sent_together(chat):
    async with engine(chat, preset="vllm") as made:
        await ask(made, WITH_TOOL)
        await ask(made)
    with_tools, without = (request.json for request in chat.completions)
    assert ("tools" in with_tools, "response_format" in with_tools) == (True, False)
    assert ("tools" in without, "response_format" in without) == (False, True)


# --- models and warming ---


async def test_without_a_model_the_first_that_can_chat_is_taken(chat):
    chat.models = ["text-embedding-nomic", "qwen3-4b", "qwen3-8b"]
    async with engine(chat, preset="lmstudio", model=None) as made:
        await ask(made)
        await ask(made)
    assert [request.json["model"] for request in chat.completions] == ["qwen3-4b", "qwen3-4b"]
    assert [request.path for request in chat.requests].count("/v1/models") == 1


async def test_an_endpoint_that_is_away_at_start_is_only_a_warning(chat, caplog):
    chat.models = []
    async with engine(chat, preset="lmstudio", model=None) as made:
        assert "not there yet" in caplog.text
        _, error = await failure(made)
        assert "llm.model" in (error.hint or "")
        chat.models = ["qwen3-4b"]
        await ask(made)
    assert chat.completions[-1].json["model"] == "qwen3-4b"


async def test_a_local_endpoint_is_warmed_with_one_token_and_a_cloud_not_at_all(chat):
    async with engine(chat, preset="vllm") as made:
        await made.warm_prefix(REQUEST.messages[:1])
    assert chat.completions[0].json["max_tokens"] == 1
    assert chat.completions[0].json["messages"][0]["content"] == "You are a robot."
    async with engine(chat, preset="modelscope") as made:
        await made.warm_prefix(REQUEST.messages[:1])
    assert len(chat.completions) == 1


async def test_a_local_endpoint_may_load_longer_than_an_answer_may_be_silent(chat, caplog):
    chat.play(say(ANSWER, first_byte_seconds=0.5))
    async with engine(chat, timeout_seconds=0.2) as made:
        await made.warm_prefix(REQUEST.messages)
    assert "could not be warmed" not in caplog.text


async def test_warming_that_fails_is_only_a_warning(chat, caplog):
    chat.play(fail(500))
    async with engine(chat, preset="vllm") as made:
        await made.warm_prefix(REQUEST.messages)
    assert "could not be warmed" in caplog.text
