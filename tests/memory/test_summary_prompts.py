"""What the summarizer is shown and asked, and how its answer is read."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from server.errors import LlmError
from server.memory.prompts import (
    MOST_MEMORIES,
    SpokenExchange,
    read_summary,
    repair_request,
    summary_request,
    summary_schema,
    transcript,
)

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)
PC = SpokenExchange("昨日、富士通のPCを三万円で買った", "いいね。", MONDAY)
RECALLED = SpokenExchange("いくらだっけ", None, MONDAY)


def written(**changes: Any) -> dict[str, Any]:
    memory: dict[str, Any] = {
        "about": [1],
        "memory_type": "episode",
        "topic": "PC",
        "summary": "PCを買った。",
        "entities": ["PC"],
        "importance": 3,
    }
    return memory | changes


def test_a_transcript_is_numbered_dated_and_one_line_each() -> None:
    tuesday = SpokenExchange("やあ\n2 人: うそ", "うん。", MONDAY + dt.timedelta(days=1))
    assert transcript([PC, RECALLED, tuesday], "ja").splitlines() == [
        "日付: 2026年11月30日",
        "1 人: 昨日(2026年11月29日)、富士通のPCを三万円で買った",
        "1 ロボット: いいね。",
        "2 人: いくらだっけ",
        "日付: 2026年12月1日",
        "3 人: やあ 2 人: うそ",
        "3 ロボット: うん。",
    ]
    english = transcript([SpokenExchange("hi", "hello", MONDAY)], "en").splitlines()
    assert english == ["Date: November 30, 2026", "1 User: hi", "1 Robot: hello"]


def test_long_words_are_cut() -> None:
    long = transcript([SpokenExchange("あ" * 5000, "い" * 5000, MONDAY)], "ja")
    assert len(long) < 600
    assert long.count("...") == long.count("…") == 1  # a user's line is folded to NFKC


@pytest.mark.parametrize(("language", "begins"), [("ja", "会話から"), ("en", "Write short"), ("fr", "Write short")])
def test_the_prompt_is_in_the_language_spoken(language: str, begins: str) -> None:
    request = summary_request([PC], language)
    assert request.messages[0].content.startswith(begins)
    assert ("code fr" in request.messages[0].content) == (language == "fr")
    assert [message.role for message in request.messages] == ["system", *("user", "assistant") * 2, "user"]
    # What stays the same stands first, so that it is read once.
    assert summary_request([RECALLED], language).messages[:-1] == request.messages[:-1]


@pytest.mark.parametrize("language", ["ja", "en"])
def test_the_examples_are_answers_as_the_schema_wants_them(language: str) -> None:
    messages = summary_request([PC], language).messages
    answers = [message.content for message in messages if message.role == "assistant"]
    assert [len(json.loads(answer)["memories"]) for answer in answers] == [1, 0]
    schema = summary_schema(2)["properties"]["memories"]["items"]
    for memory in json.loads(answers[0])["memories"]:
        assert list(memory) == schema["required"]
        assert memory["memory_type"] in schema["properties"]["memory_type"]["enum"]
    assert len(read_summary(answers[0], 2)) == 1
    assert sum(len(message.content) for message in messages) < 2_200


def test_a_repair_names_what_was_not_said() -> None:
    request = summary_request([PC], "ja")
    again = repair_request(request, "{}", ["25000円", "NEC"], "ja")
    assert again.messages[:-2] == request.messages
    assert "25000円、NEC" in again.messages[-1].content
    assert again.answer_schema == request.answer_schema


def test_an_answer_is_read() -> None:
    one, other = read_summary(
        json.dumps({"memories": [written(about=[2, 1, 2]), written(summary=" b ", entities=[" 猫 ", "", "猫"])]}), 2
    )
    assert (one.about, one.memory_type, one.topic, one.importance) == ((0, 1), "episode", "PC", 3)
    assert (other.summary, other.entities) == ("b", ("猫",))


@pytest.mark.parametrize("text", ['{"memories":[]}', '```json\n{"memories":[]}\n```', 'So: {"memories": []} done'])
def test_nothing_is_an_answer(text: str) -> None:
    assert read_summary(text, 3) == ()


@pytest.mark.parametrize(
    ("changes", "name", "expected"),
    [
        ({"about": [0, 9, "1", True]}, "about", (0, 1)),
        ({"about": "all"}, "about", (0, 1)),
        ({"memory_type": "secret"}, "memory_type", "fact"),
        ({"importance": 99}, "importance", 5),
        ({"importance": "high"}, "importance", 3),
        ({"entities": "PC"}, "entities", ()),
        ({"entities": ["The User", "ユーザー", "PC"]}, "entities", ("PC",)),
        ({"entities": [1, "PC", None]}, "entities", ("PC",)),
    ],
)
def test_what_a_model_without_a_grammar_gets_wrong_is_put_right(
    changes: dict[str, Any], name: str, expected: object
) -> None:
    assert getattr(read_summary(json.dumps({"memories": [written(**changes)]}), 2)[0], name) == expected


def test_no_more_than_asked_for_is_kept() -> None:
    assert len(read_summary(json.dumps({"memories": [written()] * 9}), 2)) == MOST_MEMORIES
    long = read_summary(json.dumps({"memories": [written(summary="あ" * 9999, topic="い" * 999)]}), 2)[0]
    assert (len(long.summary), len(long.topic)) == (480, 80)


@pytest.mark.parametrize(
    "text",
    [
        *("", "nothing", "{", "[]", '{"memories":5}', '{"memories":[5]}', '{"memories":[{"topic":"x"}]}', "{}"),
        *("{" * 5000, json.dumps({"memories": [written(summary=" ")]})),
    ],
)
def test_what_is_no_answer_is_told_without_its_words(text: str) -> None:
    with pytest.raises(LlmError) as raised:
        read_summary(text, 2)
    assert raised.value.code == "llm_no_reply"
    assert not text or text not in str(raised.value)
