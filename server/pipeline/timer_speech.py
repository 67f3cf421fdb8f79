"""What is said of timers, in Japanese and English: a length, a time of the clock, and the words with which one rings.

Pure; a time of the clock is one of the zone that the timer keeps.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from server.storage.records import Timer

LATE_SECONDS = 60
"""A timer that is heard later than this says so."""
_DAY = 86_400
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def length_text(seconds: float, language: str) -> str:
    """A length of time as one says it: the two largest units, never "0 seconds"."""
    whole = max(1, round(seconds))
    parts: list[str] = []
    for size, japanese, english in (
        (_DAY, "日", "day"),
        (3600, "時間", "hour"),
        (60, "分", "minute"),
        (1, "秒", "second"),
    ):
        count, whole = divmod(whole, size)
        if count and len(parts) < 2:
            parts.append(f"{count}{japanese}" if language == "ja" else f"{count} {english}{'s' if count > 1 else ''}")
        elif parts:
            break  # 1 hour 5 seconds is an hour
    return "".join(parts) if language == "ja" else " ".join(parts)


def due_text(timer: Timer, now: dt.datetime, *, with_day: bool = True) -> str:
    """The time of the clock for which `timer` was set, as one says it there; in words of its language."""
    zone = ZoneInfo(timer.zone or "UTC")
    due, today = timer.due_at.astimezone(zone), now.astimezone(zone).date()
    days = (due.date() - today).days
    if timer.language == "ja":
        minute = "半" if due.minute == 30 else f"{due.minute}分" if due.minute else ""
        day = {0: "今日の", 1: "明日の", 2: "明後日の"}.get(days, f"{'月火水木金土日'[due.weekday()]}曜日の")
        return f"{day if with_day else ''}{due.hour}時{minute}"
    time = f"{due.hour % 12 or 12}:{due.minute:02} {'AM' if due.hour < 12 else 'PM'}"
    day = {0: "today", 1: "tomorrow"}.get(days, f"on {_WEEKDAYS[due.weekday()]}")
    return f"{time} {day}" if with_day else time


def ringing_text(timer: Timer, now: dt.datetime) -> str:
    """What the robot says when `timer` is due, or was: in the language it was set in."""
    late_seconds = (now - timer.due_at).total_seconds()
    is_late = late_seconds > LATE_SECONDS
    ago = length_text(round(late_seconds / 60) * 60, timer.language) if is_late else ""
    if timer.zone is not None:
        return _alarm_text(timer, due_text(timer, now, with_day=False), ago)
    japanese = timer.language == "ja"
    length = length_text(timer.duration_seconds, timer.language)
    if not is_late:
        if japanese:
            return (
                f"{timer.label}の時間だよ。{length}たったよ。"
                if timer.label
                else f"タイマーの時間だよ。{length}たったよ。"
            )
        return (
            f"Time for your timer: {timer.label}. It has been {length}." if timer.label else f"Your {length} are over."
        )
    if japanese:
        return f"{timer.label or length}のタイマーは、{ago}前に終わってたよ。"
    return f"Your timer{f' for {timer.label}' if timer.label else ''} was over {ago} ago."


def _alarm_text(timer: Timer, time: str, ago: str) -> str:
    if timer.language == "ja":
        if ago:
            return f"{timer.label or time}の時間は、{ago}前だったよ。"
        return f"{timer.label}の時間だよ。{time}だよ。" if timer.label else f"時間だよ。{time}だよ。"
    if ago:
        return f"Your alarm{f' for {timer.label}' if timer.label else ''} was {ago} ago, at {time}."
    return (
        f"Time for your alarm: {timer.label}. It is {time}." if timer.label else f"It is {time}. Time for your alarm."
    )
