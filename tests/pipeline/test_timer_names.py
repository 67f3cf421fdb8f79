"""Which timers somebody names; what nobody named is not ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from server.pipeline.timer_names import named_timers
from server.storage.records import Timer

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 30, 15, 3, tzinfo=ZoneInfo("Asia/Tokyo"))


def running(*timers: tuple[str, int | datetime]) -> tuple[Timer, ...]:
    """Timers of these labels and lengths (or times), with ids from 1 on, the next one first."""
    made = []
    for timer_id, (label, due) in enumerate(timers, 1):
        due_at = due if isinstance(due, datetime) else NOW + timedelta(seconds=due)
        seconds = round((due_at - NOW).total_seconds())
        zone = "Asia/Tokyo" if isinstance(due, datetime) else None
        made.append(Timer(timer_id, "desk", label, "ja", seconds, NOW, due_at, zone))
    return tuple(sorted(made, key=lambda timer: (timer.due_at, timer.timer_id)))


TEA = running(("tea", 300), ("steak", 600))
MOM = running(("call mom", 1200), ("pasta", 600))
FOOT = running(("football", 1200), ("pasta", 600))
PAN = running(("パン", 300), ("パンケーキ", 600))
CHA = running(("お茶", 300), ("紅茶", 600))
TWO = running(("", 300), ("", 600))
ONE5 = running(("", 300))
PASTA = running(("パスタ", 300))
PAN1 = running(("パン", 300))
MIX = running(("薬を飲む", 900), ("", 300), ("パスタ", 600))
THREE = running(("tea", 180), ("", 300), ("", 600))
HANDS = running(("all hands", 600), ("tea", 300))
LONG = running(("", 600), ("", 300))
DUP = running(("tea", 300), ("tea", 600))


@pytest.mark.parametrize(
    ("words", "timers", "ids"),
    [
        ("cancel the steak timer", TEA, {2}),
        ("cancel the call mom timer", MOM, {1}),
        ("cancel the mom timer", MOM, {1}),
        ("please cancel the football timer", FOOT, {1}),
        ("パンケーキのタイマーを止めて", PAN, {2}),
        ("パンのタイマーを止めて", PAN, {1}),
        ("紅茶のタイマーを止めて", CHA, {2}),
        ("お茶のタイマーを止めて", CHA, {1}),
        ("cancel the small one, the 5 minute timer", TWO, {1}),
        ("cancel all timers", TEA, {1, 2}),
        ("cancel all hands timer", HANDS, {1}),
        ("cancel the first one", TWO, {1}),
        ("cancel the last timer", TWO, {2}),
        ("cancel the second timer", TWO, {2}),
        ("最初のタイマーを止めて", TWO, {1}),
        ("2つ目のタイマーを止めて", TWO, {2}),
        ("最後のを止めて", TWO, {2}),
        ("短い方のタイマーを止めて", LONG, {2}),
        ("長い方のタイマーを止めて", LONG, {1}),
        ("cancel the shorter one", LONG, {2}),
        ("cancel the newest timer", LONG, {2}),
        ("両方のタイマーを止めて", TWO, {1, 2}),
        ("タイマーを全部止めて", THREE, {1, 2, 3}),
        ("お茶以外のタイマーを止めて", CHA, {2}),
        ("cancel all timers except the tea timer", THREE, {2, 3}),
        ("cancel everything but the tea", THREE, {2, 3}),
        ("all right, cancel the tea timer", TEA, {1}),
        ("cancel the pasta timer, not the call mom timer", MOM, {2}),
        ("お茶じゃなくて紅茶のタイマーを止めて", CHA, {2}),
        ("お茶のタイマー止めて、いや、紅茶のタイマー", CHA, {2}),
        ("cancel the tea timer, no, the steak timer", TEA, {2}),
        ("5分と10分のタイマーを止めて", TWO, {1, 2}),
        ("薬のタイマーを止めて", MIX, {1}),
        ("じゃあさっきのパスタのタイマーを止めて", MIX, {3}),
        ("cancel all tea timers", DUP, {1, 2}),
        ("cancel the tea and steak timers", TEA, {1, 2}),
        ("お茶と紅茶のタイマーを止めて", CHA, {1, 2}),
        ("cancel the egg timer", running(("eggs", 300), ("", 500)), {1}),
        ("turn the tea timer off", TEA, {1}),
        ("cancel the timer for the tea", TEA, {1}),
        ("7時半のアラームを消して", running(("", datetime(2026, 12, 1, 7, 30, tzinfo=NOW.tzinfo)), ("", 600)), {1}),
        ("えっとラーメンのタイマー止めて", running(("ラーメン", 180), ("", 200)), {1}),
        ("ラーメンタイマー止めて", running(("ラーメン", 180), ("", 200)), {1}),
        ("cancel both timers", TWO, {1, 2}),
        ("cancel every timer", TWO, {1, 2}),
        ("全部止めて、お茶のタイマー", CHA, {1}),
        ("cancel the small timer", LONG, {2}),
        ("タイマー全部止めて", TWO, {1, 2}),
        ("5分のタイマーはいらない", ONE5, {1}),
    ],
)
def test_these_are_meant(words: str, timers: tuple[Timer, ...], ids: set[int]) -> None:
    named = named_timers(words, timers, NOW)
    assert {timer.timer_id for timer in named.meant} == ids
    assert named.is_named
    assert not named.no_such


@pytest.mark.parametrize(
    ("words", "timers"),
    [
        ("cancel the 7 minute timer", TWO),
        ("cancel the 7 minute timer", ONE5),
        ("お風呂のタイマーを止めて", PASTA),
        ("パンケーキのタイマーを止めて", PAN1),
        ("cancel the steak timer", running(("tea", 300))),
        ("cancel the third timer", TWO),
        ("turn the fish timer off", TEA),
        ("cancel the timer for the fish", TEA),
        ("cancel my timer for tomorrow at 7", TEA),
        ("カップラーメンのタイマーを止めて", running(("ラーメン", 180))),
        ("cancel the 5 minute tea timer", running(("tea", 180), ("", 300))),
    ],
)
def test_a_name_that_none_has_means_none(words: str, timers: tuple[Timer, ...]) -> None:
    named = named_timers(words, timers, NOW)
    assert (named.meant, named.no_such) == ((), True)


@pytest.mark.parametrize(
    ("words", "timers"),
    [
        ("cancel the timer", TWO),
        ("cancel the first one", LONG),
        ("両方止めて", THREE),
        ("that's all, cancel the timer", TWO),
        ("that's all cancel the timer", TWO),
        ("all right cancel the timer", TWO),
        ("さっきのタイマーを止めて", TWO),
        ("cancel the tea timer", DUP),
    ],
)
def test_which_of_several_is_not_guessed(words: str, timers: tuple[Timer, ...]) -> None:
    named = named_timers(words, timers, NOW)
    assert (named.meant, named.no_such) == ((), False)


@pytest.mark.parametrize(
    "words",
    [
        "cancel the running timer",
        "stop my kitchen timer please",
        "この動いてるタイマーを止めて",
        "鳴ってるアラームを止めて",
        "yes please",
        "please cancel the timer for me now",
        "Hey StackChan, could you please stop the timer?",
        "もうタイマーは止めて",
        "ねえ、タイマーを止めて",
        "そのタイマーもういらない",
    ],
)
def test_words_that_name_none_leave_the_only_one(words: str) -> None:
    assert not named_timers(words, ONE5, NOW).is_named
    assert not named_timers(words, PASTA, NOW).is_named


@pytest.mark.parametrize(
    "words", ["お茶の" * 9_000, "cancel the tea " * 5_000, "all timers " * 5_000, "not the " * 9_000, "no, " * 9_000]
)
def test_endless_words_take_no_time(words: str) -> None:
    assert set(named_timers(words, CHA, NOW).meant) <= set(CHA)
