"""Native tool calls: put together from pieces, their arguments mended or refused."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest

from server.engines.base import LlmDone, LlmText, LlmToolCall, ToolSpec
from server.engines.llm.openai_stream import ChatReader, ToolCallMerger, read_arguments
from server.errors import LlmError
from tests.fakes.chat_server import chunk

pytestmark = pytest.mark.unit

SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
REMIND = ToolSpec(
    "remind", "Remind.", {"type": "object", "properties": {"minutes": {"type": "integer"}, "text": {"type": "string"}}}
)


def read(*given, tools=(SEARCH, REMIND)):
    reader = ChatReader(tools)
    out = [item for one in given for item in reader.feed(one)]
    return [*out, *reader.finish(), reader.done()]


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


@pytest.mark.parametrize(
    "value",
    [
        {"query": 'it\'s "so"', "none": None, "list": ["a'b", 'True "b"', False], "n": -0.5},
        {"query": "\\ \n {'a': 1,}", "猫": {"": []}},
    ],
)
def test_arguments_in_the_notation_of_python_are_read(value):
    assert read_arguments(repr(value), SEARCH) == value
    assert read_arguments(f"{repr(value)[:-1]},}}", SEARCH) == value


@pytest.mark.parametrize("odd", ["\\'", "'", '"', '\\"', ", ", "\\", "'a':", "{'"])
@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_arguments_in_broken_notation_take_no_time(odd, quote):
    begun = time.process_time()
    with suppress(LlmError):
        merged(piece(0, "c", "remind", "{" + quote + odd * (60_000 // len(odd))))
    assert time.process_time() - begun < 2


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


def deep(levels):
    return '{"query":' + "[" * levels + "]" * levels + "}"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"query": NaN}',
        '{"query": [{"a": -Infinity}]}',
        '{"query": 1e400}',
        '{"query": ' + "9" * 30 + "}",
        '{"query": ' + "9" * 5000 + "}",
        "{'query': {1, 2}}",
        "{'query': (1, 2)}",
        "{'query': b'x'}",
        "{'query': ...}",
        "{'query': 1j}",
        "{(1, 2): 3}",
        "{1: 'x'}",
        "{1, 2}",
        {"query": float("nan")},
        json.loads(deep(65)),
        *(deep(levels) for levels in (65, 200, 500, 900, 2000, 20_000)),
    ],
)
def test_arguments_that_are_not_json_are_an_error_worth_a_retry(arguments):
    with pytest.raises(LlmError, match="arguments") as caught:
        merged(piece(0, "c", "search_memory", arguments))
    assert (caught.value.code, caught.value.retryable) == ("llm_failed", True)


@pytest.mark.parametrize("value", [None, True, -(2**63) + 1, 0.5, "é", [], [[{"a": [1]}]]])
def test_every_kind_of_json_value_is_an_argument(value):
    assert merged(piece(0, "c", "remind", json.dumps({"x": value}))) == [("remind", {"x": value}, "c")]
    assert json.loads(deep(60)) == merged(piece(0, "c", "remind", deep(60)))[0][1]


@pytest.mark.parametrize(
    "calls",
    [
        [piece(number, f"c{number}", "remind", "{}") for number in range(10_000)],
        [piece(None, f"c{number}", "remind") for number in range(10_000)],
        [piece(0, None, "remind", "{}"), *[piece(None, None, "remind", "{}")] * 10_000],
        [piece(0, "c", "remind", '{"text":"' + "あ" * 100_000)],
        [piece(0, "c", "r" * 100_000, "{}")],
        [piece(0, "c", "remind", '{"text":"'), *[piece(0, arguments="あ" * 100)] * 1000],
    ],
)
@pytest.mark.parametrize("form", ["delta", "message"])
def test_calls_without_end_are_an_error_and_take_no_time(calls, form):
    given = {"choices": [{form: {"tool_calls": calls}, "finish_reason": "stop"}]}
    with pytest.raises(LlmError, match="without end") as caught:
        ChatReader((REMIND,)).feed(given)
    assert caught.value.retryable


def test_as_many_calls_as_an_answer_may_need_are_read():
    assert len(merged(*[piece(number, f"c{number}", "remind", "{}") for number in range(32)])) == 32


@pytest.mark.parametrize("count", [10**30, 2**31, -1, True, 1.5])
def test_a_count_that_no_answer_has_is_not_told(count):
    assert read(chunk({"content": '{"a":1}'}, "stop"), {"usage": {"prompt_tokens": count}})[-1] == LlmDone("stop")


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": [{"delta": {"content": [1, None, {"text": 5}, {"text": ["q"]}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": ["a"], "arguments": [1]}}, 5, {"id": {}}]}}]},
        {"choices": [{"index": True, "delta": {"content": "x"}, "finish_reason": {"a": [1]}}]},
        {"choices": [{"delta": {}, "finish_reason": ["stop"]}]},
    ],
)
def test_odd_values_in_chunks_are_passed_over(odd):
    *said, done = read(odd, chunk({"content": "{}"}))
    assert ("".join(item.text for item in said), done.finish_reason) == ("{}", "stop")


@pytest.mark.parametrize(
    ("given", "ended", "whole"),
    [
        ([chunk({"content": '{"reply":"は'})], False, False),
        ([chunk({"content": '{"reply":"は"}'})], True, True),
        ([chunk({"content": '{"reply":"は"}'}), chunk({"tool_calls": [piece(0, "c", "remind")]})], False, False),
        ([chunk({"content": "はい。"})], False, False),
        ([chunk({"content": "はい。"}, "stop")], True, False),
    ],
)
def test_when_an_answer_is_over(given, ended, whole):
    reader = ChatReader((REMIND,))
    for one in given:
        reader.feed(one)
    assert (reader.ended, reader.whole) == (ended, whole)


def test_arguments_hold_no_lone_surrogates():
    assert merged(piece(0, "c", "remind", '{"text":"\\ud83dあ"}')) == [("remind", {"text": "あ"}, "c")]


def test_text_before_a_native_call_is_kept_in_order():
    out = read(
        chunk({"content": "調べるね。"}), chunk({"tool_calls": [piece(0, "c", "search_memory", "{}")]}, "tool_calls")
    )
    assert out[:2] == [LlmText("調べるね。"), LlmToolCall("search_memory", {}, "c")]
