"""Reading an answer while it is written: every way a model may break the format."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.pipeline.answer import ActionRead, AnswerReader, EmotionRead, ReplyRead
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
    "text", ["", "   ", "<think>never ends", "{}", '{"foo": 1}', "{", "[]", '{"reply": 5}', '{"a":{"b":']
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
    storable = clean_text(reply)
    assert (answer.emotion, answer.action, answer.reply) == (emotion, action, storable.strip())
    assert spoken(parts) == storable
