"""What is said of timers, in Japanese and English: a length of time, and the words with which one rings. Pure."""

from __future__ import annotations

import datetime as dt

from server.storage.records import Timer

LATE_SECONDS = 60
"""A timer that is heard later than this says so."""
_DAY = 86_400


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


def ringing_text(timer: Timer, now: dt.datetime) -> str:
    """What the robot says when `timer` is due, or was: in the language it was set in."""
    late_seconds = (now - timer.due_at).total_seconds()
    japanese = timer.language == "ja"
    length = length_text(timer.duration_seconds, timer.language)
    if late_seconds <= LATE_SECONDS:
        if japanese:
            return (
                f"{timer.label}の時間だよ。{length}たったよ。"
                if timer.label
                else f"タイマーの時間だよ。{length}たったよ。"
            )
        return (
            f"Time for your timer: {timer.label}. It has been {length}." if timer.label else f"Your {length} are over."
        )
    minutes = round(late_seconds / 60) * 60
    ago = length_text(minutes, timer.language)
    if japanese:
        return f"{timer.label or length}のタイマーは、{ago}前に終わってたよ。"
    return f"Your timer{f' for {timer.label}' if timer.label else ''} was over {ago} ago."
