"""The endpoint engine when its endpoint fails: one code for each failure, nothing left open, no secret told."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback

import pytest

from server.config import load_settings
from server.engines.llm.openai_chat import OpenAiChatLlm
from server.engines.llm.presets import resolve_endpoint
from server.errors import LlmError
from tests.fakes.chat_engine import (
    ANSWER,
    KEY,
    REQUEST,
    WORDS,
    ask,
    engine,
    failure,
    settled,
    text_of,
)
from tests.fakes.chat_server import (
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
)

pytestmark = pytest.mark.integration


@pytest.fixture
def chat():
    with running_chat_server() as server:
        yield server


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
