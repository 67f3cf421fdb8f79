"""Bytes to events, chunks to deltas, pieces of tool calls to calls: whatever shape they come in."""

from __future__ import annotations

import json

import pytest

from server.engines.base import LlmDone, LlmText, LlmToolCall, ToolSpec
from server.engines.llm.openai_stream import (
    ChatReader,
    ToolCallMerger,
    chunks_of,
    read_arguments,
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


async def test_broken_utf8_does_not_stop_the_stream():
    assert await data_of(b"data: a\xe3\x81b\n\n") == ["a\ufffdb"]


async def test_an_event_without_end_is_refused():
    with pytest.raises(LlmError, match="without end"):
        await data_of(*[b"data: " + b"x" * 1024**2] * 6)


async def chunks(*events):
    return [item async for item in chunks_of(stream(*events))]


async def test_chunks_end_with_the_mark_or_with_the_finish():
    said, ended = json.dumps(chunk({"content": "はい"})), json.dumps(chunk({}, "stop"))
    assert len(await chunks(said, ended)) == 2
    assert len(await chunks(said, "[DONE]")) == 1
    assert await chunks("[DONE]") == []


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


# --- native calls ---


def piece(index=None, call_id=None, name=None, arguments=None):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {"index": index, "id": call_id, "function": function}
    return {key: value for key, value in given.items() if value is not None}


def merged(*pieces, tools=(SEARCH, REMIND)):
    merger = ToolCallMerger(tools)
    for one in pieces:
        merger.feed(one)
    return [(call.name, call.arguments, call.call_id) for call in merger.finish()]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(
            [piece(0, "c1", "search_memory", ""), piece(0, arguments='{"que'), piece(0, arguments='ry":"猫"}')],
            [("search_memory", {"query": "猫"}, "c1")],
            id="fragments",
        ),
        pytest.param(
            [piece(0, "c1", "search_memory", '{"query":"猫"}')], [("search_memory", {"query": "猫"}, "c1")], id="whole"
        ),
        pytest.param(
            [
                piece(0, "c1", "search_memory", ""),
                piece(1, "c2", "remind", ""),
                piece(1, arguments='{"minutes":3}'),
                piece(0, arguments='{"query":"猫"}'),
            ],
            [("search_memory", {"query": "猫"}, "c1"), ("remind", {"minutes": 3}, "c2")],
            id="two-interleaved",
        ),
        pytest.param(
            [piece(0, "c1", "remind", '{"minutes":1}'), piece(0, "c2", "remind", '{"minutes":2}')],
            [("remind", {"minutes": 1}, "c1"), ("remind", {"minutes": 2}, "c2")],
            id="every-index-0",
        ),
        pytest.param(
            [piece(None, "c1", "remind", '{"min'), piece(arguments='utes":1}'), piece(None, "c2", "remind", "{}")],
            [("remind", {"minutes": 1}, "c1"), ("remind", {}, "c2")],
            id="no-index",
        ),
        pytest.param(
            [piece(name="remind", arguments='{"minutes":1}'), piece(name="remind", arguments='{"minutes":2}')],
            [("remind", {"minutes": 1}, ""), ("remind", {"minutes": 2}, "")],
            id="no-index-no-id",
        ),
        pytest.param(
            [piece(0, "c1", "remind", '{"min'), piece(0, "c1", "remind", 'utes":1}')],
            [("remind", {"minutes": 1}, "c1")],
            id="id-and-name-repeated",
        ),
        pytest.param(
            [piece(0, None, "remind", '{"min'), piece(0, None, "remind", 'utes":1}')],
            [("remind", {"minutes": 1}, "")],
            id="name-repeated-no-id",
        ),
        pytest.param(
            [piece(0, "", "remind", '{"minutes":1}'), piece(0, "", "", "")],
            [("remind", {"minutes": 1}, "")],
            id="empty-id",
        ),
        pytest.param([piece(0, "c1", "remind", {"minutes": 1})], [("remind", {"minutes": 1}, "c1")], id="object"),
        pytest.param([piece(0, "c1", "remind")], [("remind", {}, "c1")], id="no-arguments"),
        pytest.param([piece(0, "c1", None, "{}")], [], id="no-name"),
        pytest.param([{}, {"function": None}, {"function": 3, "index": "x"}], [], id="odd"),
    ],
)
def test_pieces_of_calls_are_put_together(pieces, expected):
    assert merged(*pieces) == expected


def test_a_call_without_id_gets_one_and_each_its_own():
    calls = read(chunk({"tool_calls": [piece(0, None, "remind", "{}"), piece(1, None, "remind", "{}")]}, "stop"))[:-1]
    assert all(call.call_id for call in calls)
    assert len({call.call_id for call in calls}) == 2


def test_calls_finish_as_tool_calls_whatever_the_endpoint_says():
    assert read(chunk({"tool_calls": [piece(0, "c", "remind", "{}")]}, "stop"))[-1].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", {}),
        ("  ", {}),
        ('{"query":"猫"} です', {"query": "猫"}),
        ('{"query":"猫"}{"query":"犬"}', {"query": "猫"}),
        ('{"query":"一行\n二行"}', {"query": "一行\n二行"}),
        ("{'query': '猫', 'exact': True}", {"query": "猫", "exact": True}),
        ('"{\\"query\\": \\"猫\\"}"', {"query": "猫"}),
        ('{"query":"富士通のPC', {"query": "富士通のPC"}),
        ("富士通のPC", {"query": "富士通のPC"}),
        ('"富士通のPC"', {"query": "富士通のPC"}),
    ],
)
def test_arguments_that_are_nearly_right_are_mended(written, expected):
    assert read_arguments(written, SEARCH) == expected


@pytest.mark.parametrize("written", ["{query: 猫}", "[1, 2]", "{{}", '["猫"]', "{" * 5000])
def test_arguments_that_cannot_be_mended_are_none(written):
    assert read_arguments(written, SEARCH) is None


def test_bare_words_are_no_arguments_of_a_tool_with_two():
    assert read_arguments("三分", REMIND) is None
    assert read_arguments("三分") is None


def test_unreadable_arguments_are_an_error_worth_a_retry():
    with pytest.raises(LlmError, match="remind") as caught:
        merged(piece(0, "c1", "remind", "in three minutes"))
    assert caught.value.retryable


def test_arguments_hold_no_lone_surrogates():
    assert merged(piece(0, "c", "remind", '{"text":"\\ud83dあ"}')) == [("remind", {"text": "あ"}, "c")]


def test_text_before_a_native_call_is_kept_in_order():
    out = read(
        chunk({"content": "調べるね。"}), chunk({"tool_calls": [piece(0, "c", "search_memory", "{}")]}, "tool_calls")
    )
    assert out[:2] == [LlmText("調べるね。"), LlmToolCall("search_memory", {}, "c")]
