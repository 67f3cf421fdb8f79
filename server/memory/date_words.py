"""The words by which people name days, and what they mean; `dates.py` reads them. Data only."""

from __future__ import annotations

import re
from typing import Literal

DAY_WORDS = {
    **dict.fromkeys(("今日", "本日", "きょう", "今朝", "今夜", "今晩", "today", "tonight"), 0),
    **dict.fromkeys(("this morning", "this afternoon", "this evening"), 0),
    **dict.fromkeys(("昨日", "きのう", "昨夜", "昨晩", "ゆうべ", "yesterday", "last night"), -1),
    **dict.fromkeys(("一昨日", "おととい", "おとつい", "the day before yesterday"), -2),
    **dict.fromkeys(("一昨々日", "さきおととい"), -3),
    **dict.fromkeys(("明日", "あした", "tomorrow"), 1),
    **dict.fromkeys(("明後日", "あさって", "the day after tomorrow"), 2),
    **dict.fromkeys(("明々後日", "明明後日", "しあさって"), 3),
    **dict.fromkeys(("やのあさって",), 4),
}
"""Days from the day of asking."""

UNITS: dict[str, tuple[Literal["week", "month", "year"], int]] = {
    "今週": ("week", 0),
    "先週": ("week", -1),
    "先々週": ("week", -2),
    "来週": ("week", 1),
    "再来週": ("week", 2),
    "今月": ("month", 0),
    "先月": ("month", -1),
    "先々月": ("month", -2),
    "来月": ("month", 1),
    "再来月": ("month", 2),
    "this week": ("week", 0),
    "last week": ("week", -1),
    "next week": ("week", 1),
    "this weekend": ("week", 0),
    "last weekend": ("week", -1),
    "this month": ("month", 0),
    "last month": ("month", -1),
    "next month": ("month", 1),
}
"""Calendar weeks (from Monday) and months, counted from the one of asking."""

YEAR_WORDS = {"今年": 0, "去年": -1, "昨年": -1, "来年": 1, "一昨年": -2, "おととし": -2, "再来年": 2}

SEASONS = {
    "春": (3, 5),
    "夏": (6, 8),
    "秋": (9, 11),
    "冬": (12, 2),
    "spring": (3, 5),
    "summer": (6, 8),
    "autumn": (9, 11),
    "fall": (9, 11),
    "winter": (12, 2),
}
"""First and last month; a winter belongs to the year it begins in."""

FEASTS = {
    "ゴールデンウィーク": ((4, 29), (5, 6)),
    "gw": ((4, 29), (5, 6)),
    "お盆": ((8, 11), (8, 17)),
    "お正月": ((1, 1), (1, 7)),
    "正月": ((1, 1), (1, 7)),
    "クリスマス": ((12, 24), (12, 25)),
    "christmas": ((12, 24), (12, 26)),
    "ひな祭り": ((3, 3), (3, 3)),
    "ハロウィン": ((10, 31), (10, 31)),
    "大晦日": ((12, 31), (12, 31)),
    "年末": ((12, 25), (12, 31)),
}
"""First and last day, as (month, day)."""

MONTH_PARTS = {
    "上旬": (1, 10),
    "初め": (1, 10),
    "はじめ": (1, 10),
    "頭": (1, 10),
    "中旬": (11, 20),
    "半ば": (11, 20),
    "なかば": (11, 20),
    "下旬": (21, 31),
    "終わり": (21, 31),
    "末": (21, 31),
}

WEEKDAYS = {
    **{name: number for number, name in enumerate("月火水木金土日")},
    **{name: number for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))},
}

MONTH_NAMES = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}

COUNTED_VAGUELY = {"couple": 2, "couple of": 2, "a couple": 2, "a couple of": 2, "few": 3, "a few": 3}

FOR_COUNTING = {
    **COUNTED_VAGUELY,
    **{digit: value for value, digit in enumerate("〇一二三四五六七八九")},
    **{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6},
    **{"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12},
}

APPROXIMATELY = "くらい|ぐらい|ほど|ばかり|ちょっと"

PAST = re.compile(
    r"\b(?:had|was|were|did|went|got|lost|read|made|took|won|ran|wrote|built|learnt|bought|sold|saw|met|found|broke|gave"
    r"|came|left|began|ate|drank|spent|paid|sent|told|said|heard|taught|caught|fell|(?!need|feed|seed|shed|speed)[a-z]{2,}ed)\b",
    re.IGNORECASE,
)
"""A sentence of what has been."""

LASTED = re.compile(r"\b(?:have|has|can|could)\b|'ve\b", re.IGNORECASE)
"""Beside these, and in the past, "in two weeks" is how long something took."""

COMING = re.compile(
    r"\b(?:will|going\s+to|decided|planned|promised|agreed|booked|invited|leaves?|starts?|begins?|ends?|arrives?|comes?)\b|\w'll\b"
    r"|(?:\bam|\bare|\bis|'m|'re|'s)\s+(?:\w+ing\b|due\b|$)",
    re.IGNORECASE,
)
"""A sentence of what is to come."""
