"""Relative days made lasting: 昨日 becomes 2026年11月29日に, because a memory is read on another day.

Pure. Reads with `dates.py`; knows no memory and no model.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import unicodedata

from server.memory.date_words import FEASTS, SEASONS
from server.memory.dates import DateRange, named_days

_LATER = dt.timedelta(days=3 * 366 + 40)
_HALF_A_YEAR = dt.timedelta(days=183)
_COMES_AGAIN = re.compile(
    r"[\d一二三四五六七八九十]月|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)|\bChristmas\b|"
    + "|".join(name for name in FEASTS if not name.isascii())
)
_YEAR_SAID = re.compile(r"[今去昨来\d]年|一昨年|おととし|年前|\d{4}|\b(?:last|this|next)\b|year", re.IGNORECASE)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_AFTER_A_DAY = re.compile(r"[のにはもがをで、。,.)\]]|から|まで|以|ごろ|頃|$")
_PREPOSITION = re.compile(r"\b(?:on|in|at|since|until|by|from|of|for|before|after|during)\s*$", re.IGNORECASE)


def day_text(first: dt.date, last: dt.date, language: str) -> str:
    """Days as a person writes them in `language` (ja, else English): one day, a month, a year, or from and to."""
    japanese = language == "ja"
    if first == last:
        return _one_day(first, japanese)
    if first.day == 1 and last == dt.date(first.year, first.month, calendar.monthrange(first.year, first.month)[1]):
        return f"{first.year}年{first.month}月" if japanese else f"{_MONTHS[first.month - 1]} {first.year}"
    if (first.month, first.day, last) == (1, 1, dt.date(first.year, 12, 31)):
        return f"{first.year}年" if japanese else str(first.year)
    between = "から" if japanese else " to "
    return f"{_one_day(first, japanese)}{between}{_one_day(last, japanese)}"


def explained(text: str, said_on: dt.date, language: str) -> str:
    """`text` with the date in brackets after every word that means another day later on. Comes back as NFKC.

    For whoever reads it to write about it. A word that may mean two different days is left alone.
    """
    text = unicodedata.normalize("NFKC", text)
    for said, days in _relative(text, said_on):
        text = text.replace(said, f"{said}({day_text(days.first, days.last, language)})", 1)
    return text


def lasting(text: str, said_on: dt.date, language: str) -> str:
    """`text` with every such word replaced by its date; with one in brackets behind it, that goes as well."""
    for said, days in _relative(text, said_on):
        written = day_text(days.first, days.last, language)
        pattern = re.compile(re.escape(said) + r"(?:\s?[((][^()()]{0,40}[))])?")
        match = pattern.search(text)
        if match is None:
            continue
        before, after = text[: match.start()], text[match.end() :]
        if language == "ja":
            if not _AFTER_A_DAY.match(after):
                written += "の間に" if "から" in written else "に"
        elif not _PREPOSITION.search(before):
            several = "from" if " to " in written else "in"
            written = f"{'on' if days.first == days.last else several} {written}"
            written = written[0].upper() + written[1:] if not before.strip() else written
        text = before + written + after
    return text


def _relative(text: str, said_on: dt.date) -> list[tuple[str, DateRange]]:
    """Words of the text that name days, one reading each, and would name others if they were said later."""
    by_words: dict[str, list[DateRange]] = {}
    for days in named_days(text, said_on):
        by_words.setdefault(days.said, []).append(days)
    found = []
    for said, readings in by_words.items():
        later = named_days(said, said_on + _LATER)
        same = any((days.first, days.last) == (readings[0].first, readings[0].last) for days in later)
        sure = len({(days.first, days.last) for days in readings}) == 1 and not _may_be_ahead(
            said, readings[0], said_on
        )
        if sure and not same:
            found.append((said, readings[0]))
    return found


def _may_be_ahead(said: str, days: DateRange, said_on: dt.date) -> bool:
    """Whether a day without its year was read as long past, when the next is nearer: in November, 1月11日."""
    if _YEAR_SAID.search(said):
        return False
    # Bare, a season is every year's: 春は混む.
    season = said.strip() in SEASONS
    return season or (_COMES_AGAIN.search(said) is not None and said_on - days.first > _HALF_A_YEAR)


def _one_day(day: dt.date, japanese: bool) -> str:
    if japanese:
        return f"{day.year}年{day.month}月{day.day}日"
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"
