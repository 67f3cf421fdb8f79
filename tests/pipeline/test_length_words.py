"""Lengths of time as they are said, in seconds."""

from __future__ import annotations

import pytest

from server.pipeline.length_words import durations, without_lengths

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("3分タイマー", (180,)),
        ("１時間３０分タイマー", (5400,)),
        ("一時間半", (5400,)),
        ("二十五分", (1500,)),
        ("百二十秒", (120,)),
        ("1分30秒計って", (90,)),
        ("0.5時間", (1800,)),
        ("5分と10分のタイマー", (300, 600)),
        ("5分前", ()),
        ("自分で", ()),
        ("a three minute timer", (180,)),
        ("45-second timer", (45,)),
        ("twenty-five minutes", (1500,)),
        ("half an hour", (1800,)),
        ("an hour and a half", (5400,)),
        ("1 hour and 30 minutes", (5400,)),
        ("1 hour 5 minutes 10 seconds", (3910,)),
        ("7時30分に起こして", ()),
        ("十時十分に起こして", ()),
        ("7時に30分タイマー", (1800,)),
        ("two hrs", (7200,)),
        ("10 minutes ago", ()),
        ("one timer for 5 minutes and one for 10 minutes", (300, 600)),
        ("0分", ()),
        ("a quarter of an hour", (900,)),
        ("two and a half minutes", (150,)),
        ("three quarters of an hour", (2700,)),
        ("half hour", (1800,)),
        ("a half-hour timer", (1800,)),
        ("quarter hour", (900,)),
        ("one and a half hours", (5400,)),
        ("1½ hours", (5400,)),
        ("½ hour", (1800,)),
        ("1,200 seconds", (1200,)),
        ("minus five minutes", ()),
        ("-5 minutes", ()),
        ("minus twenty-five minutes", ()),
        ("マイナス5分", ()),
        ("タイマーを-5分", ()),
        ("5m timer", (300,)),
        ("1h30m", (5400,)),
        ("1h 30m", (5400,)),
        ("90s", (90,)),
        ("an hour and twenty", (4800,)),
        ("1 hour 30", (5400,)),
        ("2 minutes 30 please", (150,)),
        ("a hundred and twenty seconds", (120,)),
        ("two hundred seconds", (200,)),
        ("a couple of minutes", (120,)),
        ("a couple minutes", (120,)),
        ("さんぷん", (180,)),
        ("いちじかんはん", (5400,)),
        ("じゅうごふん", (900,)),
        ("にじゅっぷん", (1200,)),
        ("三十びょう", ()),
        ("さんじゅうびょう", (30,)),
        ("1時間半", (5400,)),
        ("半時間", (1800,)),
        ("半分", ()),
        ("三分半", (210,)),
        ("4分の1", ()),
        ("4分の3時間", ()),
        ("5分の二つ目", (300,)),
        ("5分半前", ()),
        ("千二百秒", (1200,)),
        ("5 minutes and a half ago", ()),
        ("an hour and a quarter", (4500,)),
        ("2.5 hours", (9000,)),
        ("half an hour and ten minutes", (2400,)),
        ("quarter past five", ()),
        ("7 pm", ()),
        ("5 minutes timer", (300,)),
        ("twenty five minutes", (1500,)),
        ("5-minute", (300,)),
        ("a few minutes", ()),
        ("数分", ()),
        ("１０分", (600,)),
        ("一時間と三十分", (5400,)),
        ("in 1 minute and 1 second", (61,)),
        ("5 minutes 7 pm", (300,)),
        ("five and three quarters hours", (20700,)),
        ("ten minutes for the eggs", (600,)),
        ("5 MINUTES", (300,)),
    ],
)
def test_lengths_of_time_are_read(words: str, seconds: tuple[int, ...]) -> None:
    assert durations(words) == seconds


def test_words_without_their_lengths() -> None:
    assert without_lengths("お茶を3分、ご飯を1時間半") == "お茶を 、ご飯を "
    assert without_lengths("tea for a quarter of an hour") == "tea for  "


@pytest.mark.parametrize(
    "words", ["1分" * 10_000, "1 hour " * 5_000, "half of a " * 5_000, "一" * 20_000, "じゅう" * 9_000]
)
def test_endless_words_take_no_time(words: str) -> None:
    assert len(durations(words)) <= 500
