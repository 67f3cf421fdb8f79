"""An answer that is not the JSON asked for: words are spoken, data and calls never; no words are asked for again."""

from __future__ import annotations

import json
import time

import pytest

from server.engines.base import LlmDone, LlmText, LlmToolCall, ToolSpec
from server.events import ActionChosen, FaceChosen
from server.pipeline.answering import MAX_REPLY_CHARACTERS
from server.pipeline.apology import APOLOGIES
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, FakeTts, answer
from tests.pipeline.turns import kinds, play_turn

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="前に買ったPC、なんだっけ？")
REPLY = "今日はいい天気だから、散歩に行こうよ。"


class Search:
    """A tool for the test."""

    spec = ToolSpec("search_memory", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})

    async def offer(self, asker):
        return 0.0

    async def run(self, arguments, asker):
        return {"memories": []}


def written(text, step=7):
    return FakeLlm(scripts=[answer(text, step)])


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("うん、いいよ。", "うん、いいよ。"),
        ("Sure, let us go.", "Sure, let us go."),
        ("```\nうん、いいよ。\n```", "うん、いいよ。"),
        ("<think>どうしよう</think>うん、いいよ。", "うん、いいよ。"),
        ("ユーザーは散歩に行きたい。{考え中}</think>うん、いいよ。", "うん、いいよ。"),
        ("[笑] うん、いいよ。", "[笑] うん、いいよ。"),
        ("うん、いいよ{^_^}", "うん、いいよ{^_^}"),
        ("{'emotion': 'happy', 'action': 'nod', 'reply': 'うん、いいよ。'}", "うん、いいよ。"),
        ('{emotion: happy, reply: "うん、いいよ。"}', "うん、いいよ。"),
    ],
)
def test_prose_is_spoken_as_it_is_with_a_neutral_face_and_counted(text, reply):
    played = play_turn(WORDS, llm=written(text))
    result = played.result
    assert (result.outcome, result.reply, result.emotion, result.action) == ("ok", reply, "neutral", "none")
    assert (played.trace["answer_was_json"], played.trace.get("llm_retries")) == (False, None)
    assert "".join(played.spoken).replace(" ", "") == reply.replace(" ", "")
    assert kinds(played.events, FaceChosen, ActionChosen) == [FaceChosen(384, "neutral"), ActionChosen(384, "none")]


@pytest.mark.parametrize(
    ("text", "reply", "emotion"),
    [
        ('```json\n{"emotion":"sad","action":"nod","reply":"うん。"}\n```', "うん。", "sad"),
        ('<think>{"reply":"x"}</think>{"emotion":"sad","action":"nod","reply":"うん。"}', "うん。", "sad"),
        ('はい、どうぞ。{"emotion":"sad","action":"nod","reply":"うん。"}', "うん。", "sad"),
        ('{"emotion":["sad"],"action":{"id":"nod"},"reply":"うん。"}', "うん。", "neutral"),
        ('{"emotion":null,"action":3,"reply":"うん。"}', "うん。", "neutral"),
        ('{"emotion":"sad","action":"nod","reply":["うん。","いいよ。"]}', "うん。 いいよ。", "sad"),
        ('{"emotion":"sad","action":"nod","reply":"うん。","reply2":"x","mood":[1]}', "うん。", "sad"),
        ('[{"emotion":"sad","action":"nod","reply":"うん。"}]', "うん。", "sad"),
        ('{"emotion":"sad","action":"nod","reply":"途中', "途中", "sad"),
        ('{"emotion":"sad","action":"nod","reply":"う\\ud83dん\\u0000。"}', "う\ufffdん。", "sad"),
        ('{"emotion":"sad","action":"nod","reply":"😀"}', "😀", "sad"),
    ],
)
def test_what_can_be_made_out_of_json_is_used(text, reply, emotion):
    played = play_turn(WORDS, llm=written(text))
    assert (played.result.outcome, played.result.reply, played.result.emotion) == ("ok", reply, emotion)
    assert played.trace["answer_was_json"] is True
    played.result.reply.encode()


NO_WORDS = [
    "",
    " \n",
    "<think>いつまでも考える",
    "```json\n```",
    "{}",
    "{",
    "[]",
    "{null}",
    '{"emotion":"happy","action":"nod"}',
    '{"emotion":"happy","action":"nod","reply":""}',
    '{"emotion":"happy","action":"nod","reply":"   "}',
    '{"emotion":"happy","action":"nod","reply":null}',
    '{"emotion":"happy","action":"nod","reply":{"mood":"x"}}',
    '{"tool":"search_memory","args":{"query":"PC"}}',
    '{"tool":"search_memory","args":{"query":"PC',
    '{"tool": search_memory, "args": {query: PC}}',
    '{"name":"search_memory","arguments":{"query":"PC"}}',
    '<tool_call>\n{"name":"search_memory","arguments":{"query":"PC"}}\n</tool_call>',
    "<tool_call>search_memory PC</tool_call>",
    '```json\n{"tool":"search_memory","args":{"query":"PC"}}\n```',
    '[{"name":"search_memory","arguments":{}}]',
    'search_memory(query="PC")',
    '[search_memory(query="PC")]',
    'search_memory {"query": PC}',
    "<|tool_call|>search_memory",
    '{"a":' * 3000,
    "{" * 5000,
    "[" * 5000,
]


@pytest.mark.parametrize("text", NO_WORDS, ids=[text[:24] or "nothing" for text in NO_WORDS])
def test_no_words_are_asked_for_once_more_and_never_spoken(text):
    llm = FakeLlm(scripts=[answer(text, 50), answer()])
    tts = FakeTts()
    played = play_turn(WORDS, llm=llm, tts=tts, tools=[Search()])
    assert (played.result.outcome, played.result.reply) == ("ok", REPLY)
    assert "".join(played.spoken) == REPLY
    assert played.trace["llm_retries"] == 1
    first, second = llm.requests
    assert first.messages == second.messages
    assert second.temperature > first.temperature, "the same dice would fall the same way"
    assert second.seed != first.seed


@pytest.mark.parametrize("text", NO_WORDS[:8] + NO_WORDS[13:20], ids=repr)
def test_no_words_twice_are_an_apology(text):
    llm = written(text)
    played = play_turn(WORDS, llm=llm, tools=[Search()])
    assert (played.result.outcome, played.result.error.code) == ("failed", "llm_no_reply")
    assert played.result.reply == APOLOGIES["not_thought"]["ja"]
    assert played.spoken == [played.result.reply]
    assert len(llm.requests) == 2
    assert "answer_was_json" not in played.trace


def test_a_call_where_no_tool_was_offered_is_no_answer():
    call = [LlmToolCall("search_memory", {"query": "PC"}), LlmDone("tool_calls")]
    llm = FakeLlm(scripts=[call])
    played = play_turn(WORDS, llm=llm, tools=[Search()])
    assert played.result.error.code == "llm_no_reply"
    assert len(llm.requests) == 3, "the one search of a small model, the last word, and that once more"
    assert [bool(request.tools) for request in llm.requests] == [True, False, False]


def test_words_before_a_call_are_not_part_of_the_answer():
    call = [LlmText("調べてみるね。"), LlmToolCall("search_memory", {"query": "PC"}), LlmDone("tool_calls")]
    played = play_turn(WORDS, llm=FakeLlm(scripts=[call, answer("見つからなかったよ。")]), tools=[Search()])
    assert (played.result.reply, played.spoken) == ("見つからなかったよ。", ["見つからなかったよ。"])


@pytest.mark.parametrize("sentence", ["今日はとてもいい天気だね。", "What a nice day it is. "])
def test_a_huge_reply_ends_with_a_sentence_inside_the_limit(sentence):
    text = json.dumps({"emotion": "happy", "action": "nod", "reply": sentence * 700}, ensure_ascii=False)
    llm = FakeLlm(scripts=[[*answer(text, 40), LlmText("never read")]])
    played = play_turn(WORDS, llm=llm)
    reply = played.result.reply
    assert MAX_REPLY_CHARACTERS * 0.9 < len(reply) <= MAX_REPLY_CHARACTERS
    assert reply.endswith(sentence.strip())
    assert (sentence * 700).startswith(reply)
    assert "".join(played.spoken).replace(" ", "") == reply.replace(" ", "")
    assert played.result.outcome == "ok"


@pytest.mark.parametrize(
    "text",
    ["あ" * 1_000_000, "a" * 1_000_000, '{"emotion":"happy","action":"nod","reply":"' + "あ" * 1_000_000],
    ids=len,
)
@pytest.mark.parametrize("step", [1_000_000, 1000])
def test_an_endless_answer_is_neither_read_nor_spoken_to_its_end(text, step):
    began = time.perf_counter()
    played = play_turn(WORDS, llm=FakeLlm(scripts=[answer(text, step)]))
    assert 0 < len(played.result.reply) <= MAX_REPLY_CHARACTERS
    assert played.result.outcome == "ok"
    assert time.perf_counter() - began < 10


def test_a_reply_that_nobody_can_say_is_sent_as_text_without_sound_and_without_error():
    played = play_turn(WORDS, llm=written('{"emotion":"happy","action":"nod","reply":"😀🎉"}'))
    assert (played.result.outcome, played.result.reply, played.result.error) == ("ok", "😀🎉", None)
    assert (played.result.speech_duration_ms, played.spoken) == (None, [])
    assert played.states == ["listening", "thinking", "idle"]


def test_ids_that_the_persona_lacks_are_counted_but_words_in_their_place_are_not_kept():
    text = json.dumps(
        {"emotion": "ecstatic", "action": "田中さんの電話は 090-1234", "reply": "わあ"}, ensure_ascii=False
    )
    played = play_turn(WORDS, llm=written(text))
    assert played.trace["unknown_ids"] == ["emotion:ecstatic", "action:?"]
