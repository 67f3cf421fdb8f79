"""Thinking never reaches the reader; calls written as text are calls; answers pass unchanged."""

from __future__ import annotations

import pytest

from server.engines.base import LlmText, LlmToolCall, ToolSpec
from server.engines.llm.openai_content import ContentReader
from server.errors import LlmError

pytestmark = pytest.mark.unit

SEARCH = ToolSpec("search_memory", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
REMIND = ToolSpec(
    "remind", "Remind.", {"type": "object", "properties": {"minutes": {"type": "integer"}, "text": {"type": "string"}}}
)
ANSWER = '{"emotion":"happy","action":"none","reply":"うん、元気だよ😀。"}'


def read(text, size=1000, tools=(SEARCH, REMIND)):
    reader = ContentReader(tools)
    out = [item for start in range(0, len(text), size) for item in reader.feed(text[start : start + size])]
    return out + reader.finish()


def text_of(out):
    assert all(isinstance(item, LlmText) for item in out), out
    return "".join(item.text for item in out)


@pytest.mark.parametrize("tools", [(), (SEARCH,)])
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (ANSWER, ANSWER),
        (f"<think>\n元気かな？ {{}} うん。\n</think>\n\n{ANSWER}", ANSWER),
        (f"<think>\n\n</think>\n\n{ANSWER}", ANSWER),
        (f"元気かな？ {{'a': 1}} と聞かれた。\n</think>\n\n{ANSWER}", ANSWER),
        (f"<think>a</think><think>b</think>{ANSWER}", ANSWER),
        ("<think>\nまだ考えている", ""),
        ("<think>", ""),
        ("<thi", "<thi"),
        (f"```json\n{ANSWER}\n```", f"```json\n{ANSWER}\n```"),
        ("元気だよ。", "元気だよ。"),
        ("I <3 you & < that.", "I <3 you & < that."),
        ('{"reply":"a<b"}', '{"reply":"a<b"}'),
        ("", ""),
        ("   ", ""),
    ],
)
def test_answers_pass_and_thinking_does_not(written, expected, size, tools):
    assert text_of(read(written, size, tools)) == expected


def test_an_answer_streams_while_it_is_written():
    reader = ContentReader(())
    assert reader.feed("<think>x</think>\n") == []
    assert reader.feed('{"emotion":') == [LlmText('{"emotion":')]
    assert reader.feed('"happy"') == [LlmText('"happy"')]


def test_prose_waits_for_its_end_because_it_may_be_thinking():
    reader = ContentReader(())
    assert reader.feed("元気だよ。") == []
    assert reader.finish() == [LlmText("元気だよ。")]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "written",
    [
        '{"tool":"search_memory","args":{"query":"富士通のPC"}}',
        '{"name": "search_memory", "arguments": {"query": "富士通のPC"}}',
        '```json\n{"name": "search_memory", "arguments": {"query": "富士通のPC"}}\n```',
        '<tool_call>\n{"name": "search_memory", "arguments": {"query": "富士通のPC"}}\n</tool_call>',
        '<tool_call>\n{"name": "search_memory", "arguments": {"query": "富士通のPC"}}',
        '<think>うん <tool_call></think><tool_call>{"name":"search_memory","arguments":{"query":"富士通のPC"}}',
        "<tool_call>\n<function=search_memory>\n<parameter=query>\n富士通のPC\n</parameter>\n</function>\n</tool_call>",
        "<tool_call><function=search_memory><parameter=query>富士通のPC</function></tool_call>",
    ],
)
def test_a_call_written_as_text_is_a_call(written, size):
    assert read(written, size) == [LlmToolCall("search_memory", {"query": "富士通のPC"})]


@pytest.mark.parametrize("size", [1, 1000])
def test_words_before_a_call_and_several_calls(size):
    written = (
        '調べるね。\n<tool_call>{"name":"search_memory","arguments":{"query":"猫"}}</tool_call>\n'
        "<tool_call><function=remind><parameter=minutes>3</parameter><parameter=text>お茶</parameter></function></tool_call>"
    )
    out = read(written, size)
    assert out == [
        LlmText("調べるね。\n"),
        LlmToolCall("search_memory", {"query": "猫"}),
        LlmToolCall("remind", {"minutes": 3, "text": "お茶"}),
    ]


def test_a_call_of_an_unknown_tool_in_tags_is_still_a_call():
    assert read('<tool_call>{"name":"serch","arguments":{}}</tool_call>') == [LlmToolCall("serch", {})]


def test_without_tools_on_offer_a_call_in_tags_is_dropped():
    assert read(f'<tool_call>{{"name":"x","arguments":{{}}}}</tool_call>{ANSWER}', tools=()) == [LlmText(ANSWER)]


@pytest.mark.parametrize(
    "block", ["はい", '{"name":"search_memory","arguments":{"que', '{"name":"search_memory","arguments":3}']
)
def test_a_call_that_cannot_be_read_is_an_error_worth_a_retry(block):
    with pytest.raises(LlmError) as caught:
        read(f"<tool_call>{block}</tool_call>")
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("元気だ", "元気だ"),
        ('{"reply":"元気だ', ""),
        ("<think>まだ", ""),
        ('<tool_call>{"name":"search_memory"', ""),
        ('{"tool":"search_memory","args":{"q', ""),
    ],
)
def test_what_can_be_said_of_a_stream_that_broke_off(written, expected):
    reader = ContentReader((SEARCH,))
    reader.feed(written)
    assert text_of(reader.cut()) == expected
