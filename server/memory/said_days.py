"""Relative days made lasting: 昨日 becomes 2026年11月29日に, because a memory is read on another day.

Pure. Reads with `dates.py`; knows no memory and no model.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import unicodedata

from server.memory.date_words import COMING, FEASTS, PAST, SEASONS
from server.memory.dates import DateRange, named_days

_LATER = dt.timedelta(days=3 * 366 + 40)
_HALF_A_YEAR = dt.timedelta(days=183)
_COMES_AGAIN = re.compile(
    r"[\d一二三四五六七八九十]月|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)|\bChristmas\b|"
    + "|".join(name for name in FEASTS if not name.isascii())
)
_YEAR_SAID = re.compile(r"[今去昨来\d]年|一昨年|おととし|年前|\d{4}|\b(?:last|this|next)\b|year", re.IGNORECASE)
MONTHS_EN = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_PART_OF_DAY = re.compile(r"\s+(?P<part>morning|afternoon|evening|night)\b", re.IGNORECASE)
_PARTS_SAID = {
    **{"this morning": "morning", "this afternoon": "afternoon", "this evening": "evening", "tonight": "evening"},
    **{"last night": "night", "今朝": "朝", "今夜": "夜", "今晩": "夜", "昨夜": "夜", "昨晩": "夜", "ゆうべ": "夜"},
}
_ON_A_WEEKDAY = re.compile(r"on\s+\w+day$", re.IGNORECASE)
_AFTER_A_DAY = re.compile(
    r"[のにはもがをで、。,.!?)\]」]|から|まで|以|ごろ|頃|だ(?!い)|じゃ|って|らしい|か(?:な|も|[。、]|$)|な[のんら]"
    r"|[よねと](?=[。!、よね]|$)|[とや](?=[一-龯])|$"
)
_EVERY_YEAR = re.compile(
    r"毎[年月週]|例年|年に一[度回]|誕生日|誕生会|生まれ|記念日|命日|\b(?:every|each|annual(?:ly)?|yearly|birthdays?"
    r"|anniversar(?:y|ies)|born)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[。!?]|[.](?!\d)")
_PREPOSITION = re.compile(r"\b(?:on|in|at|since|until|by|from|of|for|before|after|during)\s*$", re.IGNORECASE)


def day_text(first: dt.date, last: dt.date, language: str) -> str:
    """Days as a person writes them in `language` (ja, else English): one day, a month, a year, or from and to."""
    japanese = language == "ja"
    if first == last:
        return _one_day(first, japanese)
    if first.day == 1 and last == dt.date(first.year, first.month, calendar.monthrange(first.year, first.month)[1]):
        return f"{first.year}年{first.month}月" if japanese else f"{MONTHS_EN[first.month - 1]} {first.year}"
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
        text = text.replace(said, f"{said}({_written(days, language)})", 1)
    return text


def lasting(text: str, said_on: dt.date, language: str) -> str:
    """`text` with every such word replaced by its date; with one in brackets behind it, that goes as well."""
    for said, days in _relative(text, said_on):
        written = _written(days, language)
        pattern = re.compile(re.escape(said) + r"(?:\s?[((][^()()]{0,40}[))])?")
        match = pattern.search(text)
        if match is None:
            continue
        before, after = text[: match.start()], text[match.end() :]
        part = _PARTS_SAID.get(" ".join(said.lower().split()), "")
        if language == "ja":
            written = _japanese(f"{written}の{part}" if part else written, after)
        else:
            if not part and days.first == days.last and (later := _PART_OF_DAY.match(after)):
                part, after = later["part"].lower(), after[later.end() :]
            written = _english(f"the {part} of {written}" if part else written, before, days)
        text = before + written + after
    return text


def _written(days: DateRange, language: str) -> str:
    if not days.about:
        return day_text(days.first, days.last, language)
    middle = day_text(days.middle, days.middle, language)
    return f"{middle}ごろ" if language == "ja" else f"about {middle}"


def _japanese(written: str, after: str) -> str:
    """With the particle that what follows leaves out; 先週行った is some time in that week."""
    if "から" in written and after[:1] == "に":
        return f"{written}の間"
    if _AFTER_A_DAY.match(after):
        return written
    return written + ("の間に" if "から" in written else "に")


def _english(written: str, before: str, days: DateRange) -> str:
    """With the preposition that stands before no "last week"."""
    if _PREPOSITION.search(before):
        return written
    if days.first == days.last:
        written = f"on {written}"
    elif " to " in written:
        # Not from and to: one of those days, as a rule.
        written = f"between {written.replace(' to ', ' and ')}"
    elif not days.about:
        written = f"in {written}"
    return written if before.strip() else written[0].upper() + written[1:]


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
            text, said, readings[0], said_on
        )
        if sure and not same:
            found.append((said, readings[0]))
    return found


def _may_be_ahead(text: str, said: str, days: DateRange, said_on: dt.date) -> bool:
    """Whether a day without its year was read as long past, when the next is nearer: in November, 1月11日."""
    if _YEAR_SAID.search(said):
        return False
    if _ON_A_WEEKDAY.match(said):
        # The concert is on Friday: only what has been was last Friday.
        return not PAST.search(text) or COMING.search(text) is not None
    # Bare, a season is every year's: 春は混む. So is a birthday.
    season = said.strip() in SEASONS
    if _COMES_AGAIN.search(said) is not None and _EVERY_YEAR.search(_sentence_of(text, said)):
        return True
    return season or (_COMES_AGAIN.search(said) is not None and said_on - days.first > _HALF_A_YEAR)


def _sentence_of(text: str, words: str) -> str:
    """The sentence of `text` that `words` stand in first."""
    place = text.find(words)
    begins = [match.end() for match in _SENTENCE_END.finditer(text, 0, max(place, 0))]
    ends = _SENTENCE_END.search(text, place + len(words)) if place >= 0 else None
    return text[begins[-1] if begins else 0 : ends.start() if ends else len(text)]


def _one_day(day: dt.date, japanese: bool) -> str:
    if japanese:
        return f"{day.year}年{day.month}月{day.day}日"
    return f"{MONTHS_EN[day.month - 1]} {day.day}, {day.year}"
