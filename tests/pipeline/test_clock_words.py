"""Times of the clock as they are said, and which moment is meant."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from server.pipeline.clock_words import asks_to_be_told_at_a_time, clock_times, is_only_a_time

pytestmark = pytest.mark.unit

JAPAN = ZoneInfo("Asia/Tokyo")
MONDAY = datetime(2026, 11, 30, 15, 3, 20, tzinfo=JAPAN)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """A time of a day of December, or (0) of the last one of November."""
    return datetime(2026, 12 if day else 11, day or 30, hour, minute, tzinfo=JAPAN)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("7時半に起こして", at(1, 7, 30)),
        ("明日の朝7時に起こして", at(1, 7)),
        ("明日の朝、七時十五分に起こして", at(1, 7, 15)),
        ("あした７：３０に起こして", at(1, 7, 30)),
        ("4時に教えて", at(0, 16)),
        ("3時に教えて", at(1, 3)),  # it is three minutes past
        ("午後3時に教えて", at(1, 15)),
        ("18時のアラーム", at(0, 18)),
        ("夜9時になったら教えて", at(0, 21)),
        ("夜の12時に教えて", at(1, 0)),
        ("今夜2時に起こして", at(1, 2)),
        ("深夜1時に教えて", at(1, 1)),
        ("昼の12時に教えて", at(1, 12)),
        ("正午に教えて", at(1, 12)),
        ("今日の5時に教えて", at(0, 17)),
        ("明日の3時に会議って教えて", at(1, 15)),
        ("明日の5時に起こして", at(1, 5)),
        ("明日の12時に教えて", at(1, 12)),
        ("明日の夜8時に教えて", at(1, 20)),
        ("明後日の10時に教えて", at(2, 10)),
        ("水曜日の9時に起こして", at(2, 9)),
        ("月曜の9時に起こして", at(7, 9)),
        ("0時に教えて", at(1, 0)),
        ("wake me up at 7:30", at(1, 7, 30)),
        ("Wake me at half past seven.", at(1, 7, 30)),
        ("set an alarm for 7:30 am tomorrow", at(1, 7, 30)),
        ("Set an alarm for seven thirty, please.", at(0, 19, 30)),
        ("set an alarm for 6", at(0, 18)),
        ("remind me at quarter to five to call mom", at(0, 16, 45)),
        ("remind me to call mom at 5 p.m.", at(0, 17)),
        ("remind me at 2 pm to stretch", at(1, 14)),
        ("remind me at 8 tonight", at(0, 20)),
        ("wake me up tomorrow at six o'clock", at(1, 6)),
        ("set an alarm for 9 in the morning", at(1, 9)),
        ("an alarm for noon please", at(1, 12)),
        ("remind me at midnight", at(1, 0)),
        ("set an alarm for Wednesday at 10 am", at(2, 10)),
        ("remind me the day after tomorrow at 3", at(2, 15)),
        ("set an alarm for 16:45", at(0, 16, 45)),
        ("set an alarm for twelve oh five", at(1, 0, 5)),
    ],
)
def test_the_next_such_time_is_meant(words: str, meant: datetime) -> None:
    assert clock_times(words, MONDAY) == (meant,)
    assert clock_times(words, MONDAY)[0].utcoffset() == MONDAY.utcoffset()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "words",
    [
        "今日の午前9時に教えて",  # is past
        "来週の7時に起こして",
        "12月24日の7時に起こして",
        "明日か明後日の7時に起こして",
        "wake me up at 7 next week",
        "wake me this morning at 9",
        "wake me up at 7 on the 24th",
        "2日後の7時に起こして",
        "wake me up at 7 in three days",
    ],
)
def test_a_time_that_is_past_or_of_another_week_is_not_guessed(words: str) -> None:
    assert clock_times(words, MONDAY) == (None,)


@pytest.mark.parametrize(
    "words",
    [
        "3時間後に教えて", "7分タイマー", "7時間半", "100分", "25時に起こして", "7時70分", "7時代に生まれた", "三時期",
        "set a timer for 3 minutes", "a timer for twenty-five minutes", "in 5 minutes", "for ten eggs", "2.5 percent",
        "I have 3 cats", "one timer", "at 25:00", "in an hour and a half", "a 45 second timer", "", "…",
    ],
)  # fmt: skip
def test_lengths_and_other_numbers_are_no_time(words: str) -> None:
    assert clock_times(words, MONDAY) == ()


def test_two_times_are_two() -> None:
    assert clock_times("7時と8時に起こして", MONDAY) == (at(1, 7), at(1, 8))
    assert clock_times("wake me at 7:00 and at 8:15", MONDAY) == (at(1, 7), at(1, 8, 15))


@pytest.mark.parametrize(
    "words",
    [
        "7時に何を食べたか教えて", "昨日の3時に何があったか思い出させて", "会議は3時から", "7時に起きた",
        "tell me what happened at 7", "what we did at 7 pm", "remind me what we said at 3 pm",
        "I got up at 7:30", "remind me about yesterday at 7",
    ],
)  # fmt: skip
def test_talk_about_a_time_asks_for_nothing(words: str) -> None:
    assert not asks_to_be_told_at_a_time(words)


@pytest.mark.parametrize(
    ("words", "only"),
    [
        ("明日の朝7時", True),
        ("七時", True),
        ("tomorrow at seven", True),
        ("noon", True),
        ("薬", False),
        ("the party", False),
    ],
)
def test_a_time_is_no_label(words: str, only: bool) -> None:
    assert is_only_a_time(words) is only


@pytest.mark.parametrize("words", ["7時" * 5_000, "at 7:30 " * 5_000, "明日の朝" * 5_000, "at " * 10_000])
def test_endless_words_take_no_time(words: str) -> None:
    assert len(clock_times(words, MONDAY)) <= 500
    asks_to_be_told_at_a_time(words)


NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("now", "words", "meant"),
    [
        # 1 November 2026: 02:00 EDT (06:00 UTC) becomes 01:00 EST.
        ("2026-11-01T05:15", "wake me at 1:30", "2026-11-01T05:30"),  # 01:15, the first time
        ("2026-11-01T05:45", "wake me at 1:30", "2026-11-01T06:30"),  # 01:45, the first time: the second 01:30
        ("2026-11-01T06:15", "wake me at 1:30", "2026-11-01T06:30"),  # 01:15, the second time
        ("2026-11-01T06:15", "1時半に起こして", "2026-11-01T06:30"),
        ("2026-11-01T06:15", "今日の1時半に起こして", "2026-11-01T06:30"),
        ("2026-11-01T06:45", "深夜1時半に起こして", "2026-11-02T06:30"),
        ("2026-11-01T05:30", "wake me at 7", "2026-11-01T12:00"),
        ("2026-10-31T16:00", "明日の朝7時に起こして", "2026-11-01T12:00"),
        # 8 March 2026: 02:00 EST (07:00 UTC) becomes 03:00 EDT; 02:30 is left out.
        ("2026-03-08T06:15", "wake me at 2:30 in the morning", "2026-03-08T07:30"),
        ("2026-03-08T06:15", "午前3時に起こして", "2026-03-08T07:00"),
        ("2026-03-08T07:15", "午前3時に起こして", "2026-03-09T07:00"),
    ],
)
def test_where_the_clock_is_put_back_or_forward_it_is_the_next_such_moment(now: str, words: str, meant: str) -> None:
    local = datetime.fromisoformat(now).replace(tzinfo=UTC).astimezone(NEW_YORK)
    (found,) = clock_times(words, local)
    assert found is not None
    assert (found.tzinfo, found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")) == (NEW_YORK, meant)
