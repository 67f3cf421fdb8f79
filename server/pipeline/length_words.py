"""Lengths of time that somebody names, in Japanese and English (1時間半, "a quarter of an hour", "two and a
half minutes"). Pure; knows no timer.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from server.pipeline.spoken_forms import EN_NUMBER, JA_NUMBER, folded, number_of

_JA_UNITS = {"時間": 3600, "分": 60, "秒": 1}
_EN_UNITS = {"hour": 3600, "hr": 3600, "h": 3600, "minute": 60, "min": 60, "m": 60, "second": 1, "sec": 1, "s": 1}
_PARTS = {"half": 0.5, "quarter": 0.25, "quarters": 0.75, "半": 0.5, "はん": 0.5}

# 30分 is a length, and in 7時30分 and 4分の1 it is none.
_JA_LENGTH = re.compile(
    rf"(?<![\d.〇一二三四五六七八九十百千万時])(?<!分の)(?:(?P<number>{JA_NUMBER})|半(?=時間))\s*(?P<unit>{'|'.join(_JA_UNITS)})間?+"
    r"(?P<more>半|はん(?=[のでにご後タアっ、。!]|$))?+(?!前|遅|早|間隔|足らず|目|の[\d一二三四五六七八九]+(?![\d番つ個]))"
)
EN_UNIT = "hours?|hrs?|minutes?|mins?|seconds?|secs?"
_EN_PART = r"(?:an? |one )?(?:half|quarter)|three[- ]quarters"
_EN_LENGTH = re.compile(
    rf"(?:\b|(?<=\d[hm])(?=\d))(?:(?P<part>{_EN_PART})(?: of)?(?: an?)?[ -](?P<part_unit>hour|hr|minute|min)"
    rf"|(?P<number>{EN_NUMBER})(?: and (?P<with>{_EN_PART}))?"
    rf"(?:[ -]?(?P<unit>{EN_UNIT})|(?<=\d) ?(?P<letter>[hms])(?=\W|\d|$)))"
    rf"(?:\b|(?<=\d[hm])(?=\d))(?: and (?P<more>{_EN_PART})(?! (?:of |an? )?(?:hour|minute)))?+"
    rf"(?: (?:and )?(?P<rest>\d\d?|{EN_NUMBER})(?=$|[.,!?]| (?:please|timer|alarm)\b))?+"
    r"(?! (?:ago|before|late|early)\b)"
)
EN_LENGTH = (
    rf"(?:(?:{_EN_PART})(?: of)?(?: an?)?[ -](?:hour|minute)"
    rf"|{EN_NUMBER}(?: and (?:{_EN_PART}))?[ -]?(?:{EN_UNIT})(?: and (?:{_EN_PART}))?)"
)
"""A length within a longer form."""
_MINUS = re.compile(r"(?:\b(?:minus|negative) |マイナス\s?|(?:^|[^a-z0-9])[-−])$")
_BETWEEN = ("", "and", "と")


@dataclass(frozen=True, slots=True)
class Length:
    """A length as it was said. `start`, `end`: where; `unit_word`: as it is said of the last number."""

    start: int
    end: int
    seconds: float
    unit: int
    unit_word: str


def durations(words: str) -> tuple[int, ...]:
    """The lengths of time that are named, in seconds, in their order; 1時間30分 and "1 hour 30 minutes" are one. One
    below a second, as minus five minutes is, is none.
    """
    return tuple(round(length.seconds) for length in lengths(folded(words)) if length.seconds >= 1)


def lengths(said: str) -> list[Length]:
    """The same within folded words, with their places; also those of nothing or less."""
    found: list[Length] = []
    matches = [(match, read) for form, read in _FORMS for match in form.finditer(said)]
    for match, read in sorted(matches, key=lambda one: one[0].start()):
        length = read(match)
        if _MINUS.search(said[max(0, length.start - 10) : length.start]):
            length = Length(length.start, length.end, -length.seconds, length.unit, length.unit_word)
        last = found[-1] if found else None
        if last and length.unit < last.unit and said[last.end : length.start].strip(" 、,") in _BETWEEN:
            seconds = math.copysign(abs(last.seconds) + length.seconds, last.seconds)
            found[-1] = Length(last.start, length.end, seconds, length.unit, length.unit_word)
        else:
            found.append(length)
    return found


def without_lengths(said: str) -> str:
    """Folded words with a space where a length was."""
    for length in reversed(lengths(said)):
        said = f"{said[: length.start]} {said[length.end :]}"
    return said


def _japanese(match: re.Match[str]) -> Length:
    unit = _JA_UNITS[match["unit"]]
    number = number_of(match["number"]) if match["number"] else 0.5
    seconds = (number + _PARTS.get(match["more"] or "", 0.0)) * unit
    return Length(match.start(), match.end(), seconds, unit, match["unit"])


def _english(match: re.Match[str]) -> Length:
    if match["part"]:
        number, word = _part(match["part"]), match["part_unit"]
    else:
        number, word = number_of(match["number"]) + _part(match["with"]), match["unit"] or match["letter"]
    unit = _EN_UNITS[word.rstrip("s") or word]
    seconds = (number + _part(match["more"])) * unit
    if match["rest"] and unit > 1:
        seconds += number_of(match["rest"]) * unit / 60  # an hour twenty
    return Length(match.start(), match.end(), seconds, unit, word)


def _part(words: str | None) -> float:
    return _PARTS[re.split(r"[- ]", words)[-1]] if words else 0.0


_FORMS = ((_JA_LENGTH, _japanese), (_EN_LENGTH, _english))
