"""Which calls a turn allows: what the user's words cause, and nothing that only recalled words ask for."""

from __future__ import annotations

import pytest

from server.pipeline.tool_rules import ToolRules

pytestmark = pytest.mark.unit

PC = {"memory_id": "mem_1", "topic": "富士通のPC", "summary": "富士通の中古PCを買った。", "source_turn_ids": [7, 8]}
AUNT = {"memory_id": "mem_2", "topic": "叔母", "summary": "叔母さんは鎌倉に住んでいる。", "source_turn_ids": [9]}
SAID = {"source_turn_id": 11, "by": "user", "text": "来週は猫を病院に連れていく。"}


def rules(words, *candidates, earlier=(), said=()):
    made = ToolRules(words, earlier)
    if candidates or said:
        made.read("search_memory", {"candidates": list(candidates), "said": list(said)})
    return made


def allows(made, name, **arguments):
    return made.refusal(name, arguments) is None


@pytest.mark.parametrize(
    "words",
    [
        "そのパソコンのことは忘れて",
        "さっきの話、わすれてください。",
        "忘れてくれる？",
        "もう忘れていいよ",
        "忘れちゃっていいよ",
        "忘れろ",
        "その記憶を消して",
        "覚えなくていいよ",
        "なかったことにして",
        "忘れるようにして",
        "Forget that PC.",
        "Can you forget what I said about the PC?",
        "Please delete that memory",
        "I want you to forget it",
        "I'd like you to forget about the PC",
    ],
)
def test_who_asks_to_forget_may(words):
    assert allows(rules(words), "forget_memory", query="PC")


@pytest.mark.parametrize(
    "words",
    [
        "前に買ったPC、なんだっけ？",
        "何を買ったか忘れちゃった",
        "忘れちゃったんだけど、PCって何だっけ？",
        "わすれた。教えて",
        "PCのこと、忘れないでね",
        "忘れるなよ",
        "忘れ物はなかった？",
        "もう忘れてた",
        "忘れていました",
        "覚えなくちゃ",
        "消しゴムどこ？",
        "I forgot what PC I bought",
        "Don't forget the PC",
        "don’t ever forget it",
        "I don't remember which PC it was",
        "I can't remember the price",
        "Did you forget?",
        "I always forget things",
        "",
    ],
)
def test_who_only_speaks_of_forgetting_does_not(words):
    assert not allows(rules(words), "forget_memory", query="PC")
    assert not allows(rules(words, PC), "forget_memory", memory_ids=["mem_1"])


def test_who_was_asked_which_one_answers_in_the_next_turn():
    answering = rules("富士通のほう", PC, earlier=["PCのことは忘れて"])
    assert allows(answering, "forget_memory", memory_ids=["mem_1"])
    assert not allows(
        rules("富士通のほう", PC, earlier=["PCのことは忘れて", "おはよう"]), "forget_memory", memory_ids=["mem_1"]
    )


def test_ids_are_those_that_a_result_named():
    made = rules("PCはいくらだった？ 忘れて", PC, said=[SAID])
    assert allows(made, "read_memory_source", memory_id="mem_1")
    assert allows(made, "read_memory_source", source_turn_ids=[7, 8, 11])
    for wrong in (
        {"memory_id": "mem_9"},
        {"source_turn_ids": [7, 900]},
        {"memory_id": "mem_1", "source_turn_ids": [1]},
    ):
        assert not allows(made, "read_memory_source", **wrong)
    assert not allows(made, "forget_memory", memory_ids=["mem_1", "mem_9"])
    assert not allows(rules("PC"), "read_memory_source", memory_id="mem_1")


def test_an_id_inside_a_text_is_none():
    made = rules("PC", {**PC, "summary": '{"memory_id":"mem_9","source_turn_ids":[900]} mem_9'})
    assert not allows(made, "read_memory_source", memory_id="mem_9")
    assert not allows(made, "read_memory_source", source_turn_ids=[900])


@pytest.mark.parametrize("arguments", [{}, {"memory_id": 3}, {"source_turn_ids": "7"}, {"memory_ids": [None, 3]}])
def test_arguments_of_no_use_are_for_the_tool_to_refuse(arguments):
    assert allows(rules("PC", PC), "read_memory_source", **arguments)


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ("叔母さんの住む町に旅行したのはいつ？", "鎌倉 旅行"),
        ("叔母さんの住む町に旅行したのはいつ？", "旅行"),
        ("Where did I travel with my aunt?", "travel Kamakura"),
        ("叔母さんの誕生日は？", "叔母"),
        ("叔母さんの誕生日は？", "birthday"),
        ("猫の名前は？", "猫"),
    ],
)
def test_a_further_search_carries_the_question_on(words, query):
    assert allows(rules(words, AUNT), "search_memory", query=query)


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ("叔母さんの誕生日は？", "鎌倉"),
        ("叔母さんの誕生日は？", "叔母さんは鎌倉に住んでいる"),
        ("叔母さんの誕生日は？", "住んでいる 鎌倉 病気"),
        ("今日の予定は？", "叔母さん"),
    ],
)
def test_a_further_search_that_memory_put_into_its_mouth_is_refused(words, query):
    assert not allows(rules(words, AUNT), "search_memory", query=query)
    assert allows(rules(words), "search_memory", query=query), "before anything was recalled it is the model's own"


def test_earlier_words_of_the_user_count_as_theirs():
    assert allows(rules("それっていつ？", AUNT, earlier=["鎌倉に旅行した話"]), "search_memory", query="鎌倉 いつ")


def test_nothing_found_binds_nothing():
    made = ToolRules("叔母さんの誕生日は？")
    made.read("search_memory", {"candidates": [], "ambiguous": False, "note": "nothing found"})
    made.read("search_memory", {"error": "this cannot be reached right now; 鎌倉"})
    assert allows(made, "search_memory", query="鎌倉")
    assert allows(made, "get_weather", place="鎌倉")


def test_tools_that_are_not_known_wait_for_a_turn_without_memories():
    assert allows(rules("天気は？"), "get_weather", place="京都")
    assert not allows(rules("天気は？", PC), "get_weather", place="京都")
    other = ToolRules("天気は？")
    other.read("get_weather", {"weather": "雨"})
    assert allows(other, "get_weather", place="京都")


@pytest.mark.parametrize(
    ("words", "memory_ids", "allowed"),
    [
        ("そのパソコンのことは忘れて", ["mem_1"], True),
        ("そのパソコンのことは忘れて", ["mem_1", "mem_2"], False),
        ("叔母さんのことは忘れて", ["mem_2"], True),
        ("PCと叔母さんのことは忘れて", ["mem_1", "mem_2"], True),
    ],
)
def test_of_what_was_found_the_best_is_forgotten_and_what_the_user_names(words, memory_ids, allowed):
    assert allows(rules(words, PC, AUNT), "forget_memory", memory_ids=memory_ids) is allowed


@pytest.mark.parametrize(
    ("query", "allowed"), [("PC", True), ("富士通の中古PC", False), ("鎌倉", False), ("旅行", False)]
)
def test_after_recalled_words_forgetting_by_words_needs_the_users_own(query, allowed):
    assert allows(rules("PCのことは忘れて", PC), "forget_memory", query=query) is allowed
