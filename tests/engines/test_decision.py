"""The decision grammar's schema, and reading back what was written."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from server.engines.base import LlmText, LlmToolCall, ToolSpec
from server.engines.llm.decision import DecisionReader, decision_schema, whole_characters
from server.errors import LlmError

pytestmark = pytest.mark.unit

ANSWER = {"type": "object", "properties": {"emotion": {"enum": ["happy"]}, "reply": {"type": "string"}}}
SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
READ = ToolSpec("read_memory_source", "Read.", {"type": "object", "properties": {"memory_id": {"type": "string"}}})


def read(pieces, tools=("search_memory",)):
    reader = DecisionReader(tools)
    deltas = [delta for piece in pieces for delta in reader.feed(piece)]
    return deltas + reader.finish()


def text_of(deltas):
    assert all(isinstance(delta, LlmText) for delta in deltas)
    return "".join(delta.text for delta in deltas)


def test_without_tools_the_schema_is_the_answer():
    assert decision_schema(ANSWER, ()) is ANSWER
    assert decision_schema(None, ()) is None


def test_each_tool_is_a_branch_and_the_answer_is_the_last():
    branches = decision_schema(ANSWER, (SEARCH, READ))["oneOf"]
    assert [b["properties"].get("tool", {}).get("const") for b in branches] == [
        "search_memory",
        "read_memory_source",
        None,
    ]
    assert branches[0]["properties"]["args"] == SEARCH.parameters
    assert list(branches[0]["properties"]) == ["tool", "args"] == branches[0]["required"]
    assert branches[2] is ANSWER


def test_tools_with_free_text_are_refused():
    with pytest.raises(LlmError) as caught:
        decision_schema(None, (SEARCH,))
    assert caught.value.code == "llm_failed"


def test_without_tools_every_piece_passes_at_once():
    reader = DecisionReader(())
    assert reader.feed('{"tool":"') == [LlmText('{"tool":"')]
    assert reader.feed("") == []
    assert reader.finish() == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "answer",
    [
        '{"emotion":"happy","action":"none","reply":"うん、元気だよ😀。"}',
        '{ "emotion" : "sad" }',
        "ただの文だよ。",
        "Just text, with {braces} later.",
        '{"name":"ぼく","reply":"x"}',
        '{"tool":42}',
        "",
        "{",
        '{"emo',
        "<b>太字</b>",
    ],
)
def test_an_answer_passes_unchanged(answer, size):
    assert text_of(read([answer[i : i + size] for i in range(0, len(answer), size)])) == answer


def test_an_answer_streams_as_soon_as_its_first_key_is_known():
    reader = DecisionReader(["search_memory"])
    assert reader.feed('{"emotion') == []
    assert reader.feed('":') == [LlmText('{"emotion":')]
    assert reader.feed('"happy"') == [LlmText('"happy"')]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "written",
    [
        '{"tool":"search_memory","args":{"query":"富士通の\\"PC\\" {1}"}}',
        '{"name": "search_memory", "arguments": {"query": "富士通の\\"PC\\" {1}"}}',
        '<think>調べよう</think>\n```json\n{"tool":"search_memory","args":{"query":"富士通の\\"PC\\" {1}"}}\n```',
        '<tool_call>\n{"name":"search_memory","arguments":"{\\"query\\":\\"富士通の\\\\\\"PC\\\\\\" {1}\\"}"}',
        '{"tool":"search_memory","args":{"query":"\\u5bcc\\u58eb\\u901a\\u306e\\"PC\\" {1}"}} そのあとの文',
    ],
)
def test_a_tool_call_comes_whole_and_alone(written, size):
    deltas = read([written[i : i + size] for i in range(0, len(written), size)])
    assert deltas == [LlmToolCall("search_memory", {"query": '富士通の"PC" {1}'})]


def test_a_call_of_an_unknown_tool_is_still_a_call():
    assert read(['{"tool":"search_memroy","args":{}}']) == [LlmToolCall("search_memroy", {})]


def test_a_call_without_arguments_has_none():
    assert read(['{"tool":"search_memory"}']) == [LlmToolCall("search_memory", {})]


@pytest.mark.parametrize("arguments", ['["富士通"]', '"富士通"', "null", "3"])
def test_arguments_that_are_no_object_are_an_error(arguments):
    with pytest.raises(LlmError, match="search_memory") as caught:
        read([json.dumps({"tool": "search_memory"})[:-1] + f',"args":{arguments}}}'])
    assert caught.value.retryable


def test_a_cut_tool_call_is_an_error():
    with pytest.raises(LlmError, match="cut") as caught:
        read(['{"tool":"search_memory","args":{"query":"富士'])
    assert caught.value.retryable


def test_halves_of_characters_are_dropped():
    assert whole_characters("か\ufffdき\ud83dく😀") == "かきく😀"
    call = read(['{"tool":"search_memory","args":{"query":"\\ud83dく\\ud83d\\ude00","list":["\\udc00"],"n":1}}'])[0]
    assert call.arguments == {"query": "く😀", "list": [""], "n": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        "NaN",
        '{"query":NaN}',
        '{"query":1e999}',
        '"[[["',
        "3",
        '{"query":' + "[" * 65 + "]" * 65 + "}",
        '"{\\"a\\":NaN}"',
    ],
)
def test_arguments_that_are_not_a_json_object_are_an_error_worth_a_retry(arguments):
    with pytest.raises(LlmError, match="arguments for search_memory") as caught:
        read([f'{{"tool":"search_memory","args":{arguments}}}'])
    assert caught.value.retryable


@pytest.mark.parametrize("levels", [900, 3000, 7000])
def test_a_call_that_is_nested_too_deeply_is_an_error_worth_a_retry(levels):
    with pytest.raises(LlmError, match="nested too deeply") as caught:
        read(['{"tool":"search_memory","args":{"query":' + "[" * levels + "]" * levels + "}}"])
    assert caught.value.retryable


def test_a_call_whose_name_is_written_twice_is_an_error():
    with pytest.raises(LlmError, match="no name"):
        read(['{"tool":"search_memory","tool":["x"],"args":{}}'])


@pytest.mark.parametrize("begun", ['{"tool":"search_memory","args":{"query":"', "<think>"])
def test_what_never_ends_is_not_kept_for_ever(begun):
    reader = DecisionReader(["search_memory"])
    out = []
    with suppress(LlmError):
        for piece in [begun, *["a}" * 100] * 200]:
            out += reader.feed(piece)
    assert len(reader._undecided) < 20_000
