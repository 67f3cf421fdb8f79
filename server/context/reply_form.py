"""What a reply may look like, as a regular expression: its sentences, its language, and which numbers it may say.

A small model that has looked something up and did not find it fills in a number all the same, and one that has found
it miscopies it. So an answer to a search may be held to the numerals that somebody has said: any other cannot be
written: nor two of them put together (2 and 5 as 2.5), nor a piece of a date as anything but a day. That is a matter of
characters, not of wording; a number that is spelled out in English or in kana (さんじゅう) cannot be told from words.

Pure. Knows no prompt, no tool and no persona.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

from server.memory.numbers import values
from server.memory.said_days import MONTHS_EN

# One sentence. Japanese begins with a Japanese character or a digit and ends on kana before its mark; English is ASCII
# without brackets (a small model fills forms: "My name is [Your Name]."): so a reply cannot slip into another language.
_SENTENCES = {
    "ja": r'[ぁ-んァ-ヶ一-龯々0-9０-９][^"\\\x00-\x1f。！？!?{}<>\[\]]{0,50}[ぁ-んァ-ヶー][。！？]',
    "en": r"[A-Z0-9]([#-\-/-;@-Z_-z ]|\.[a-z0-9]){1,120}[.!?]",
}
_ANY_SENTENCE = r'[^"\\\x00-\x1f。！？!?.]{1,120}[。！？!?.]'

_KANJI_NUMERALS = "〇零一二三四五六七八九十百千万億兆"
_NUMERALS = f"0-9０-９{_KANJI_NUMERALS}"
_NUMERAL = re.compile(rf"(?:[0-9]+(?:[.,][0-9]+)*|[{_KANJI_NUMERALS}])+")
_DATE = re.compile(r"(?<!\d)(?P<year>(?:19|20)\d\d)[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)T?")
_CLOCK = re.compile(
    r"(?<![\d:])(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?(?![\d:])"
)
_WRITTEN_DATE = re.compile(
    r"(?<!\d)(?:(?P<year>(?:19|20)\d\d)年)?(?P<month>\d{1,2})月(?P<day>\d{1,2})日"
    rf"|\b(?P<name>{'|'.join(MONTHS_EN)})\s+(?P<english_day>\d{{1,2}})(?:st|nd|rd|th)?\b"
    r"(?:,?\s+(?P<english_year>(?:19|20)\d\d))?",
    re.IGNORECASE,
)
_MOST_NUMERALS = 100
# They count nothing.
_NO_NUMBERS = "一緒|一番|一生懸命|十分"


# Between two numerals they would make a third.
_JOINS = r"\-−‐–—.,:;/'’ ・．，：；／～〜~＋+"
# Digits of other scripts, ①, ½, ³, Ⅲ, and kanji that stand for numbers and nothing else.
_OTHER_DIGITS = (
    "²³¹¼-¾\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0e50-\u0e59\u2070-\u2089\u2150-\u218b\u2460-\u24ff"
    "\u2776-\u2793\u3021-\u3029\u3192-\u3195\u3220-\u325f\u3280-\u32bf壱弐萬"
)


def reply_pattern(language: str, sentences: int, numerals: Collection[str] | None = None) -> str:
    """So many sentences at most, in `language` (ISO 639-1). `numerals`: the only numbers it may say; None: any."""
    sentence = _sentence(language) if numerals is None else _sentence_with(language, numerals)
    gap = " ?" if language == "en" else ""
    more = sentences - 1
    # None but the first begins with a number: "It was 640." and "2 dollars." would be 640.2.
    next_one = sentence if numerals is None else _sentence_with(language, numerals, begins=False)
    return f"^{sentence}({gap}{next_one}){{0,{more}}}$" if more else f"^{sentence}$"


def numerals_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The numbers in texts as they are written, and in digits; each once, at most 100, the first first.

    Of a date (2026-04-05) and a time (17:30) no piece, but what one says of them: 4月5日, April 5.
    """
    found: dict[str, None] = {}
    for text in texts:
        plain = unicodedata.normalize("NFKC", text)
        for date in _DATE.finditer(plain):
            found |= dict.fromkeys(_said_of_date(int(date["year"]), int(date["month"]), int(date["day"])))
        plain = _DATE.sub(" ", plain)
        for date in _WRITTEN_DATE.finditer(plain):
            month = int(date["month"] or MONTHS_EN.index(date["name"].capitalize()) + 1)
            year = date["year"] or date["english_year"]
            found[date[0]] = None
            found |= dict.fromkeys(_said_of_date(int(year or 0), month, int(date["day"] or date["english_day"])))
        plain = _WRITTEN_DATE.sub(" ", plain)
        for clock in _CLOCK.finditer(plain):
            found |= dict.fromkeys(_said_of_clock(int(clock["hour"]), clock["minute"]))
        plain = _CLOCK.sub(" ", plain)
        for match in _NUMERAL.finditer(plain):
            found[match[0]] = None
            # Room 007 is room 7.
            if match[0].isdecimal():
                found[match[0].lstrip("0") or "0"] = None
        for value in values(plain):
            found[f"{value:f}"] = None
            found[f"{value:,f}"] = None
    return tuple(found)[:_MOST_NUMERALS]


def _sentence(language: str) -> str:
    return _SENTENCES.get(language, _ANY_SENTENCE)


def _said_of_date(year: int, month: int, day: int) -> list[str]:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return []
    name, short = MONTHS_EN[month - 1], f"{month}月{day}日"
    kanji = f"{_kanji(month)}月{_kanji(day)}日"
    said = [
        *(
            short,
            kanji,
            f"{year}年{short}",
            f"{year}年{month}月",
            f"{year}年",
            f"{month}月",
            f"{_kanji(month)}月",
            f"{day}日",
        ),
        *(
            f"{_kanji(day)}日",
            f"{name} {day}, {year}",
            f"{name} {day}",
            f"{day} {name}",
            f"{name} {year}",
            f"in {year}",
        ),
        *(f"{name} {day}{ending}" for ending in ("st", "nd", "rd", "th") if ending == _ordinal(day)),
        f"the {day}{_ordinal(day)}",
    ]
    return [one for one in said if year or "0" not in re.findall(r"(?<!\d)0(?!\d)", one)]


def _said_of_clock(hour: int, minute: str) -> list[str]:
    of_twelve = hour % 12 or 12
    plain = {hour, of_twelve}
    said = [f"{one}:{minute}" for one in sorted(plain)] + [f"{one}時{int(minute)}分" for one in sorted(plain)]
    said += [f"{_kanji(one)}時{_kanji(int(minute))}分" for one in sorted(plain) if one and int(minute)]
    if minute == "00":
        said += [f"{one}{mark}" for one in sorted(plain) for mark in ("時", " o'clock", " am", " pm")]
    if minute == "30":
        said += [f"{one}時半" for one in sorted(plain)]
    return said


def _ordinal(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def _kanji(number: int) -> str:
    """Up to 99."""
    digits = "〇一二三四五六七八九"
    tens, ones = divmod(number, 10)
    return (digits[tens] if tens > 1 else "") + ("十" if tens else "") + (digits[ones] if ones or not tens else "")


def _sentence_with(language: str, numerals: Collection[str], *, begins: bool = True) -> str:
    """A sentence in which each numeral is one of these, whole: whatever stands behind it is none."""
    # As one writes them in that language: no 2026年 in English, no "in 2026" in Japanese.
    strange = {"ja": r"[a-zA-Z]", "en": r"[^\x00-\x7f]"}.get(language)
    numerals = [one for one in numerals if strange is None or not re.search(strange, one)]
    # The longest first, for engines that take the first that fits.
    one_of = "|".join(re.escape(one).replace("\\ ", " ") for one in sorted(numerals, key=lambda one: (-len(one), one)))
    if language == "ja":
        none = rf'"\\\x00-\x1f。！？!?{{}}<>\[\]{_NUMERALS}{_OTHER_DIGITS}'
        ends, last = "[ぁ-んァ-ヶー]", "[。！？]"
        first = f"([ぁ-んァ-ヶ々{_kanji_without_numerals()}]|{_NO_NUMBERS})"
        plain, most = f"([^{none}]|{_NO_NUMBERS})", 50
    elif language == "en":
        # Written out, since what joins two numerals must not stand behind one.
        first, ends, last = "[A-Z]", "", "[.!?]"
        plain, most = r"([#-\-/:;@-Z_-z ]|\.[a-z])", 120
        none = ""
    else:
        none = rf'"\\\x00-\x1f。！？!?.{_NUMERALS}{_OTHER_DIGITS}'
        first = plain = f"[^{none}]"
        ends, last, most = "", "[。！？!?.]", 120
    behind = "[#-&(-*@-Z_-z]" if language == "en" else f"[^{none}{_JOINS}]"
    # A numeral, and behind it what is no part of one, or a mark and then that.
    joins = "[,;:'/ -]" if language == "en" else f"[{_joins(none)}]"
    number = f"({one_of}){joins}{{0,2}}{behind}" if one_of else ""
    token = f"({plain}|{number})" if number else plain
    start = f"({first}|{number})" if number and begins else first
    final = f"({one_of})?" if one_of else ""
    return f"{start}{token}{{0,{most}}}{final}{ends}{last}"


def _joins(none: str) -> str:
    """What joins numerals, of what a sentence may hold at all."""
    return r"\-" + "".join(one for one in _JOINS.removeprefix(r"\-") if one not in none)


def _kanji_without_numerals() -> str:
    """The range 一-龯 as a class without the numerals in it."""
    pieces, start = [], ord("一")
    for code in sorted(ord(one) for one in f"{_KANJI_NUMERALS}壱弐萬" if "一" <= one <= "龯"):
        if start < code:
            pieces.append(f"{chr(start)}-{chr(code - 1)}")
        start = code + 1
    return "".join([*pieces, f"{chr(start)}-龯"])
