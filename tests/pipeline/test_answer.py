"""Reading an answer while it is written: every way a model may break the format."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.pipeline.answer import ActionRead, AnswerReader, EmotionRead, ReplyRead
from server.pipeline.visible import is_visible
from server.storage.types import clean_text

pytestmark = pytest.mark.unit

EMOTIONS = {"neutral", "happy", "sad"}
ACTIONS = {"none", "nod", "look_left"}
WHOLE = '{"emotion":"happy","action":"nod","reply":"やあ、元気だよ。"}'


def read(text: str, step: int = 1):
    reader = AnswerReader(EMOTIONS, ACTIONS)
    parts = []
    for start in range(0, len(text), step):
        parts += reader.feed(text[start : start + step])
    answer, rest = reader.finish()
    return answer, parts + rest


def spoken(parts) -> str:
    return "".join(part.text for part in parts if isinstance(part, ReplyRead))


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_parts_come_in_order_whatever_the_chunk_size(step):
    answer, parts = read(WHOLE, step)
    assert (answer.emotion, answer.action, answer.reply) == ("happy", "nod", "やあ、元気だよ。")
    assert parts[0] == EmotionRead("happy")
    assert parts[1] == ActionRead("nod")
    assert spoken(parts) == "やあ、元気だよ。"
    assert answer.was_json


def test_the_emotion_is_known_before_the_first_word():
    reader = AnswerReader(EMOTIONS, ACTIONS)
    assert reader.feed('{"emotion":"ha') == []
    assert reader.feed('ppy","act') == []
    assert reader.feed('ion":"no') == [EmotionRead("happy")]
    assert reader.feed('d","reply":"や') == [ActionRead("nod"), ReplyRead("や")]


@pytest.mark.parametrize(
    ("text", "reply", "emotion"),
    [
        (f"```json\n{WHOLE}\n```", "やあ、元気だよ。", "happy"),
        (f"<think>{{hm}} let me see</think>{WHOLE}", "やあ、元気だよ。", "happy"),
        (f"Sure! {WHOLE} Anything else?", "やあ、元気だよ。", "happy"),
        ('{"emotion":"sad","action":"none","reply":"一行目\n二行目"}', "一行目 二行目", "sad"),
        ('{"reply":"先に返事","emotion":"sad"}', "先に返事", "sad"),
        ('{"emotion":"sad","action":"none","reply":"途中で切れ', "途中で切れ", "sad"),
        ('{"emotion":"HAPPY ","action":"none","reply":"x"}', "x", "happy"),
        ('{"emotion":"sad","action":"none","reply":"\\u3042\\n\\"い\\""}', 'あ\n"い"', "sad"),
        ('{"emotion":"sad","action":"none","reply":"\\ud83d\\ude00笑"}', "😀笑", "sad"),
    ],
)
def test_what_models_really_write_is_understood(text, reply, emotion):
    answer, parts = read(text)
    assert (answer.reply, answer.emotion) == (reply, emotion)
    assert spoken(parts).strip() == reply
    assert answer.was_json


@pytest.mark.parametrize(
    "text", ["こんにちは！元気？", "```\nこんにちは！元気？\n```", "<think>...</think>こんにちは！元気？"]
)
def test_plain_text_is_spoken_and_counted(text):
    answer, parts = read(text)
    assert (answer.reply, answer.emotion, answer.action) == ("こんにちは！元気？", "neutral", "none")
    assert spoken(parts) == "こんにちは！元気？"
    assert not answer.was_json


def test_ids_outside_the_persona_become_neutral_and_none_and_are_counted():
    answer, parts = read('{"emotion":"ecstatic","action":"fly","reply":"わあ"}')
    assert (answer.emotion, answer.action) == ("neutral", "none")
    assert answer.unknown_ids == ("emotion:ecstatic", "action:fly")
    assert parts[:2] == [EmotionRead("neutral"), ActionRead("none")]


@pytest.mark.parametrize(
    "text", ["", "   ", "<think>never ends", "{}", '{"foo": 1}', "{", "[]", '{"reply": true}', '{"a":{"b":']
)
def test_nothing_to_say_is_an_empty_reply(text):
    answer, _ = read(text)
    assert answer.reply in ("", "[]")
    assert (answer.emotion, answer.action) == ("neutral", "none")


@given(st.text(max_size=200), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_any_text_is_survived_and_what_was_spoken_is_the_reply(text, step):
    answer, parts = read(text, step)
    assert spoken(parts).strip() == answer.reply
    assert sum(isinstance(part, EmotionRead) for part in parts) == 1
    assert sum(isinstance(part, ActionRead) for part in parts) == 1


@given(st.text(max_size=60), st.sampled_from(sorted(EMOTIONS)), st.sampled_from(sorted(ACTIONS)), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_any_reply_comes_back_whole(reply, emotion, action, step):
    import json

    whole = json.dumps({"emotion": emotion, "action": action, "reply": reply}, ensure_ascii=False)
    answer, parts = read(whole, step)
    storable = clean_text(reply) if is_visible(clean_text(reply)) else ""
    assert (answer.emotion, answer.action, answer.reply) == (emotion, action, storable.strip())
    assert spoken(parts) == storable


# (what the model wrote, the reply, the emotion)
NOT_THE_FORMAT = [
    # prose with braces
    ("Pythonの空の辞書は {} と書くよ。", "Pythonの空の辞書は {} と書くよ。", "neutral"),
    ("{} は空の辞書だよ。", "{} は空の辞書だよ。", "neutral"),
    ('例えば {"name": "太郎"} みたいに書くんだよ。', '例えば {"name": "太郎"} みたいに書くんだよ。', "neutral"),
    ('{"name": "太郎"} みたいに書くよ。', '{"name": "太郎"} みたいに書くよ。', "neutral"),
    ("{'name': '太郎'} みたいに書くよ。", "{'name': '太郎'} みたいに書くよ。", "neutral"),
    ('例えば {"text": "太郎"} だよ。', '例えば {"text": "太郎"} だよ。', "neutral"),
    ('["a", "b"] はリストだよ。', '["a", "b"] はリストだよ。', "neutral"),
    (
        "こう書くよ。\n```python\nd = {}\n```\nわかった？",
        "こう書くよ。\n```python\nd = {}\n```\nわかった？",
        "neutral",
    ),
    ("search_memory(を使って調べるよ、と言われてもね。", "search_memory(を使って調べるよ、と言われてもね。", "neutral"),
    ("search_memory という道具（{}）を使うよ。", "search_memory という道具（{}）を使うよ。", "neutral"),
    # more than one object
    ('{"emotion":"happy"}\n{"action":"nod","reply":"うん。"}', "うん。", "happy"),
    ('{"plan":1}\n\n{"emotion":"sad","action":"nod","reply":"うん。"}', "うん。", "sad"),
    ('{"plan":{"a":[1]}}{"emotion":"sad","reply":"うん。"}{"reply":"いや。"}', "うん。", "sad"),
    ('{"plan":1}\nそうだね。', "そうだね。", "neutral"),
    ('{"reply":""}\n{"reply":"うん。"}', "うん。", "neutral"),
    ('{"壊れた" だよ。}\n{"emotion":"sad","reply":"うん。"}', "うん。", "sad"),
    ('{"壊れた だよ。\n{"emotion":"sad","reply":"うん。"}', "うん。", "sad"),
    ('{"name":"search_memory","arguments":{"query":"x"}}\n{"emotion":"sad","reply":"うん。"}', "うん。", "sad"),
    # other keys
    ('{"emotion":"happy","action":"nod","text":"うん。"}', "うん。", "happy"),
    ('{"emotion":"happy","action":"nod","answer":"うん。"}', "うん。", "happy"),
    ('{"Emotion":"happy","ACTION":"nod","Reply":"うん。"}', "うん。", "happy"),
    ('{"response":"うん。"}', "うん。", "neutral"),
    ('{"message":{"role":"assistant","content":"うん。"}}', "うん。", "neutral"),
    ('```json\n{"content":"うん。"}\n```', "うん。", "neutral"),
    ('{"answer":{"emotion":"happy","action":"nod","reply":"うん。"}}', "うん。", "happy"),
    ('{"emotion":"happy","reply":{"text":"うん。"}}', "うん。", "happy"),
    ('{"reply":{"emotion":"happy","text":"うん。"}}', "うん。", "happy"),
    ('{"emotion":"happy","reply":42}', "42", "happy"),
    ('{"emotion":"happy","reply":[{"text":"うん。"},"いいよ。"]}', "うん。 いいよ。", "happy"),
    ('{"emotion":"happy","reply":"うん。","reply":"いや、だめ。"}', "うん。", "happy"),
    ('{"emotion":"happy","reply":"It\\\'s fine."}', "It's fine.", "happy"),
    # tags inside a string are text, outside they are thinking
    ('{"emotion":"happy","reply":"<think>は考えるタグだよ。"}', "<think>は考えるタグだよ。", "happy"),
    ('{"emotion":"happy","reply":"</think>で閉じるよ。"}', "</think>で閉じるよ。", "happy"),
    ('{"emotion":"happy","reply":"<think>と</think>の間だよ。"}', "<think>と</think>の間だよ。", "happy"),
    ('{"emotion":"happy","reply":"<tool_call>って書くよ。"}', "<tool_call>って書くよ。", "happy"),
    ('<think>{"reply":"だめ"}</think>{"emotion":"sad","reply":"うん。"}', "うん。", "sad"),
    ('<thinking>「{"a」</thinking>うん。', "うん。", "neutral"),
    ('どうしよう {"a":1}</think>{"emotion":"sad","reply":"うん。"}', "うん。", "sad"),
]


@pytest.mark.parametrize("step", [1, 5, 10_000])
@pytest.mark.parametrize(("text", "reply", "emotion"), NOT_THE_FORMAT, ids=[text for text, _, _ in NOT_THE_FORMAT])
def test_an_answer_in_another_form_keeps_its_words(text, reply, emotion, step):
    answer, parts = read(text, step)
    assert (answer.reply, answer.emotion) == (reply, emotion)
    assert spoken(parts).strip() == answer.reply


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"search_memory","arguments":{"text":"PC"}}',
        '{"tool":"search_memory","message":"PC"}',
        '調べるね。{"name":"search_memory","arguments":{"query":"PC"}}',
        '調べるね。\n<tool_call>{"name":"other","arguments":{}}</tool_call>',
        '{"tool_calls":[{"function":{"name":"search_memory"}}],"content":"x"}',
        "search_memory()",
        '{"a":1}\n{"b":2}',
        '["a", {"b": "c"}]',
        '{"emotion":"happy","reply":"\u3164\u2800"}',
        '{"emotion":"happy","reply":"\uffa0 \u115f\u1160"}',
        "\u3164\u2800",
        '```json\n{"items":["a"]}\n```',
    ],
)
@pytest.mark.parametrize("step", [1, 10_000])
def test_calls_data_and_blanks_are_no_words(text, step):
    reader = AnswerReader(EMOTIONS, ACTIONS, ("search_memory",))
    parts = []
    for start in range(0, len(text), step):
        parts += reader.feed(text[start : start + step])
    answer, rest = reader.finish()
    assert answer.reply == ""
    assert spoken(parts + rest) == ""


def test_a_long_answer_in_tiny_pieces_is_read_quickly():
    began = time.perf_counter()
    read('{"emotion":"happy","action":"nod","reply":"' + "}" * 4000 + '"}')
    read("ああ{" * 1000)
    read("<think>" * 600)
    read('{"a"}' * 800)
    read('{"a":' * 800)
    read('{"a' * 1000)
    assert time.perf_counter() - began < 5
