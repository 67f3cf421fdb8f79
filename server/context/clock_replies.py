"""What is said when somebody asks the clock, where the model is too small to say it truly.

A small model that reads the time in its prompt says another one (ten o'clock, mostly). So its reply is what the clock
says; a face and a movement are put to it by `pipeline/ruled.py`. Pure; what is asked of the clock is told by
`memory/clock_questions.py`.
"""

from __future__ import annotations

import datetime as dt

from server.memory.clock_questions import clock_question
from server.memory.said_days import MONTHS_EN

_JA_DAYS = {0: "今日", 1: "明日", -1: "昨日", 2: "明後日", -2: "一昨日"}
_EN_DAYS = {0: "Today", 1: "Tomorrow", -1: "Yesterday", 2: "The day after tomorrow", -2: "The day before yesterday"}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MORNING, _AFTERNOON, _EVENING, _NIGHT = 1, 12, 17, 21
"""The first hours of each."""


def replies_of_the_clock(words: str, now: dt.datetime, language: str) -> tuple[str, ...]:
    """The true replies to a question for the time or the day, in `language` (ISO 639-1; Japanese, else English).

    `now`: in the zone of the house. Empty: nothing of that kind is asked.
    """
    question = clock_question(words)
    if question is None:
        return ()
    japanese = language == "ja"
    if question.asked == "time":
        return (_time_ja(now) if japanese else _time_en(now),)
    if question.asked == "month":
        return (f"今は{now.month}月だよ。",) if japanese else (f"It is {MONTHS_EN[now.month - 1]}.",)
    if question.asked == "year":
        return (f"今年は{now.year}年だよ。",) if japanese else (f"It is {now.year}.",)
    day = now.date() + dt.timedelta(days=question.days)
    only_weekday = question.asked == "weekday"
    if japanese:
        weekday = f"{'月火水木金土日'[day.weekday()]}曜日"
        ends = "だったよ。" if question.days < 0 else "だよ。"
        told = weekday if only_weekday else f"{day.month}月{day.day}日、{weekday}"
        return (f"{_JA_DAYS[question.days]}は{told}{ends}",)
    weekday = _WEEKDAYS[day.weekday()]
    told = weekday if only_weekday else f"{weekday}, {MONTHS_EN[day.month - 1]} {day.day}"
    return (f"{_EN_DAYS[question.days]} {'was' if question.days < 0 else 'is'} {told}.",)


def _time_ja(now: dt.datetime) -> str:
    minute = "半" if now.minute == 30 else f"{now.minute}分" if now.minute else ""
    return f"今は{'' if now.minute else 'ちょうど'}{now.hour}時{minute}だよ。"


def _time_en(now: dt.datetime) -> str:
    parts = ((_NIGHT, "at night"), (_EVENING, "in the evening"), (_AFTERNOON, "in the afternoon"))
    part = next((name for hour, name in parts if now.hour >= hour), "in the morning")
    return f"It is {now.hour % 12 or 12}:{now.minute:02} {part if now.hour >= _MORNING else 'at night'}."
