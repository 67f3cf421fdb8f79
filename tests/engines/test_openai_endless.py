"""The endpoint engine against endpoints that never end, or send too much or odd things: bounded, with one code."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest

from server.engines.base import LlmText, LlmToolCall
from tests.fakes.chat_engine import ANSWER, REQUEST, WITH_TOOL, ask, engine, failure, text_of
from tests.fakes.chat_server import call_tools, chunk, raw, raw_answer, running_chat_server, say

pytestmark = pytest.mark.integration


@pytest.fixture
def chat():
    with running_chat_server() as server:
        yield server


def then_forever(*events, piece=b"data: {}\n\n", pause_seconds=0.02):
    """These events, then the same piece again and again."""

    async def behave(connection):
        await connection.begin()
        for event in events:
            await connection.event(event)
        while True:
            await connection.piece(piece)
            await asyncio.sleep(pause_seconds)

    return behave


def forever(status, piece, headers, pause_seconds=0.0):
    """A body that never ends, with this status."""

    async def behave(connection):
        await connection.begin(status, headers)
        while True:
            await connection.piece(piece)
            await asyncio.sleep(pause_seconds)

    return behave


# --- after the answer ---


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        ([chunk({"content": ANSWER}), "[DONE]"], ANSWER),
        ([chunk({"content": ANSWER}, "stop")], ANSWER),
        ([chunk({"content": ANSWER})], ANSWER),
        ([chunk({"content": "元気だよ"}), "[DONE]"], "元気だよ"),
        ([chunk({"content": "元気だよ"}, "stop")], "元気だよ"),
    ],
)
async def test_what_follows_an_answer_without_end_does_not_keep_the_robot(chat, events, answer):
    chat.play(then_forever(*events))
    async with engine(chat) as made:
        async with asyncio.timeout(2.5):
            assert text_of(await ask(made)) == answer


async def test_text_after_a_whole_answer_does_not_keep_the_robot(chat):
    chat.play(then_forever(chunk({"content": ANSWER}), piece=b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'))
    async with engine(chat) as made:
        async with asyncio.timeout(2.5):
            assert text_of(await ask(made)).rstrip("a") == ANSWER


async def test_a_connection_is_used_again_after_the_end_mark(chat):
    async with engine(chat) as made:
        for _ in range(3):
            chat.play(say(ANSWER))
            await ask(made)
            assert chat.open_connections == 1
    assert len(chat.completions) == 3


@pytest.mark.parametrize("finish", [None, "stop"])
async def test_a_whole_answer_whose_connection_breaks_off_is_an_answer(chat, finish):
    chat.play(say(ANSWER, finish=finish, usage=None, done=False))
    async with engine(chat) as made:
        *said, done = await ask(made)
    assert (text_of(said), done.finish_reason) == (ANSWER, "stop")


async def test_a_call_after_an_answer_is_given_however_slowly_it_comes(chat):
    async def behave(connection):
        await connection.begin()
        await connection.event(chunk({"content": ANSWER}))
        function = {"name": "search_memory", "arguments": '{"query":'}
        await connection.event(chunk({"tool_calls": [{"index": 0, "id": "c", "function": function}]}))
        await asyncio.sleep(1.2)
        await connection.event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"猫"}'}}]}, "tool_calls"))
        await connection.end()

    chat.play(behave)
    async with engine(chat) as made:
        *said, call, done = await ask(made, WITH_TOOL)
    assert (text_of(said), done.finish_reason) == (ANSWER, "tool_calls")
    assert call == LlmToolCall("search_memory", {"query": "猫"}, "c")


async def test_prose_is_given_before_its_end(chat):
    chat.play(then_forever(chunk({"content": "元気だよ。今日は"})))
    async with engine(chat) as made:
        deltas = made.generate(REQUEST)
        assert await anext(deltas) == LlmText("元気だよ。今日は")
        await deltas.aclose()


# --- forms ---


@pytest.mark.parametrize("kind", ["text/plain", "text/event-stream", "application/octet-stream", "application/json"])
async def test_a_whole_completion_is_read_whatever_it_is_called(chat, kind):
    body = json.dumps({"choices": [{"message": {"content": ANSWER}, "finish_reason": "stop"}]}).encode()
    chat.play(raw_answer(200, b"\n" + body, {"Content-Type": kind}))
    async with engine(chat) as made:
        assert text_of(await ask(made)) == ANSWER


@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
async def test_a_stream_is_read_whatever_it_is_called(chat, kind):
    body = f": hello\n\ndata: {json.dumps(chunk({'content': ANSWER}, 'stop'))}\n\ndata: [DONE]\n\n".encode()
    chat.play(raw_answer(200, body, {"Content-Type": kind}))
    async with engine(chat) as made:
        assert text_of(await ask(made)) == ANSWER


async def test_a_stream_with_returns_for_line_ends_is_read(chat):
    body = f"data: {json.dumps(chunk({'content': ANSWER}, 'stop'))}\r\rdata: [DONE]\r\r".encode()
    chat.play(raw(*(body[start : start + 7] for start in range(0, len(body), 7))))
    async with engine(chat) as made:
        assert text_of(await ask(made)) == ANSWER


async def test_ten_thousand_calls_are_an_error_at_once(chat):
    chat.play(call_tools(*[("search_memory", {})] * 5000))
    async with engine(chat) as made:
        async with asyncio.timeout(3):
            said, error = await failure(made, WITH_TOOL)
    assert (said, error.code, error.retryable) == ("", "llm_failed", True)


# --- refusals ---


def gzip_bomb():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(b"x" * 30_000_000) + packer.flush()


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (forever(500, b"x" * 100_000, {"Content-Type": "text/plain"}), "llm_failed"),
        (forever(429, b"x", {"Content-Type": "text/plain"}, pause_seconds=0.02), "llm_rate_limited"),
        (raw_answer(503, gzip_bomb(), {"Content-Encoding": "gzip"}), "llm_overloaded"),
        (raw_answer(429, b"not gzip", {"Content-Encoding": "gzip"}), "llm_rate_limited"),
        (raw_answer(429, b"\xff\xfe", {"Content-Type": "application/json; charset=utf-7"}), "llm_rate_limited"),
        (raw_answer(429, b"\xff\xfe", {"Content-Type": "application/json; charset=idna"}), "llm_rate_limited"),
        (raw_answer(429, b"[" * 100_000), "llm_rate_limited"),
        (raw_answer(429, b"{}", {"Retry-After": "Mon, 01 Jan 2024 00:00:00 +99999999999999"}), "llm_rate_limited"),
    ],
)
async def test_a_refusal_is_read_as_far_as_is_sensible(chat, behaviour, code):
    chat.play(behaviour)
    async with engine(chat) as made:
        async with asyncio.timeout(3):
            said, error = await failure(made)
    assert (said, error.code) == ("", code)
    assert len(str(error)) < 500


async def test_words_of_the_user_drop_no_field(chat):
    message = "content filter: 'what is the temperature and the seed, and max_tokens'"
    chat.play(raw_answer(400, json.dumps({"error": {"message": message}}).encode()))
    async with engine(chat) as made:
        _, error = await failure(made)
        assert (error.code, len(chat.completions)) == ("llm_refused", 1)
        chat.play(say(ANSWER))
        await ask(made)
    assert {"temperature", "seed", "max_tokens"} <= set(chat.completions[-1].json)


# --- the list of models, and warming ---


def listing(body, status=200, headers=None):
    """Answer every request for the list of models so."""

    async def behave(connection):
        await connection.answer(status, body, headers)

    return behave


@pytest.mark.parametrize(
    "behaviour",
    [
        *map(listing, [b"[1]", b"[]", b"null", b'"x"', b"5", b"{}", b"", b"[" * 100_000, b'{"data":[', b"\xff"]),
        *map(
            listing, [b'{"data":5}', b'{"data":null}', b'{"data":{"id":"a"}}', b'{"data":[{"id":{"a":1}},5,null,"x"]}']
        ),
        listing(json.dumps({"data": [{"id": "m" * 100_000}]}).encode()),
        listing(json.dumps({"data": [{"id": "a\nERROR forged\x1b[31m"}, {"id": "\ud800"}, {"id": ""}]}).encode()),
        listing(b"[" * 100_000, status=429),
        listing(gzip_bomb(), headers={"Content-Encoding": "gzip"}),
        forever(200, b" " * 100_000, {"Content-Type": "application/json"}),
    ],
)
async def test_an_odd_list_of_models_is_only_a_warning_at_start(chat, caplog, behaviour):
    chat.answer_models = behaviour
    async with asyncio.timeout(5):
        async with engine(chat, preset="lmstudio", model=None) as made:
            assert "not there yet" in caplog.text
            assert max(len(record.getMessage()) for record in caplog.records) < 500
            assert "forged" not in caplog.text
            chat.answer_models = None
            await ask(made)
    assert chat.completions[0].json["model"] == "qwen-fake"


async def test_names_that_can_be_none_are_passed_over(chat):
    chat.models = ["bad\nname", "m" * 500, "qwen3-4b"]
    async with engine(chat, preset="lmstudio", model=None) as made:
        await ask(made)
    assert chat.completions[0].json["model"] == "qwen3-4b"


async def test_an_endpoint_that_drips_does_not_keep_the_server_starting(chat, caplog):
    chat.play(then_forever(chunk({"content": "あ"}), piece=b": ping\n\n"))
    async with engine(chat, preset="vllm", warming_timeout_seconds=0.3) as made:
        async with asyncio.timeout(2):
            await made.warm_prefix(REQUEST.messages)
    assert "could not be warmed within 0.3 seconds" in caplog.text
