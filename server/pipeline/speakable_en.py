"""English: what is written short is said in full, where a voice would not do so by itself.

Numbers, ordinals, years, money, dates, clock times, most units, titles and roman numerals stay as they are written:
the English voices read them well. Pure text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SHORT = {
    "e.g.": "for example", "eg.": "for example", "i.e.": "that is", "etc.": "and so on", "vs.": "versus",
    "vs": "versus", "w/": "with", "w/o": "without", "approx.": "approximately", "a.k.a.": "also known as",
    "cf.": "compare", "btw": "by the way", "fyi": "for your information",
}  # fmt: skip
_NUMBER = r"[0-9]{1,15}(?:,[0-9]{3}){0,5}(?:\.[0-9]{1,15})?"
_SQUARES = {"^2": "square", "2": "square", "^3": "cubic", "3": "cubic"}
_LENGTHS = {"m": "meters", "cm": "centimeters", "km": "kilometers", "mm": "millimeters", "ft": "feet"}
_UNITS = {"m": "meter", "l": "liter", "L": "liter", "m/s": "meter per second", "t": "ton", "kcal": "kilocalorie"}
_SCALES = {"C": " Celsius", "F": " Fahrenheit", None: ""}


def _short(match: re.Match[str]) -> str:
    written = match.group()
    spoken = _SHORT[written.casefold()]
    ends = re.match(r"[\"')]*(?:$|\n|\s+[A-Z0-9\u3040-\u9fff])", match.string[match.end() : match.end() + 8])
    return spoken + ("." if ends and written.casefold() == "etc." else "")


def _unit(match: re.Match[str]) -> str:
    number, unit = match.groups()
    one = number == "1"
    head, _, per = _UNITS[unit].partition(" ")
    return f"{number} {head}{'' if one else 's'}{' ' + per if per else ''}"


def _temperature(match: re.Match[str]) -> str:
    number, scale = match.groups()
    return f"{number} degree{'' if number == '1' else 's'}{_SCALES[scale]}"


def _version(match: re.Match[str]) -> str:
    return "version " + match.group(1).replace(".", " point ")


def _halves(match: re.Match[str]) -> str:
    first, second = match.groups()
    return f"{first} {second}" if int(first) + int(second) == 100 else match.group()


_RULES: tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        ".w/bf",
        re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(_SHORT, key=len, reverse=True)))})(?!\w)", re.I),
        _short,
    ),
    (".", re.compile(r"(?<![\w.])[vV](?:er\.|ersion)?[ ]?([0-9]{1,4}(?:\.[0-9]{1,6}){1,4})(?![\w.]*\w)"), _version),
    (".", re.compile(r"\b[pP]\.[ ]?(?=[0-9])"), "page "),
    (".", re.compile(r"\b[pP]{2}\.[ ]?(?=[0-9])"), "pages "),
    (".", re.compile(r"\b[vV]ol\.[ ]?(?=[0-9])"), "volume "),
    ("'", re.compile(r"(?<![\w.])([1-9])'([0-9]{1,2})\""), r"\1 foot \2"),
    ("/", re.compile(r"(?<![\w/.])([0-9]{2})/([0-9]{2})(?![\w/])"), _halves),
    ("/", re.compile(r"(?<=[0-9])x/(?=day|week|month|year|hour)"), " times/"),
    ("/", re.compile(r"(?<=[A-Za-z0-9])/(?=(?:day|week|month|year|hour|minute|second|person|night)s?\b)"), " per "),
    ("/", re.compile(r"(?<![\w/])24/7(?![\w/])"), "24 7"),
    (
        "23",
        re.compile(rf"({_NUMBER})[ ]?(mm|cm|km|ft|m)(\^[23]|[23])(?![\w^])"),
        lambda match: f"{match.group(1)} {_SQUARES[match.group(3)]} {_LENGTHS[match.group(2)]}",
    ),
    ("°", re.compile(rf"({_NUMBER})[ ]?°[ ]?([CF])?(?![\w])"), _temperature),
    ("mlLtk", re.compile(rf"(?<![\w.,$£€])({_NUMBER})[ ]?(m/s|kcal|m|l|L|t)(?![\w'^/])"), _unit),
    ("^", re.compile(r"(?<=[A-Za-z0-9])\^2(?![0-9])"), " squared"),
    ("^", re.compile(r"(?<=[A-Za-z0-9])\^3(?![0-9])"), " cubed"),
    ("^", re.compile(r"(?<=[A-Za-z0-9])\^(?=[0-9])"), " to the power of "),
    ("~≈≒", re.compile(r"(?<![0-9A-Za-z])[~〜≈≒][ ]?(?=[0-9$£€¥])"), "about "),
    ("–", re.compile(r"(?<=[0-9][ap]m) ?– ?(?=[0-9])", re.I), " to "),
    ("~〜–", re.compile(r"(?<=[0-9])[ ]?[~〜–][ ]?(?=[0-9])"), " to "),
    ("≈≒", re.compile(r"[ ]?[≈≒][ ]?"), " is about "),
    ("≥≧", re.compile(r"[ ]?[≥≧][ ]?"), " at least "),
    ("≤≦", re.compile(r"[ ]?[≤≦][ ]?"), " at most "),
    ("≠", re.compile(r"[ ]?≠[ ]?"), " is not "),
    ("±", re.compile(r"[ ]?±[ ]?"), " plus or minus "),
    ("×", re.compile(r"(?<=[0-9A-Za-z)])[ ]?×[ ]?(?=[0-9A-Za-z(])"), " times "),
    ("÷", re.compile(r"[ ]?÷[ ]?"), " divided by "),
    ("*", re.compile(r"(?<=[0-9])[ ]?\*[ ]?(?=[0-9])"), " times "),
    ("√", re.compile(r"√(?=[0-9A-Za-z])"), "the square root of "),
    ("∞", re.compile("∞"), " infinity "),
    ("π", re.compile("π"), " pi "),
    ("=", re.compile(r"(?<=[\w)])[ ]?=[ ]?(?=[\w(-])"), " equals "),
    ("+", re.compile(r"(?<=[0-9)])[ ]?\+[ ]?(?=[0-9(])"), " plus "),
    ("-−", re.compile(r"(?<=[0-9)])(?: [-−] |−)(?=[0-9(])"), " minus "),
    ("-−", re.compile(r"(?<![\w.)\]-])[-−](?=[0-9])"), "minus "),
    (">", re.compile(r"(?<=\w)[ ]?>[ ]?(?=[0-9])"), " is greater than "),
    ("<", re.compile(r"(?<=\w)[ ]?<[ ]?(?=[0-9])"), " is less than "),
    ("&", re.compile(r"(?<=\w) & (?=\w)"), " and "),
    ("#", re.compile(r"(?<![\w#])#(?=[0-9])"), "number "),
    ("#", re.compile(r"\b([CF])#"), r"\1 sharp"),
    ("#", re.compile(r"(?<![\w#])#(?=\w)"), "hashtag "),
    ("+", re.compile(r"\bC\+\+"), "C plus plus"),
    ("@", re.compile(r"(?<!\w)@[ ]?(?=\w)|(?<=\w)[ ]@[ ](?=\w)"), " at "),
    ("(", re.compile(r"(?<=[a-z])\((e?s)\)"), r"\1"),
    ("→", re.compile(r"(?<=\w) ?[→⇒] ?(?=\w)"), " to "),
    ("/", re.compile(r"(?<=[A-Za-z])/(?=[A-Za-z])(?!h\b|s\b|or\b)"), " or "),
    ("/", re.compile(r"(?<=[A-Za-z])/or\b"), " or"),
)


def in_words(text: str) -> str:
    """An English clause with its short forms in words."""
    present = set(text)
    for marks, pattern, replacement in _RULES:
        if not present.isdisjoint(marks) or not present.isdisjoint(marks.upper()):
            text = pattern.sub(replacement, text)
    return text
