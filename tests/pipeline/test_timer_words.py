"""A timer is asked for by the form of the words; talk about time is none."""

from __future__ import annotations

import pytest

from server.pipeline.timer_words import durations, timer_label, timer_request

pytestmark = pytest.mark.unit

SET = [
    "3分タイマー",
    "3分のタイマー。",
    "３分タイマーお願い",
    "タイマーを5分にセットして",
    "タイマー10分セット",
    "十分のタイマーをかけて",
    "二十五分タイマーかけて",
    "ラーメンのタイマーを3分でお願い",
    "タイマーをセットして",
    "アラームをかけて",
    "1時間半のタイマーを始めて",
    "1時間30分タイマーをスタートして",
    "30秒計って",
    "3分測ってくれる？",
    "5分後に教えて",
    "10分たったら起こして",
    "15分後に薬を飲むって教えて",
    "30分経ったら声をかけてね",
    "一時間後に洗濯物って思い出させて",
    "20分後にリマインドして",
    "90秒したら知らせて",
    "set a timer for 3 minutes",
    "Set a three minute timer, please.",
    "Can you set a pasta timer for ten minutes?",
    "start a 45 second timer",
    "please start a timer",
    "Hey StackChan, 5 minute timer",
    "10 minute timer",
    "timer for twenty-five minutes",
    "remind me in 10 minutes to call mom",
    "Remind me to check the oven in half an hour.",
    "in 20 minutes, wake me up",
    "Wake me up in an hour and a half",
    "tell me in 5 minutes",
    "give me an alarm for two hours",
    "Let me know in 15 minutes",
    "count down for 30 seconds",
    # at a time of the clock
    "7時半に起こして",
    "明日の朝7時に起こして",
    "明日、七時にアラームをセットして",
    "アラームを7時にかけて",
    "目覚ましを6時半にセットして",
    "15時のアラーム",
    "夜9時になったら教えて",
    "8時に薬を飲むって教えて",
    "６：３０にゴミ出しをリマインドして",
    "wake me up at 7:30",
    "Wake me at half past seven tomorrow.",
    "Set an alarm for 7:30 a.m.",
    "Remind me to call mom at 5 pm",
    "At 8 tonight remind me to take my pills",
    "tell me when it's noon",
]
LIST = [
    "タイマーはあと何分？",
    "タイマーの残り時間は？",
    "あと何分でタイマーが鳴る？",
    "タイマーいくつ動いてる？",
    "アラームは何時に鳴る？",
    "動いてるタイマーを教えて",
    "how much time is left on the timer?",
    "How long is left on my timer",
    "what timers do I have?",
    "list my timers",
    "are there any timers running?",
    "show all timers",
]
CANCEL = [
    "タイマーを止めて",
    "タイマーをキャンセルして",
    "アラームを消して",
    "タイマーもういらない",
    "ラーメンのタイマーはやめて",
    "アラーム全部解除",
    "cancel the timer",
    "Stop the pasta timer, please",
    "please turn off all alarms",
    "can you delete my timer?",
    "turn the alarm off",
    "Okay, cancel all timers.",
]
NOTHING = [
    # lengths of time in talk
    "3年前に富士通のPCを買った",
    "3時間寝た",
    "昨日は8時間寝たよ",
    "駅まで10分かかる",
    "5分遅れた",
    "30分前に起きた",
    "電車が15分遅れてる",
    "あと5分で着くよ",
    "3分間待ってた",
    "1時間後に友だちが来る",
    "10分後に出かけるね",
    "カップラーメンは3分で作れる",
    "2時間の映画を見た",
    "半分食べた",
    "十分おいしかった",
    "自分でやるよ",
    "多分雨だね",
    "気分がいい",
    "5分前に着いたって母に教えてもらった",
    "1時間たったらしい",
    "I slept for eight hours",
    "It takes ten minutes to the station",
    "I was five minutes late",
    "She left an hour ago",
    "The movie is two hours long",
    "I'll be back in 5 minutes",
    "We leave in half an hour",
    "He told me in 2 minutes what took me an hour",
    "Instant noodles take three minutes",
    "I ran for 30 minutes this morning",
    "My meeting starts in 15 minutes",
    "I'll call you in ten minutes",
    # clock and day
    "今何時？",
    "何時に寝たの？",
    "今日は何曜日？",
    "会議は3時からだよ",
    "7時に起きた",
    "what time is it?",
    "What day is it today?",
    "I got up at seven",
    "When is my birthday?",
    "what time do you go to bed?",
    # things called so
    "タイマーって何？",
    "新しいキッチンタイマーを買った",
    "タイマーが壊れた",
    "アラームの音が嫌い",
    "昨日タイマーをセットした",
    "タイマーかけ忘れた",
    "母がアラームをかけてくれた",
    "目覚ましのアラームで起きたよ",
    "I bought a kitchen timer",
    "My old alarm broke",
    "What is a timer?",
    "How much is that timer cost?",
    "I set a timer yesterday",
    "I forgot to set the alarm",
    "The fire alarm scared me",
    "She set an alarm for seven",
    "don't set a timer",
    "タイマーはセットしないで",
    "an alarming story",
    "He's an old-timer",
    # reminding and telling
    "思い出させてくれてありがとう",
    "それ教えて",
    "宇宙について教えて",
    "昨日何を話したか教えて",
    "You remind me of my brother",
    "That reminds me, I like tea",
    "tell me a story",
    "Remind me what I said about the trip",
    "wake up",
    "call me Ken",
    "7時に起こしてくれた",
    "7時に何を食べたか教えて",
    "会議は3時半に始まるって言ってた",
    "9時に寝ないで",
    "昨日の3時に何を話したか思い出させて",
    "He woke me up at seven",
    "tell me what happened at 7",
    "don't wake me up at 7",
    "The train leaves at 7:30",
    "left at noon",
    "左を見て",
    "ダンスして",
    "音楽を止めて",
    "stop talking",
    "cancel my trip to Kyoto",
    "電気を消して",
    "",
    "…",
]


@pytest.mark.parametrize(
    ("words", "asked"),
    [(words, asked) for asked, all_words in (("set", SET), ("list", LIST), ("cancel", CANCEL)) for words in all_words],
)
def test_a_request_is_known_by_its_form(words: str, asked: str) -> None:
    assert timer_request(words) == asked


@pytest.mark.parametrize("words", NOTHING)
def test_talk_about_time_asks_for_nothing(words: str) -> None:
    assert timer_request(words) is None


def test_there_are_enough_examples() -> None:
    assert len(SET) + len(LIST) + len(CANCEL) >= 30
    assert len(set(NOTHING)) >= 60


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
    ],
)
def test_lengths_of_time_are_read(words: str, seconds: tuple[int, ...]) -> None:
    assert durations(words) == seconds


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("ラーメンのタイマーを3分でお願い", "ラーメン"),
        ("15分後に薬を飲むって教えて", "薬を飲む"),
        ("一時間後に洗濯物って思い出させて", "洗濯物"),
        ("3分タイマー", ""),
        ("3分のタイマー", ""),
        ("5分後に教えて", ""),
        ("Set a pasta timer for ten minutes", "pasta"),
        ("set a timer for 3 minutes for the eggs", "eggs"),
        ("set a timer for 3 minutes", ""),
        ("Remind me to check the oven in half an hour.", "check the oven"),
        ("remind me in 10 minutes to call mom", "call mom"),
        ("5 minute timer", ""),
        ("7時半に起こして", ""),
        ("明日の朝七時のアラーム", ""),
        ("8時に薬を飲むって教えて", "薬を飲む"),
        ("6:30にゴミ出しをリマインドして", "ゴミ出し"),
        ("set an alarm for tomorrow at 7", ""),
        ("set an alarm for noon", ""),
        ("set a 7 am alarm", ""),
        ("set an alarm for 7:30 for the meeting", "meeting"),
        ("remind me to call mom at 5", "call mom"),
        ("remind me at 5 pm to call mom", "call mom"),
        ("remind me tomorrow at seven to water the plants", "water the plants"),
    ],
)
def test_what_it_is_for_is_quoted(words: str, label: str) -> None:
    assert timer_label(words) == label


@pytest.mark.parametrize("words", ["あ" * 20_000, "1分" * 10_000, "set a timer " * 5_000, "in 1 minute " * 5_000])
def test_endless_words_take_no_time(words: str) -> None:
    timer_request(words)
    assert len(durations(words)) <= 500
    timer_label(words)
