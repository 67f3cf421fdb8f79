"""Which questions only a clock answers, by their whole form."""

from __future__ import annotations

import pytest

from server.memory.clock_questions import clock_question

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            "time",
            "いま何時？ 今何時ですか？ ねえ、今何時かわかる？ 今の時間は？ 何時？ おはよう今何時 時間を教えて",
        ),
        ("weekday", "今日は何曜日? 今日は何曜日だっけ 今日って何曜日？ 今日の曜日は？ きょうは何曜日"),
        (
            "date",
            "今日は何日？ 今日何日 今日は何月何日ですか 今日の日付教えて 今日は何日の何曜日？ 今日は何月何日何曜日？",
        ),
        ("time", "おはよう。今何時？"),
        ("month", "今何月？ 今は何月ですか"),
        ("year", "今年は何年？ 今年は西暦何年ですか"),
    ],
)
def test_questions_for_now_in_japanese(asked: str, words: str) -> None:
    for one in words.split():
        question = clock_question(one)
        assert question is not None, one
        assert (question.asked, question.days) == (asked, 0)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            "time",
            "What time is it now?|What time is it?|what’s the time|Can you tell me what time it is?|tell me the time",
        ),
        ("time", "Do you have the time?|Hey StackChan, what time is it?|Good morning! What time is it?|how late is it"),
        ("weekday", "What day of the week is it?|What weekday is it today?|which day of the week is it today"),
        ("date", "What day is it today?|what's the date today|What is today's date?|do you know what day it is today"),
        ("month", "What month is it?"),
        ("year", "what year is it"),
    ],
)
def test_questions_for_now_in_english(asked: str, words: str) -> None:
    for one in words.split("|"):
        question = clock_question(one)
        assert question is not None, one
        assert (question.asked, question.days) == (asked, 0)


@pytest.mark.parametrize(
    ("words", "asked", "days"),
    [
        ("明日は何曜日", "weekday", 1),
        ("明日の日付は？", "date", 1),
        ("昨日は何曜日だった？", "weekday", -1),
        ("あさっては何日？", "date", 2),
        ("おとといは何曜日だったかな", "weekday", -2),
        ("what's the date tomorrow", "date", 1),
        ("what day is tomorrow", "date", 1),
        ("What day of the week is it tomorrow?", "weekday", 1),
        ("What was the date yesterday?", "date", -1),
        ("what day is it the day after tomorrow", "date", 2),
        ("What day will it be tomorrow?", "date", 1),
    ],
)
def test_the_days_around(words: str, asked: str, days: int) -> None:
    question = clock_question(words)
    assert question is not None
    assert (question.asked, question.days) == (asked, days)


@pytest.mark.parametrize(
    "words",
    [
        *(
            "歯医者は何時？",
            "歯医者は明日の何時？",
            "今日は何時に起きるの？",
            "今日は何の日？",
            "何時だっけ",
            "会議は何日？",
        ),
        *(
            "タイマーは何時に鳴る？",
            "今日は月曜日だよ",
            "誕生日は何月何日？",
            "パリは今何時？",
            "今日は何曜日が休み？",
            "今何時間寝た？",
        ),
        *("What time do you get up?", "what time is my dentist appointment", "What time is it in Tokyo?", "the time"),
        *("What day is the party?", "What day is my birthday?", "what date is the concert?", "I like the time"),
        *("What time is it? Never mind, I saw it.", "", "？", "今何時" * 200),
    ],
)
def test_what_a_clock_does_not_know(words: str) -> None:
    assert clock_question(words) is None
