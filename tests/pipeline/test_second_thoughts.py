"""What is corrected or taken back in the same breath: what was said last counts."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from server.pipeline.clock_words import clock_times
from server.pipeline.length_words import durations
from server.pipeline.timer_words import corrected, taken_back, timer_label, timer_request

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 30, 15, 3, tzinfo=ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("set a timer for 5 minutes, actually make it 10", (600,)),
        ("set a timer for 5 minutes, no, make it 10", (600,)),
        ("set a timer for 5 minutes no wait 10 minutes", (600,)),
        ("set a pasta timer for 5 minutes, sorry, 8 minutes", (480,)),
        ("5分タイマーかけて、やっぱり10分", (600,)),
        ("5分タイマーかけて。やっぱ10分で", (600,)),
        ("5分のタイマー、いや、10分にして", (600,)),
        ("5分じゃなくて10分のタイマーかけて", (600,)),
        ("タイマーを5分、やっぱり10にして", (600,)),
        ("set a timer for 10 minutes, not 5", (600,)),
        ("set a timer for 10 minutes instead of 5 minutes", (600,)),
        ("remind me in 5 minutes, no, 10 minutes, to call mom", (600,)),
        ("set a timer for 5 minutes and one for 10 minutes", (300, 600)),
        ("set a timer for no more than 10 minutes", (600,)),
        ("3分半のタイマー", (210,)),
        ("さんぷんタイマー", (180,)),
        ("set a timer for two and a half minutes", (150,)),
        ("set a timer for a quarter of an hour", (900,)),
        ("set a timer for minus five minutes", ()),
        ("マイナス5分のタイマー", ()),
        ("3分タイマー、やっぱり1時間", (3600,)),
        ("no, set a timer for 10 minutes", (600,)),
        ("actually set a timer for 5 minutes", (300,)),
        ("やっぱり3分タイマーかけて", (180,)),
        ("15分後に教えて", (900,)),
        ("じゅっぷんごに教えて", (600,)),
        ("10分あとに教えて", (600,)),
        ("half an hour timer please", (1800,)),
        ("set an hour and a half timer", (5400,)),
        ("5 minutes timer", (300,)),
        ("set a timer for 5 minutes, i mean 50", (3000,)),
        ("set a timer for five minutes make it six", (360,)),
        ("remind me in half an hour to check the oven", (1800,)),
        ("set a timer for 1 hour 30", (5400,)),
        ("start a 90s timer", (90,)),
    ],
)
def test_what_was_said_last_counts(words: str, said: tuple[int, ...]) -> None:
    assert timer_request(words) == "set"
    assert not taken_back(words)
    assert durations(corrected(words)) == said
    assert clock_times(corrected(words), NOW) == ()


@pytest.mark.parametrize(
    "words",
    [
        "7時に起こして、やっぱり8時", "明日の7時に起こして、やっぱり8時", "7時に起こして。いや、8時に起こして",
        "wake me at 7, no, make it 8", "wake me up at 7 am, actually 8 am", "wake me in 20 minutes, no, at 8",
    ],
)  # fmt: skip
def test_a_time_that_was_said_last_counts(words: str) -> None:
    assert (timer_request(words), durations(corrected(words))) == ("set", ())
    (meant,) = clock_times(corrected(words), NOW)
    assert meant is not None
    assert meant.hour == 8


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("set a pasta timer for 5 minutes, actually make it 10", "pasta"),
        ("remind me in 5 minutes, no, 10 minutes, to call mom", "call mom"),
        ("set a 5 minute timer for the eggs, no, make it 10", "eggs"),
        ("ラーメンのタイマーを3分で、やっぱり5分で", "ラーメン"),
    ],
)
def test_a_correction_leaves_what_it_is_for(words: str, label: str) -> None:
    assert timer_label(corrected(words)) == label


@pytest.mark.parametrize(
    "words",
    [
        "3分タイマーかけて。やっぱりやめて",
        "set a timer for 5 minutes, no wait, cancel it",
        "set a timer for 5 minutes, cancel that",
        "set a timer for 5 minutes. never mind",
        "set a timer for 5 minutes never mind",
        "3分タイマーかけて、やっぱりいいや",
        "3分タイマーかけて。やっぱりいらない",
        "7時に起こして、いややっぱりいい",
        "タイマーを止めて。やっぱりいい",
        "cancel the timer, no wait, never mind",
        "3分タイマーかけて、今のなし",
        "3分タイマーかけて。やめて",
        "set a timer for 5 minutes, no, don't",
        "cancel the tea timer. forget it",
        "3分タイマーかけて、やっぱりタイマー止めて",
        "set a 5 minute timer, no, cancel the timer",
        "3分タイマーかけて。なんでもない",
        "3分タイマーかけて。ごめん、やめて",
        "wake me at 7, never mind",
    ],
)
def test_what_is_taken_back_in_the_same_breath(words: str) -> None:
    assert taken_back(words)
    assert timer_request(words) in ("set", "cancel")


@pytest.mark.parametrize(
    "words",
    [
        "please cancel the timer",
        "5分のタイマー、キャンセルして",
        "5分のタイマー、やめて",
        "the 5 minute timer, cancel it",
        "remind me in 5 minutes to stop it",
        "3分タイマーかけて",
        "set a timer for 5 minutes, don't forget it please",
        "never mind, set a timer for 5 minutes",
        "タイマー止めて",
        "やっぱり止めて",
        "never mind",
        "set a timer for 5 minutes. never mind, make it 10",
        "30分後にゲームをやめてって言って",
        "いいタイマーだね",
        "3分タイマーかけて。ありがとう",
        "set a timer for 5 minutes, thanks",
        "15分後に薬をやめるって教えて",
    ],
)
def test_what_is_not_taken_back(words: str) -> None:
    assert not taken_back(words)
