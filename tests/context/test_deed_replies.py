"""What a small model says of timers, of its loudness and of its microphone is what their tools say."""

from __future__ import annotations

from typing import Any

import pytest

from server.context.deed_replies import (
    ASK_HOW_LONG,
    CANNOT_RING,
    NO_SUCH,
    ONE_ONLY,
    TAKEN_BACK,
    TOO_FAR,
    replies_to_deed,
)

pytestmark = pytest.mark.unit

TWO_JA = [{"length": "3分", "left": "2分5秒", "label": "ラーメン"}, {"at": "明日の7時半", "left": "16時間27分"}]
TWO_EN = [
    {"length": "3 minutes", "left": "2 minutes 5 seconds", "label": "pasta"},
    {"at": "7:30 AM tomorrow", "left": "16 hours 27 minutes"},
]


@pytest.mark.parametrize(
    ("result", "reply"),
    [
        ({"timer_set": True, "length": "3分"}, "3分のタイマーをかけたよ。"),
        ({"timer_set": True, "length": "3分", "label": "ラーメン"}, "3分たったら「ラーメン」って知らせるね。"),
        ({"timer_set": True, "at": "明日の7時", "wakes": True}, "明日の7時に起こすね。"),
        ({"timer_set": True, "at": "今日の17時"}, "今日の17時に知らせるね。"),
        ({"timer_set": True, "at": "今日の17時", "label": "薬を飲む"}, "今日の17時に「薬を飲む」って知らせるね。"),
        ({"timer_set": False, "note": ASK_HOW_LONG}, "どのくらいの長さか、何時か教えて。"),
        ({"timer_set": False, "note": ONE_ONLY}, "タイマーは一つずつお願いね。"),
        ({"timer_set": False, "note": TOO_FAR}, "7日以内の日と時間を教えて。"),
        ({"timer_set": False, "note": CANNOT_RING}, "ここでは鳴らせないよ。ロボットかページで頼んでね。"),
        ({"timers": []}, "今、動いているタイマーはないよ。"),
        ({"timers": [{"length": "5分", "left": "4分20秒"}]}, "あと4分20秒だよ。"),
        ({"timers": TWO_JA}, "「ラーメン」はあと2分5秒、明日の7時半のはあと16時間27分だよ。"),
        ({"timers": TWO_JA * 2}, None),
        ({"cancelled": ["3分"]}, "3分のタイマーを止めたよ。"),
        ({"cancelled": ["ラーメン", "3分"]}, "ラーメンと3分のタイマーを止めたよ。"),
        ({"cancelled": [], "note": "no timer runs"}, "今、動いているタイマーはないよ。"),
        ({"cancelled": [], "which": ["ラーメン", "10分"]}, "どのタイマーのこと？ラーメンと10分があるよ。"),
        (
            {"cancelled": [], "which": ["ラーメン", "10分"], "note": NO_SUCH},
            "そのタイマーはないよ。今あるのはラーメンと10分だよ。",
        ),
        ({"cancelled": [], "note": TAKEN_BACK}, "わかった、やめておくね。"),
        ({"timer_set": False, "note": TAKEN_BACK}, "わかった、やめておくね。"),
        ({"volume_percent": 40}, "音の大きさを40パーセントにしたよ。"),
        ({"volume_set": True}, "音の大きさを変えたよ。"),
        ({"volume_set": False}, "ここでは音の大きさを変えられないよ。"),
        ({"microphone": "off"}, "マイクを切ったよ。"),
        ({"microphone": "on"}, "マイクを入れたよ。"),
        ({"microphone_set": False}, "ここではマイクを変えられないよ。"),
        ({"error": "20 timers run already"}, "ごめんね、それはできなかったよ。"),
    ],
)
def test_in_japanese(result: dict[str, Any], reply: str | None) -> None:
    (said,) = replies_to_deed(result, "…", "ja")
    if reply is None:
        assert said.endswith("だよ。ほかに1個あるよ。")
    else:
        assert said == reply


@pytest.mark.parametrize(
    ("words", "result", "reply"),
    [
        ("", {"timer_set": True, "length": "3 minutes"}, "I set a timer for 3 minutes."),
        ("", {"timer_set": True, "length": "3 minutes", "label": "pasta"}, "I set a timer for 3 minutes, for pasta."),
        (
            "Remind me in two minutes to check the oven",
            {"timer_set": True, "length": "2 minutes", "label": "check the oven"},
            "I will remind you in 2 minutes to check the oven.",
        ),
        (
            "remind me at 5 pm to call my mom",
            {"timer_set": True, "at": "5:00 PM today", "label": "call my mom"},
            "I will remind you at 5:00 PM today to call your mom.",
        ),
        (
            "remind me at 5 pm to tell you",
            {"timer_set": True, "at": "5:00 PM today", "label": "tell you"},
            "I will remind you at 5:00 PM today to “tell you”.",
        ),
        ("", {"timer_set": True, "at": "7:00 AM tomorrow", "wakes": True}, "I will wake you at 7:00 AM tomorrow."),
        ("", {"timer_set": True, "at": "5:00 PM today"}, "I will call you at 5:00 PM today."),
        ("", {"timer_set": False, "note": ASK_HOW_LONG}, "For how long, or for what time?"),
        (
            "",
            {"timer_set": False, "note": CANNOT_RING},
            "I cannot ring here. Please ask me at the robot, or on the page.",
        ),
        ("", {"timers": []}, "No timer is running."),
        ("", {"timers": [{"length": "1 minute", "left": "20 seconds"}]}, "You have 20 seconds left."),
        ("", {"timers": TWO_EN[1:]}, "You have 16 hours 27 minutes left until 7:30 AM tomorrow."),
        (
            "",
            {"timers": TWO_EN},
            "You have 2 minutes 5 seconds for pasta, and 16 hours 27 minutes for the timer of 7:30 AM tomorrow.",
        ),
        ("", {"cancelled": ["3 minutes"]}, "I stopped the timer for 3 minutes."),
        ("", {"cancelled": []}, "No timer is running."),
        ("", {"cancelled": [], "which": ["pasta", "1 hour"]}, "Which timer do you mean: pasta or 1 hour?"),
        (
            "",
            {"cancelled": [], "which": ["pasta", "1 hour"], "note": NO_SUCH},
            "There is no such timer. Running: pasta and 1 hour.",
        ),
        ("", {"cancelled": [], "note": TAKEN_BACK}, "All right, I leave it."),
        ("", {"timer_set": False, "note": TAKEN_BACK}, "All right, I leave it."),
        ("", {"volume_percent": 40}, "The volume is at 40 percent now."),
        ("", {"volume_set": False}, "I cannot change the volume here."),
        ("", {"microphone": "off"}, "My microphone is off now."),
        ("", {"microphone_set": False}, "I cannot change the microphone here."),
        ("", {"error": "gone"}, "Sorry, I could not do that."),
    ],
)
def test_in_english(words: str, result: dict[str, Any], reply: str) -> None:
    assert replies_to_deed(result, words, "en") == (reply,)


@pytest.mark.parametrize("result", [{}, {"timer_set": False}, {"timer_set": False, "note": "new"}, {"microphone": 1}])
def test_of_what_is_not_known_nothing_is_said_for_the_model(result: dict[str, Any]) -> None:
    for language in ("ja", "en"):
        assert replies_to_deed(result, "…", language) == ()
