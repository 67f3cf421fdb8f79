"""Thinking never reaches the reader; calls written as text are calls; answers pass unchanged."""

from __future__ import annotations

import pytest

from server.engines.base import LlmText, LlmToolCall, ToolSpec
from server.engines.llm.openai_content import ContentReader
from server.errors import LlmError
from server.pipeline.answer import AnswerReader

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
        (f"元気かな {{'a': 1}} と聞かれた。\n</think>\n\n{ANSWER}", ANSWER),
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


def test_prose_streams_from_the_end_of_its_first_sentence():
    reader = ContentReader(())
    assert reader.feed("元気だよ") == []
    assert reader.feed("。今日は") == [LlmText("元気だよ。今日は")]
    assert reader.feed("いい天気") == [LlmText("いい天気")]
    assert reader.feed("だね<th") == [LlmText("だね")]
    assert reader.feed("ree") == [LlmText("<three")]
    assert reader.finish() == []


def test_prose_without_sentences_streams_too():
    reader = ContentReader(())
    assert sum(len(text_of(reader.feed("ああ "))) for _ in range(100)) == 300


@pytest.mark.parametrize("data", ['{"emotion":"sad","reply":"え"}', "```json\n{}\n```"])
def test_prose_from_a_brace_on_waits_for_its_end(data):
    reader = ContentReader(())
    assert reader.feed(f"下書きだよ。{data}") == [LlmText("下書きだよ。")]
    assert reader.feed("どうかな。") == []
    assert reader.finish() == [LlmText(f"{data}どうかな。")]


def test_prose_that_holds_a_brace_and_never_ends_does_not_fill_the_memory():
    reader = ContentReader(())
    given = sum(len(text_of(reader.feed("あ{。" * 1000))) for _ in range(20))
    assert given > 40_000


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("thought", ["何を言おう。{'a': 1}かな。", "Hmm. Let me think."])
def test_thinking_that_was_given_as_prose_ends_with_its_tag(thought, size):
    """The reader of the answer drops what stands before the tag."""
    before, tag, after = text_of(read(f"{thought}\n</think>\n{ANSWER}", size)).partition("</think>")
    assert thought.startswith(before.strip())
    assert (tag, after) == ("</think>", ANSWER)
    reader = AnswerReader({"happy"}, {"none"})
    reader.feed(before + tag + after)
    assert reader.finish()[0].reply == "うん、元気だよ😀。"


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "reply",
    [
        "HTMLの<think>タグだよ。",
        "そのタグは</think>で閉じるよ。",
        "<think>と</think>の間は秘密。",
        "<tool_call>って書くんだよ。",
        "}<tool_call>{</tool_call>",
        '\\"}<think>\\\\',
    ],
)
def test_tags_inside_an_object_are_its_text(reply, size):
    written = f'{{"emotion":"happy","list":[{{}}],"reply":"{reply}"}}'
    assert text_of(read(written, size)) == written
    assert text_of(read(f"```json\n{written}\n```", size)) == f"```json\n{written}\n```"
    assert text_of(read(f"<think>{ANSWER}</think>{written}", size)) == written


@pytest.mark.parametrize("size", [1, 1000])
def test_tags_inside_a_bare_call_are_its_text(size):
    written = '{"tool":"search_memory","args":{"query":"<tool_call>と</think>"}}'
    assert read(written, size) == [LlmToolCall("search_memory", {"query": "<tool_call>と</think>"})]


@pytest.mark.parametrize("size", [1, 1000])
def test_tags_after_an_object_are_tags_again(size):
    written = f'{ANSWER}<think>よし</think><tool_call>{{"name":"search_memory","arguments":{{}}}}</tool_call>'
    *said, call = read(written, size)
    assert text_of(said) == ANSWER
    assert call == LlmToolCall("search_memory", {})


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        (ANSWER, True),
        (f"<think>x</think>```json\n{ANSWER}", True),
        (ANSWER[:-1], False),
        ('{"reply":"}"', False),
        ('{"tool":"search_memory","args":{}}', False),
        (f'{{"plan":1}}\n\n{ANSWER}', True),
        (f'{{"plan":1}}\n\n{ANSWER[:-1]}', False),
        (f"{ANSWER}\n```\nあ", True),
        ("元気だよ。{}", False),
        ("```python\nd = {}\n```", False),
    ],
)
def test_an_answer_is_whole_when_its_object_is_closed(written, whole):
    reader = ContentReader((SEARCH,))
    for character in written:
        reader.feed(character)
    assert reader.whole is whole


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
    assert text_of(out[:-2]).strip() == "調べるね。"
    assert out[-2:] == [
        LlmToolCall("search_memory", {"query": "猫"}),
        LlmToolCall("remind", {"minutes": 3, "text": "お茶"}),
    ]


def test_a_call_of_an_unknown_tool_in_tags_is_still_a_call():
    assert read('<tool_call>{"name":"serch","arguments":{}}</tool_call>') == [LlmToolCall("serch", {})]


def test_without_tools_on_offer_a_call_in_tags_is_dropped():
    assert read(f'<tool_call>{{"name":"x","arguments":{{}}}}</tool_call>{ANSWER}', tools=()) == [LlmText(ANSWER)]


@pytest.mark.parametrize(
    "block",
    [
        "はい",
        '{"name":"search_memory","arguments":{"que',
        '{"name":"search_memory","arguments":3}',
        '{"name":"search_memory","arguments":{"query":NaN}}',
        '{"name":"search_memory","arguments":{"query":' + "[" * 3000 + "]" * 3000 + "}}",
        '{"name":"search_memory","arguments":"' + "[" * 3000 + '"}',
        "<function=remind><parameter=minutes>Infinity</parameter></function>",
        "<function=remind><parameter=text>" + "あ" * 20_000,
    ],
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


def test_more_calls_than_any_answer_needs_are_an_error():
    call = '<tool_call>{"name":"search_memory","arguments":{}}</tool_call>'
    assert len(read(call * 32)) == 32
    with pytest.raises(LlmError, match="without end"):
        read(call * 33)


@pytest.mark.parametrize("opening", ["<tool_call>", '{"tool":"search_memory","args":{"query":"'])
def test_a_call_that_never_ends_is_an_error_worth_a_retry(opening):
    reader = ContentReader((SEARCH,))
    reader.feed(opening)
    for _ in range(8):
        assert reader.feed("a}" * 1000) == []
    with pytest.raises(LlmError, match="no end") as caught:
        reader.feed("a}" * 1000)
    assert caught.value.retryable
