"""What was looked up bounds the numbers of an answer: a small model writes those that were said or found, no other."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from server.context.session_turns import Exchange, SessionTurns
from server.engines.base import LlmDone, LlmToolCall
from server.errors import StorageError
from server.pipeline.request import TurnRequest
from server.pipeline.tool_results import texts_in
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.test_tool_faults import Odd
from tests.pipeline.turns import NOW, TURN, play_turn

pytestmark = pytest.mark.unit

CALL = [LlmToolCall("search_memory", {"query": "bike"}, "call-1"), LlmDone("tool_calls")]
NOTHING = {"candidates": [], "note": "nothing found"}
FOUND = {"candidates": [{"memory_id": "mem_778", "summary": "自転車は四万八千円だった。", "occurred_at": "2026-04-05"}]}


def asked(words, given, *, small=True, history=()):
    """The reply's pattern in each call of a turn that searches, and that finds or meets `given`."""
    llm = FakeLlm(scripts=[CALL, answer()])
    llm.capabilities = replace(llm.capabilities, wants_examples=small)
    turn = replace(TURN, history=SessionTurns(tuple(history), 0))
    play_turn(TurnRequest("desk", text=words), llm=llm, tools=[Odd(given)], turn=turn)
    return [reply_of(request.answer_schema["properties"]["reply"]) for request in llm.requests]


def reply_of(schema):
    """What matches the replies that a schema allows."""
    return schema["pattern"] if "pattern" in schema else "|".join(map(re.escape, schema["enum"])) + "$"


@pytest.mark.parametrize(
    ("words", "given", "right", "wrong"),
    [
        ("自転車はいくらだった？", FOUND, "「自転車は四万八千円だった」って聞いたよ。", "四万円だよ。"),
        ("自転車を売ったよ。", FOUND, "4月5日に48000円で買ったよ。", "7月8日だよ。"),
        ("自転車はいくらだった？", NOTHING, "ごめんね、覚えていないよ。", "三万円だよ。"),
        ("自転車を売ったよ。", StorageError("disk"), "今は思い出せないよ。", "三万円だよ。"),
        ("自転車は三万円だった？", NOTHING, "三万円だったかな。", "五万円だよ。"),
        ("The bike is sold", FOUND, "It was 48,000 yen.", "It was 48 yen."),
        ("How much was the bike?", NOTHING, "Sorry, I do not remember.", "It was 300 dollars."),
    ],
)
def test_after_a_search_only_numbers_that_were_said_or_found_can_be_written(words, given, right, wrong):
    first, after = asked(words, given)
    assert re.match(first, wrong) or not words.endswith(("？", "?")), "before it anything"
    assert re.match(after, right)
    assert not re.match(after, wrong)


def test_what_the_user_said_before_counts_and_what_the_robot_said_does_not():
    earlier = Exchange("バスは38番だよ", "そうだね、52番だね。", "ja", NOW)
    _, after = asked("バスは何番だっけ", NOTHING, history=[earlier])
    assert re.match(after, "38番だよ。")
    assert not re.match(after, "52番だよ。")


def test_the_time_can_be_told_whatever_was_looked_up():
    _, after = asked("今は何時に家を出ればいい？", NOTHING)
    assert re.match(after, "今は10時だよ。")
    assert re.match(after, "7月23日だよ。")
    assert not re.match(after, "11時だよ。")


@pytest.mark.parametrize(
    ("words", "right", "wrong"),
    [
        ("歯医者は12月10日の二時半だよ", "12月10日の二時半だね。", "12月20日の二時半だね。"),
        ("I paid 85 dollars for the grinder.", "You paid 85 dollars.", "You paid 58 dollars."),
    ],
)
def test_what_a_small_model_is_told_it_says_again_with_the_same_number(words, right, wrong):
    llm = FakeLlm(scripts=[answer()])
    for small in (True, False):
        llm.capabilities = replace(llm.capabilities, wants_examples=small)
        llm.scripts, llm.requests = [answer()], []
        play_turn(TurnRequest("desk", text=words), llm=llm)
        pattern = llm.requests[0].answer_schema["properties"]["reply"]["pattern"]
        assert re.match(pattern, right)
        assert bool(re.match(pattern, wrong)) is not small


@pytest.mark.parametrize(
    ("words", "right", "wrong"),
    [
        ("I have played the cello since 2015.", "Since 2015, wow.", ["Since 2026年.", "Since 2026.", "It is 10:00."]),
        (
            "チェロは2015年から弾いているよ",
            "2015年からなんだね。",
            ["2026年からなんだね。", "in 2015からなんだね。", "10時だね。"],
        ),
    ],
)
def test_what_it_is_told_has_no_number_of_the_clock_and_none_of_the_other_language(words, right, wrong):
    llm = FakeLlm(scripts=[answer()])
    earlier = replace(TURN, history=SessionTurns((Exchange("2026年だよ。バスは38番だよ", "うん。", "ja", NOW),), 0))
    play_turn(TurnRequest("desk", text=words), llm=llm, turn=earlier)
    pattern = llm.requests[0].answer_schema["properties"]["reply"]["pattern"]
    assert re.match(pattern, right)
    assert not [one for one in wrong if re.match(pattern, one)]


def test_a_large_model_may_count():
    first, after = asked("How much was the bike?", NOTHING, small=False)
    assert first == after
    assert re.match(after, "It was 300 dollars.")


def test_the_digits_of_ids_are_no_numbers():
    assert list(texts_in(FOUND)) == ["自転車は四万八千円だった。", "2026-04-05"]
    _, after = asked("自転車はいくらだった？", FOUND)
    assert "778" not in after
