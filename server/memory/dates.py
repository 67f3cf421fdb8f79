"""Days that a question names, in Japanese or English: 昨日, 先月, 去年の夏, 11月3日, last week, in May.

Pure: the day on which it is asked comes in. Vague times (この前, recently) and habits (水曜は) name no days. It only
reads; whether days narrow a search or raise a memory in its order is decided by who asks.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from server.memory.date_words import (
    APPROXIMATELY,
    COMING,
    COUNTED_VAGUELY,
    DAY_WORDS,
    FEASTS,
    FOR_COUNTING,
    LASTED,
    MONTH_NAMES,
    MONTH_PARTS,
    PAST,
    SEASONS,
    UNITS,
    WEEKDAYS,
    YEAR_WORDS,
)

SOON_DAYS = 31
"""A month, season or day named without a year is the last one; the next one too when it begins so soon."""


@dataclass(frozen=True, slots=True)
class DateRange:
    """Days, both ends among them."""

    first: dt.date
    last: dt.date
    said: str
    """The words that named them, as compared: NFKC."""
    about: bool = False
    """Counted in weeks or months (two weeks ago): the middle day is the one meant, the others are leeway."""

    @property
    def middle(self) -> dt.date:
        """The day in the middle: the one meant by days that are `about`."""
        return self.first + (self.last - self.first) // 2

    def days_away(self, day: dt.date) -> int:
        """0 for a day within; else how many days it lies outside."""
        return max((self.first - day).days, (day - self.last).days, 0)


def named_days(text: str, asked_on: dt.date) -> tuple[DateRange, ...]:
    """The days that `text` names when asked on `asked_on` (a local date), in the order they are named.

    Of overlapping readings the longest wins (去年の夏, not 去年). "5月か6月" gives two; a month without a year may give
    two, the last and the coming one.
    """
    text = unicodedata.normalize("NFKC", text)
    found: list[tuple[int, int, list[_Span], bool]] = []
    for pattern, read in _READINGS:
        for match in pattern.finditer(text):
            try:
                ranges = list(read(match, asked_on))
            except (ValueError, OverflowError):
                continue  # 2月30日, and years no calendar has
            if ranges:
                found.append((match.start(), match.end(), ranges, read is _read_counted))
    found.sort(key=lambda item: (item[0] - item[1], item[0]))
    kept: list[tuple[int, int, list[_Span], bool]] = []
    for start, end, ranges, counted in found:
        if all(end <= other[0] or start >= other[1] for other in kept):
            kept.append((start, end, ranges, counted))
    return tuple(
        DateRange(first, last, text[start:end], counted and first != last and (first, last) != _year(first.year))
        for start, end, ranges, counted in sorted(kept, key=lambda item: item[0])
        for first, last in ranges
    )


_Span = tuple[dt.date, dt.date]
_Read = Callable[[re.Match[str], dt.date], Iterator[_Span]]


def _days(day: dt.date, offset: int) -> dt.date:
    return day + dt.timedelta(days=offset)


def _month(year: int, month: int) -> _Span:
    return dt.date(year, month, 1), dt.date(year, month, calendar.monthrange(year, month)[1])


def _months_from(day: dt.date, offset: int) -> _Span:
    count = day.year * 12 + day.month - 1 + offset
    return _month(count // 12, count % 12 + 1)


def _year(year: int) -> _Span:
    return dt.date(year, 1, 1), dt.date(year, 12, 31)


def _week(day: dt.date, offset: int) -> _Span:
    monday = _days(day, -day.weekday() + 7 * offset)
    return monday, _days(monday, 6)


def _number(text: str) -> int:
    """12, 十二, twelve or a. Raises `ValueError`."""
    text = " ".join(text.lower().split())
    if text in FOR_COUNTING:
        return FOR_COUNTING[text]
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return int("".join(str(FOR_COUNTING[digit]) for digit in text))
    return (FOR_COUNTING[tens] if tens else 1) * 10 + (FOR_COUNTING[ones] if ones else 0)


def _without_year(make: Callable[[int], _Span], asked_on: dt.date) -> Iterator[_Span]:
    past = [span for year in (asked_on.year - 1, asked_on.year) if (span := make(year))[0] <= asked_on]
    yield past[-1] if past else make(asked_on.year - 1)
    for year in (asked_on.year, asked_on.year + 1):
        if 0 < (make(year)[0] - asked_on).days <= SOON_DAYS:
            yield make(year)


def _season(name: str) -> Callable[[int], _Span]:
    first, last = SEASONS[name.lower()]
    return lambda year: (dt.date(year, first, 1), _month(year + (last < first), last)[1])


def _said_year(match: re.Match[str], asked_on: dt.date) -> int | None:
    """The year a match gives, as a number or as a word; None without one."""
    if number := match["year"]:
        return int(number)
    if word := match["year_word"]:
        return asked_on.year + YEAR_WORDS[word.lower()]
    if count := match["years_ago"]:
        return asked_on.year - _number(count)
    return None


def _named(make: Callable[[int], _Span], match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    year = _said_year(match, asked_on)
    if year is None:
        yield from _without_year(make, asked_on)
    else:
        yield make(year)


def _read_season(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    yield from _named(_season(match["season"]), match, asked_on)


def _read_english_season(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    make, which = _season(match["season"]), match["which"].lower()
    if match["year"]:
        yield make(int(match["year"]))
    elif which == "next":
        yield min(span for year in range(2) if (span := make(asked_on.year + year))[0] > asked_on)
    elif which == "this":
        yield make(asked_on.year)
    else:
        ended = [span for year in range(3) if (span := make(asked_on.year - year))[1] < asked_on]
        yield ended[0] if which == "last" else next(_without_year(make, asked_on))


def _read_feast(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    (month, day), (last_month, last_day) = FEASTS[match["feast"].lower()]
    yield from _named(lambda year: (dt.date(year, month, day), dt.date(year, last_month, last_day)), match, asked_on)


def _read_month(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    month, day, part = _number(match["month"]), match["day"], match["part"]
    if not 1 <= month <= 12:
        return

    def make(year: int) -> _Span:
        first, last = _month(year, month)
        if day:
            return (exact := dt.date(year, month, _number(day))), exact
        if part:
            begins, ends = MONTH_PARTS[part]
            return dt.date(year, month, begins), min(last, dt.date(year, month, min(ends, last.day)))
        return first, last

    yield from _named(make, match, asked_on)


def _read_english_month(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    month = MONTH_NAMES[match["name"].lower()[:3]]
    day, year, which = match["day"], match["year"], match.groupdict().get("which_year")

    def make(when: int) -> _Span:
        return (exact := dt.date(when, month, int(day)), exact) if day else _month(when, month)

    if which:
        yield make(asked_on.year + {"last": -1, "this": 0, "next": 1}[which.lower()])
    elif year:
        yield make(int(year))
    else:
        yield from _without_year(make, asked_on)


def _read_numbers(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    day = dt.date(int(match["year"]), int(match["month"]), int(match["day"]))
    yield day, day


def _read_year(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    if (year := _said_year(match, asked_on)) is not None:
        yield _year(year)


def _read_day_word(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    day = _days(asked_on, DAY_WORDS[" ".join(match["word"].lower().split())])
    yield day, day


def _read_unit_word(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    unit, offset = UNITS[" ".join(match["word"].lower().split())]
    if unit == "week":
        first, last = _week(asked_on, offset)
        if weekday := match["weekday"]:
            first = last = _days(first, WEEKDAYS[weekday])
        elif match["weekend"] or match["word"].lower().endswith("weekend"):
            first = _days(last, -1)
        yield first, last
    elif unit == "month":
        first, last = _months_from(asked_on, offset)
        if day := match["day"]:
            first = last = first.replace(day=_number(day))
        elif part := match["part"]:
            begins, ends = MONTH_PARTS[part]
            first, last = first.replace(day=begins), first.replace(day=min(ends, last.day))
        yield first, last


def _read_weekday(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    weekday = WEEKDAYS[match["weekday"].lower()[: 3 if match["weekday"].isascii() else 1]]
    back = (asked_on.weekday() - weekday) % 7 or 7
    day = _days(asked_on, 7 - back if match["which"].lower() in ("next", "次", "今度") else -back)
    yield day, day


def _read_counted(match: re.Match[str], asked_on: dt.date) -> Iterator[_Span]:
    """Three weeks ago: the further back, and the vaguer it is said, the more days around it."""
    if match["direction"].lower() == "in" and not _lies_ahead(match):
        return  # I read it in two weeks: how long it took
    half, unit = match["unit"] in ("半年", "半月"), match["unit"].lower().rstrip("s")
    count = 1 if half else _number(match["count"])
    sign = -1 if match["direction"].lower() in ("前", "ago") else 1
    if unit in ("日", "day"):
        middle, around = _days(asked_on, sign * count), 0
    elif unit in ("週間", "week"):
        middle, around = _days(asked_on, sign * 7 * count), 3
    elif unit in ("年", "year"):
        yield _year(asked_on.year + sign * count)
        return
    else:
        months = 6 if unit == "半年" else count
        if unit == "半月":
            middle, around = _days(asked_on, sign * 15), 4
        else:
            first, last = _months_from(asked_on, sign * months)
            middle, around = _days(first, min(asked_on.day, last.day) - 1), 15
    if match["about"] or " ".join(match["count"].lower().split()) in COUNTED_VAGUELY:
        around = around * 2 or 1
    yield _days(middle, -around), _days(middle, around)


def _lies_ahead(match: re.Match[str]) -> bool:
    """Whether the sentence around "in two weeks" speaks of what is to come."""
    before = re.split(r"[.!?]\s", match.string[: match.start()])[-1]
    after = re.split(r"[.!?]", match.string[match.end() :])[0]
    sentence = f"{before} {after}"
    return not (PAST.search(sentence) or LASTED.search(sentence)) and bool(
        COMING.search(before) or COMING.search(after)
    )


_COUNT = r"(?<!\d)(?P<{0}>\d{{1,3}}|[一二三四五六七八九十]{{1,3}})"
_YEAR = (
    r"(?:(?:(?P<year>(?:19|20)\d\d)年|(?P<year_word>今年|去年|昨年|来年|一昨年|おととし|再来年)"
    rf"|{_COUNT.format('years_ago')}年前)の?)"
)
_PART = f"(?P<part>{'|'.join(MONTH_PARTS)})"
_DAY = r"(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3})日(?!間)"
_ENGLISH_YEAR = r"(?:,?\s+(?:of\s+)?(?P<year>(?:19|20)\d\d)\b)"
_ANY_ENGLISH_YEAR = r"(?:,?\s+(?:of\s+)?(?:(?P<year>(?:19|20)\d\d)|(?P<which_year>[Nn]ext|[Ll]ast|[Tt]his)\s+year)\b)"
_MONTHS = (
    r"(?P<name>January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b"
)
_ORDINAL = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_WORDS = "|".join(sorted(map(re.escape, DAY_WORDS), key=len, reverse=True)).replace(r"\ ", r"\s+")
_UNIT_WORDS = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True)).replace(r"\ ", r"\s+")
_ASCII = r"(?<![A-Za-z])"
_ENGLISH_COUNT = (
    r"(?P<count>\d{1,3}|(?:a\s+)?couple(?:\s+of)?|(?:a\s+)?few|an?|one|two|three|four|five|six|seven|eight|nine|ten"
    r"|eleven|twelve)"
)

_READINGS: tuple[tuple[re.Pattern[str], _Read], ...] = (
    (re.compile(rf"{_YEAR}(?P<season>春|夏|秋|冬)(?!の?[服物])"), _read_season),
    (
        # Alone it must not be half a word: 春巻き, 秋葉原.
        re.compile(rf"{_YEAR}?(?P<season>春|夏|秋|冬)(?=[にのはもごっかで、。?!\s]|休み|頃|$)(?!の?[服物])"),
        _read_season,
    ),
    (re.compile(rf"{_YEAR}?(?P<feast>{'|'.join(name for name in FEASTS if not name.isascii())}|GW)"), _read_feast),
    (re.compile(rf"{_YEAR}?{_COUNT.format('month')}月(?!間|々)の?(?:{_DAY}|{_PART})?"), _read_month),
    (re.compile(r"(?<!\d)(?P<year>(?:19|20)\d\d)[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)"), _read_numbers),
    (re.compile(_YEAR), _read_year),
    (re.compile(rf"(?:{_ASCII})(?P<word>{_WORDS})(?![a-z])", re.IGNORECASE), _read_day_word),
    (
        re.compile(
            rf"{_ASCII}(?P<word>{_UNIT_WORDS})(?![a-z])(?:の?(?:(?P<weekday>[月火水木金土日])曜日?|(?P<weekend>週末|(?<=週)末)"
            rf"|{_DAY}|{_PART}))?",
            re.IGNORECASE,
        ),
        _read_unit_word,
    ),
    (
        re.compile(r"(?P<which>この前|この間|このあいだ|こないだ|前|次|今度)の(?P<weekday>[月火水木金土日])曜日?"),
        _read_weekday,
    ),
    (
        re.compile(
            r"\b(?P<which>last|next|on)\s+(?P<weekday>Mon|Tues?|Wednes|Thurs?|Fri|Satur|Sun)day\b", re.IGNORECASE
        ),
        _read_weekday,
    ),
    (
        re.compile(
            rf"{_COUNT.format('count')}(?P<unit>日|週間|[ヶケかカ箇]月|年)(?P<about>{APPROXIMATELY})?(?P<direction>前|後)"
        ),
        _read_counted,
    ),
    (
        re.compile(rf"(?P<unit>半年|半月)(?P<about>{APPROXIMATELY})?の?(?P<direction>前|後)(?P<count>)"),
        _read_counted,
    ),
    (
        re.compile(
            rf"(?P<about>(?:about|around|some)\s+)?\b{_ENGLISH_COUNT}\s+(?P<unit>days?|weeks?|months?|years?)\s+"
            r"(?P<direction>ago|from\s+(?:now|today))\b",
            re.IGNORECASE,
        ),
        _read_counted,
    ),
    (
        re.compile(
            rf"\b(?P<direction>in)\s+(?P<about>(?:about|around|some)\s+)?{_ENGLISH_COUNT}\s+"
            r"(?P<unit>days?|weeks?|months?|years?)\b(?:'\s+time\b)?(?!\s+(?:of|ago)\b)",
            re.IGNORECASE,
        ),
        _read_counted,
    ),
    (
        re.compile(
            r"\b(?P<which>last|this|next|in|during|of)\s+(?:the\s+)?(?P<season>spring|summer|autumn|fall|winter)\b"
            rf"{_ENGLISH_YEAR}?",
            re.IGNORECASE,
        ),
        _read_english_season,
    ),
    (re.compile(rf"\b{_MONTHS}\.?\s+{_ORDINAL}{_ANY_ENGLISH_YEAR}?"), _read_english_month),
    (re.compile(rf"\b{_ORDINAL}\s+(?:of\s+)?{_MONTHS}{_ANY_ENGLISH_YEAR}?"), _read_english_month),
    (re.compile(rf"\b{_MONTHS}(?P<day>){_ANY_ENGLISH_YEAR}"), _read_english_month),
    (
        re.compile(
            rf"\b(?:in|of|during|since|by|until|last|this|early|late|mid)[\s-]+(?:early\s+|late\s+|mid[\s-])?{_MONTHS}"
            r"(?P<day>)(?P<year>)(?!\s+\d)"
        ),
        _read_english_month,
    ),
    (re.compile(r"\b(?:in|of|during|since)\s+(?P<year>(?:19|20)\d\d)(?P<year_word>)(?P<years_ago>)\b"), _read_year),
    (
        re.compile(r"\b(?:at|for|last|this|on)\s+(?P<feast>Christmas)(?P<year>)(?P<year_word>)(?P<years_ago>)"),
        _read_feast,
    ),
)
