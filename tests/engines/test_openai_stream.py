"""Bytes to events, chunks to deltas, pieces of tool calls to calls: whatever shape they come in."""

from __future__ import annotations

import asyncio
import json

import pytest

from server.engines.base import LlmDone, LlmText, ToolSpec
from server.engines.llm.openai_stream import (
    ChatReader,
    chunks_of,
    sse_data,
    whole_completion,
)
from server.errors import LlmError
from tests.fakes.chat_server import chunk

pytestmark = pytest.mark.unit

SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
REMIND = ToolSpec(
    "remind", "Remind.", {"type": "object", "properties": {"minutes": {"type": "integer"}, "text": {"type": "string"}}}
)


async def stream(*pieces):
    for piece in pieces:
        yield piece


async def data_of(*pieces):
    return [data async for data in sse_data(stream(*pieces))]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_events_are_the_same_however_the_bytes_are_split(size):
    body = (
        ': keep-alive\n\ndata: {"a": "日本😀"}\r\n\r\nevent: x\ndata:two\ndata: lines\n\n\n\nid: 3\n\n'
        "data: sep\u2028arator\n\ndata: [DONE]"
    ).encode()
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert await data_of(*pieces) == ['{"a": "日本😀"}', "two\nlines", "sep\u2028arator", "[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_lines_may_end_in_three_ways(end, size):
    body = 'data: {"a": 1}||: ping||data:two|data: lines||data: [DONE]||'.replace("|", end).encode()
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert await data_of(*pieces) == ['{"a": 1}', "two\nlines", "[DONE]"]


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_chunk_without_its_blank_line_ends_where_the_next_begins(size):
    body = b'data: {"a": 1}\ndata: {"b":\ndata: [2]}\ndata: [DONE]\n'
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert await data_of(*pieces) == ['{"a": 1}', '{"b":\n[2]}', "[DONE]"]


async def test_broken_utf8_does_not_stop_the_stream():
    assert await data_of(b"data: a\xe3\x81b\n\n") == ["a\ufffdb"]


async def test_an_event_without_end_is_refused():
    with pytest.raises(LlmError, match="without end"):
        await data_of(*[b"data: " + b"x" * 65_536] * 20)
    with pytest.raises(LlmError, match="without end"):
        await data_of(*[b"data:\n" * 10_000] * 20)


async def chunks(*events):
    return [item async for item in chunks_of(stream(*events))]


async def test_chunks_end_with_the_mark_or_with_the_finish():
    said, ended = json.dumps(chunk({"content": "はい"})), json.dumps(chunk({}, "stop"))
    assert len(await chunks(said, ended)) == 2
    assert len(await chunks(said, "[DONE]")) == 1
    assert await chunks("[DONE]") == []


async def test_nothing_is_read_after_the_mark():
    async def endless():
        yield json.dumps(chunk({"content": "はい"}))
        yield "[DONE]"
        while True:
            await asyncio.sleep(0)
            yield json.dumps(chunk({"content": "まだ"}))

    assert len([item async for item in chunks_of(endless())]) == 1


async def test_a_stream_that_ends_before_its_answer_is_cut():
    with pytest.raises(LlmError) as caught:
        await chunks(json.dumps(chunk({"content": "はい"})))
    assert (caught.value.code, caught.value.retryable) == ("llm_cut", True)


@pytest.mark.parametrize("event", ["{", "[1]", "はい", "42", '"text"', "[" * 100_000])
async def test_an_event_that_is_no_chunk_is_an_error(event):
    with pytest.raises(LlmError, match="no answer") as caught:
        await chunks(event)
    assert caught.value.retryable


def read(*given, tools=(SEARCH, REMIND)):
    reader = ChatReader(tools)
    out = [item for one in given for item in reader.feed(one)]
    return [*out, *reader.finish(), reader.done()]


def test_text_usage_and_cached_tokens():
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 7}}
    out = read(
        chunk({"role": "assistant", "content": ""}), chunk({"content": '{"a":1}'}), chunk({}, "stop"), {"usage": usage}
    )
    assert out == [LlmText('{"a":1}'), LlmDone("stop", 9, 7, 3)]


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": None}, "many", {"prompt_tokens": "9"}]
)
def test_usage_that_is_not_told_counts_nothing(usage):
    assert read(chunk({"content": '{"a":1}'}, "length"), {"choices": [], "usage": usage})[-1] == LlmDone("length")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_thinking_in_a_field_of_its_own_is_not_read(name):
    assert read(chunk({name: "まず考える"}), chunk({"content": '{"a":1}'}, "stop"))[0] == LlmText('{"a":1}')


def test_content_in_parts_and_in_a_whole_message():
    body = {"choices": [{"message": {"content": [{"type": "text", "text": '{"a"'}, {"type": "text", "text": ":1}"}]}}]}
    assert read(whole_completion(json.dumps(body).encode()))[0] == LlmText('{"a":1}')


def test_only_the_first_choice_is_the_answer():
    two = {"choices": [{"index": 1, "delta": {"content": "{2}"}}, {"index": 0, "delta": {"content": "{1}"}}]}
    assert read(two)[0] == LlmText("{1}")


def test_halves_of_a_surrogate_pair_are_joined_and_lone_ones_dropped():
    out = read(chunk({"content": '{"a":"\ud83d'}), chunk({"content": '\ude00"}'}), chunk({"content": "\udc00!"}))
    assert "".join(item.text for item in out[:-1]) == '{"a":"😀"}!'


@pytest.mark.parametrize(
    "odd", [{"choices": None}, {"choices": ["x"]}, {"choices": [{"delta": None}]}, {}, {"choices": [{"delta": "x"}]}]
)
def test_odd_chunks_are_passed_over(odd):
    assert read(odd, chunk({"content": "{}"}))[0] == LlmText("{}")


@pytest.mark.parametrize("finish", ["stop", None, "tool_calls"])
def test_nothing_at_all_is_an_error_worth_a_retry(finish):
    with pytest.raises(LlmError) as caught:
        read(chunk({"content": ""}), chunk({}, finish))
    assert (caught.value.code, caught.value.retryable) == ("llm_no_reply", True)


def test_tokens_spent_on_thinking_are_told_and_not_spent_twice():
    with pytest.raises(LlmError) as caught:
        read(chunk({"reasoning_content": "うーん"}), chunk({}, "length"))
    assert (caught.value.code, caught.value.retryable) == ("llm_no_reply", False)
    assert "thinking" in (caught.value.hint or "")


def test_a_filtered_answer_is_a_refusal():
    with pytest.raises(LlmError) as caught:
        read(chunk({}, "content_filter"))
    assert (caught.value.code, caught.value.retryable) == ("llm_refused", False)
