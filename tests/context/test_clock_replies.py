"""What a small model says of the time and the day is what the clock says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from server.context.clock_replies import replies_of_the_clock
from server.engines.base import LlmDone, LlmToolCall
from server.pipeline.request import TurnRequest
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.test_tool_faults import Odd
from tests.pipeline.turns import TURN, play_turn

pytestmark = pytest.mark.unit

# A Tuesday; in UTC it is Monday still.
NOW = datetime(2026, 12, 1, 3, 27, tzinfo=ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("words", "language", "reply"),
    [
        ("いま何時？", "ja", "今は3時27分だよ。"),
        ("今日は何曜日?", "ja", "今日は火曜日だよ。"),
        ("今日は何日？", "ja", "今日は12月1日、火曜日だよ。"),
        ("明日は何曜日", "ja", "明日は水曜日だよ。"),
        ("昨日は何日だった？", "ja", "昨日は11月30日、月曜日だったよ。"),
        ("今何月？", "ja", "今は12月だよ。"),
        ("今年は何年？", "ja", "今年は2026年だよ。"),
        ("What time is it now?", "en", "It is 3:27 in the morning."),
        ("what's the date tomorrow", "en", "Tomorrow is Wednesday, December 2."),
        ("What day of the week is it?", "en", "Today is Tuesday."),
        ("What day was yesterday?", "en", "Yesterday was Monday, November 30."),
        ("what year is it", "en", "It is 2026."),
        ("What month is it?", "en", "It is December."),
    ],
)
def test_the_reply_is_what_the_clock_says(words: str, language: str, reply: str) -> None:
    assert replies_of_the_clock(words, NOW, language) == (reply,)


@pytest.mark.parametrize(
    ("hour", "minute", "japanese", "english"),
    [
        (0, 5, "今は0時5分だよ。", "It is 12:05 at night."),
        (7, 0, "今はちょうど7時だよ。", "It is 7:00 in the morning."),
        (12, 30, "今は12時半だよ。", "It is 12:30 in the afternoon."),
        (18, 1, "今は18時1分だよ。", "It is 6:01 in the evening."),
        (23, 59, "今は23時59分だよ。", "It is 11:59 at night."),
    ],
)
def test_every_part_of_the_day(hour: int, minute: int, japanese: str, english: str) -> None:
    now = NOW.replace(hour=hour, minute=minute)
    assert replies_of_the_clock("今何時", now, "ja") == (japanese,)
    assert replies_of_the_clock("what time is it", now, "en") == (english,)


@pytest.mark.parametrize("words", ["歯医者は何時？", "what time is my dentist appointment", "What time do you get up?"])
def test_of_anything_else_the_clock_says_nothing(words: str) -> None:
    assert replies_of_the_clock(words, NOW, "en") == ()


@pytest.mark.parametrize("call", [False, True])
def test_a_small_model_says_it_whether_it_calls_a_tool_or_not(call: bool) -> None:
    called = [LlmToolCall("search_memory", {"query": "time"}, "c1"), LlmDone("tool_calls")]
    for small in (True, False):
        llm = FakeLlm(scripts=[called, answer()] if call else [answer()])
        llm.capabilities = replace(llm.capabilities, wants_examples=small)
        turn = replace(TURN, started_at=NOW.astimezone(UTC))
        play_turn(TurnRequest("desk", text="今何時？"), llm=llm, tools=[Odd({"candidates": []})], turn=turn)
        for request in llm.requests:
            schema = request.answer_schema["properties"]
            assert (schema["reply"].get("enum") == ["今は3時27分だよ。"]) is small
            assert len(schema["emotion"]["enum"]) > 1
