"""The endpoint engine against a real server: what it sends, what it makes of each answer, what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import traceback
from contextlib import aclosing, asynccontextmanager

import pytest

from server.config import load_settings
from server.engines.base import LlmDone, LlmMessage, LlmRequest, LlmText, LlmToolCall, ToolSpec
from server.engines.llm.openai_chat import OpenAiChatLlm
from server.engines.llm.presets import resolve_endpoint
from server.errors import LlmError
from tests.fakes.chat_server import (
    call_tools,
    call_tools_in_pieces,
    chunk,
    cut,
    deltas,
    empty,
    error_in_stream,
    fail,
    garbage,
    hold,
    html,
    never,
    raw,
    raw_answer,
    reset,
    running_chat_server,
    say,
    think_then_say,
    whole,
)

pytestmark = pytest.mark.integration

KEY = "sk-very-secret-0123456789"
ANSWER = '{"emotion":"happy","action":"nod","reply":"うん、元気だよ😀。"}'
SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
SCHEMA = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
WORDS = "妻への贈り物はないしょ"
REQUEST = LlmRequest((LlmMessage("system", "You are a robot."), LlmMessage("user", WORDS)), answer_schema=SCHEMA)
WITH_TOOL = LlmRequest(REQUEST.messages, answer_schema=SCHEMA, tools=(SEARCH,))


@pytest.fixture
def chat():
    with running_chat_server() as server:
        yield server


@asynccontextmanager
async def engine(chat, timeout_seconds=5.0, **llm):
    llm = {"base_url": chat.url, "api_key": KEY, "model": "qwen-fake"} | llm
    settings = load_settings({}, llm=llm)
    made = OpenAiChatLlm(
        resolve_endpoint(settings.llm), context_tokens=8192, timeout_seconds=timeout_seconds, connect_timeout_seconds=1
    )
    await made.start()
    tasks = asyncio.all_tasks()
    try:
        yield made
        await settled(tasks)
    finally:
        await made.close()
        await chat.until_idle()


async def settled(tasks):
    """Return when only `tasks` are left: the event loop finalises abandoned generators in its next rounds."""
    for _ in range(50):
        if asyncio.all_tasks() == tasks:
            return
        await asyncio.sleep(0)
    raise AssertionError(asyncio.all_tasks() - tasks)


async def ask(made, request=REQUEST):
    return [delta async for delta in made.generate(request)]


async def failure(made, request=REQUEST):
    """The text that came, and the error after it."""
    said = []

    async def read():
        async for delta in made.generate(request):
            said.append(delta)

    with pytest.raises(LlmError) as caught:
        await read()
    assert all(isinstance(delta, LlmText) for delta in said)
    return text_of(said), caught.value


def text_of(out):
    return "".join(delta.text for delta in out if isinstance(delta, LlmText))


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
        think_then_say("元気かな？ {}", ANSWER, how="unopened"),
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


# --- failures ---


@pytest.mark.parametrize(
    ("behaviour", "code", "retryable", "wait"),
    [
        (fail(429, retry_after="3"), "llm_rate_limited", True, 3.0),
        (fail(429), "llm_rate_limited", True, None),
        (fail(503, retry_after="2"), "llm_overloaded", True, 2.0),
        (fail(500), "llm_failed", True, None),
        (fail(408), "llm_timeout", True, None),
        (fail(401), "llm_unauthorized", False, None),
        (fail(403), "llm_unauthorized", False, None),
        (fail(400, "bad request"), "llm_refused", False, None),
        (fail(400, "This model's maximum context length is 10 tokens"), "llm_context_overflow", False, None),
        (fail(413), "llm_context_overflow", False, None),
        (raw_answer(307, b"", {"Location": "http://127.0.0.1:1/"}), "llm_refused", False, None),
        (html(), "llm_overloaded", True, None),
        (html(200), "llm_refused", False, None),
        (raw_answer(200, b"{}"), "llm_no_reply", True, None),
        (raw_answer(200, b"ok"), "llm_failed", True, None),
        (raw_answer(200, b'{"code":"InternalError","message":"died"}'), "llm_failed", True, None),
        (reset(), "llm_cut", True, None),
        (empty(), "llm_no_reply", True, None),
        (raw(), "llm_cut", True, None),
        (garbage(), "llm_failed", True, None),
        (error_in_stream(), "llm_failed", True, None),
        (error_in_stream(code=429), "llm_rate_limited", True, None),
        (raw(b"data: \xff\xfe\n\n"), "llm_failed", True, None),
        (think_then_say("うーん", "", how="unclosed"), "llm_no_reply", True, None),
        (deltas({"reasoning_content": "うーん"}, finish="length"), "llm_no_reply", False, None),
    ],
)
async def test_a_failure_has_one_code_and_is_asked_for_once(chat, behaviour, code, retryable, wait):
    chat.play(behaviour)
    async with engine(chat) as made:
        said, error = await failure(made)
    assert said == ""
    assert (error.code, error.retryable, error.retry_after_seconds) == (code, retryable, wait)
    assert len(chat.completions) == 1
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (cut('{"reply":"途中まで'), "llm_cut"),
        (reset('{"reply":"途中まで'), "llm_cut"),
        (say('{"reply":"途中まで', finish=None, usage=None, done=False), "llm_cut"),
        (garbage('{"reply":"途中まで'), "llm_failed"),
        (error_in_stream('{"reply":"途中まで'), "llm_failed"),
        (cut("途中まで"), "llm_cut"),
    ],
)
async def test_text_given_before_the_failure_stands(chat, behaviour, code):
    chat.play(behaviour)
    async with engine(chat) as made:
        said, error = await failure(made)
    assert said.endswith("途中まで")
    assert (error.code, error.retryable) == (code, True)


@pytest.mark.parametrize("behaviour", [never(), hold('{"reply":"と'), say(ANSWER, first_byte_seconds=5)])
async def test_silence_is_a_time_out(chat, behaviour):
    chat.play(behaviour)
    async with engine(chat, timeout_seconds=0.2) as made:
        _, error = await failure(made)
    assert (error.code, error.retryable) == ("llm_timeout", True)


async def test_nobody_listening_is_told_with_what_to_do(chat):
    with socket.socket() as held:  # bound and not listening: refuses
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        async with engine(chat, preset="ollama", base_url=url) as made:
            _, error = await failure(made)
    assert (error.code, error.retryable) == ("llm_unreachable", True)
    assert "ollama serve" in (error.hint or "")


async def test_tls_to_a_server_without_it_is_told(chat):
    async def answer_plainly(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer_plainly, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with engine(chat, base_url=url) as made:
            _, error = await failure(made)
    assert (error.code, error.retryable) == ("llm_unreachable", False)
    assert "https" in (error.hint or "")


async def test_a_missing_model_is_told_with_those_there_are(chat):
    chat.models = ["qwen3:4b", "qwen3:8b"]
    chat.play(fail(404, 'model "qwen-fake" not found, try pulling it first'))
    async with engine(chat) as made:
        _, error = await failure(made)
    assert (error.code, error.retryable) == ("llm_refused", False)
    assert "qwen3:4b, qwen3:8b" in (error.hint or "")


@pytest.mark.parametrize("field", ["stream_options", "seed", "enable_thinking", "temperature"])
async def test_a_refused_field_is_left_out_from_then_on(chat, field):
    chat.refused_fields = {field}
    async with engine(chat, preset="dashscope") as made:
        await ask(made)
        await ask(made)
    assert [field in request.json for request in chat.completions] == [True, False, False]


async def test_several_refused_fields_are_left_out_one_by_one(chat):
    chat.refused_fields = {"stream_options", "seed", "response_format", "max_tokens"}
    async with engine(chat, preset="vllm") as made:
        await ask(made)
    last = chat.completions[-1].json
    assert len(chat.completions) == 5
    assert not chat.refused_fields & set(last)
    assert last["max_completion_tokens"] == 200


async def test_a_field_that_it_needs_is_refused_only_once(chat):
    chat.refused_fields = {"messages"}
    async with engine(chat) as made:
        _, error = await failure(made)
    assert (error.code, len(chat.completions)) == ("llm_refused", 1)


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


async def test_warming_that_fails_is_only_a_warning(chat, caplog):
    chat.play(fail(500))
    async with engine(chat, preset="vllm") as made:
        await made.warm_prefix(REQUEST.messages)
    assert "could not be warmed" in caplog.text


# --- life ---


async def test_it_cannot_be_asked_before_start_nor_after_close(chat):
    made = OpenAiChatLlm(
        resolve_endpoint(load_settings({}, llm={"base_url": chat.url, "model": "m"}).llm), context_tokens=1024
    )
    await made.close()
    for _ in range(2):
        _, error = await failure(made)
        assert error.code == "engine_unavailable"
        await made.start()
        await made.close()
        await made.close()


@pytest.mark.parametrize("behaviour", [hold(ANSWER), never(), say(ANSWER * 50, drip_seconds=0.05)])
async def test_a_cancelled_turn_closes_the_connection_at_once(chat, behaviour):
    chat.play(behaviour)
    async with engine(chat) as made:
        asking = asyncio.create_task(ask(made))
        await chat.until_asked()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert asking.cancelled()
        await chat.until_idle(1)


async def test_closing_the_iterator_closes_the_connection_at_once(chat):
    chat.play(hold(ANSWER))
    async with engine(chat) as made:
        deltas_ = made.generate(REQUEST)
        await anext(deltas_)
        await deltas_.aclose()
        await chat.until_idle(1)


async def test_closing_the_engine_ends_what_runs(chat):
    chat.play(never())
    async with engine(chat) as made:
        asking = asyncio.create_task(failure(made))
        await chat.until_asked()
        await made.close()
        _, error = await asking
    assert error.code in ("engine_unavailable", "llm_cut")


async def test_two_hundred_faults_leave_nothing_open(chat):
    faults = [fail(429), reset(), cut("と"), garbage("と"), error_in_stream("と"), html(), empty(), fail(500)]
    chat.play(*faults * 25)
    async with engine(chat) as made:
        tasks = asyncio.all_tasks()
        for _ in range(200):
            await failure(made)
        await settled(tasks)
        assert chat.open_connections <= 1
        chat.play(say(ANSWER))
        assert text_of(await ask(made)) == ANSWER
    assert len(chat.completions) == 201


# --- secrets ---


async def test_the_environments_other_accounts_are_not_sent(chat, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "someone-elses")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with engine(chat, api_key=None, model=None) as made:
        await ask(made)
    for request in chat.requests:
        assert "someone-elses" not in str(request.headers)
        assert "authorization" not in request.headers
        assert not [name for name in request.headers if "-os" in name or "arch" in name]


@pytest.mark.parametrize("behaviour", [say(ANSWER), fail(400, f"bad key {KEY}"), error_in_stream(message=KEY), reset()])
async def test_the_key_is_in_no_log_and_no_error(chat, caplog, behaviour):
    chat.key = "another"
    shown: list[str] = []
    codes: list[str] = []
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "openai"):
        async with engine(chat, model=None, base_url=chat.url.replace("http://", "http://me:pw-secret@")) as made:
            for _ in range(2):
                try:
                    await ask(made)
                except LlmError as error:
                    codes.append(error.code)
                    shown += [repr(error), str(error), "".join(traceback.format_exception(error))]
                chat.key = KEY
                chat.play(behaviour)
            shown += [repr(made), str(vars(made))]
    text = caplog.text + "".join(shown)
    assert "httpcore2" in caplog.text
    assert codes[0] == "llm_unauthorized"
    for secret in (KEY, "pw-secret", WORDS):
        assert secret not in text
