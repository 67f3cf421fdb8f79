"""Numbers in a text, however they are written: 30,000円, 三万円, 3万, thirty thousand yen are one.

Pure. Kanji count as a number only with what makes them one (a counter, or several of them), since 一緒 and 千葉 are
none. A time of the clock or a day of the year is one number, not its pieces: 17時30分 and 17:30 are 17.30時,
十一月三十日 is 11.30月. Dates are numbers too here; who must tell them apart takes them out first.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

_DIGITS = {character: value for value, character in enumerate("〇一二三四五六七八九")} | {"零": 0}
_SMALL = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10**4, "億": 10**8, "兆": 10**12}
_KANJI = "".join([*_DIGITS, *_SMALL, *_LARGE])
_PIECE = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_WHOLE = "日|月|年|人|個|枚|匹|頭|羽|台|冊|本|回|歳|才|階|つ|番|泊|名|週|時|分|か月|ヶ月|丁目|号"
"""What is counted in whole ones: 二・三日 are two or three days, 六十五・五キロ is 65.5."""
_COUNTERS = (
    "円|ドル|ユーロ|元|人|日|月|年|時間|時|分間|分|秒|個|枚|匹|頭|羽|台|冊|本|回|歳|才|階|度|杯|つ|番目|週|泊|袋|箱|名|店|曲|足|着|軒"
    "|か月|ヶ月|カ月|ヵ月|箇月|メートル|センチ|キロ|グラム|リットル|パーセント|割|畳|錠|粒|部屋|丁目|号|点|位|倍"
)
_POINT = (
    rf"(?:・(?P<point>\d+|[{''.join(_DIGITS)}]+)(?![\d{_KANJI}・])(?!\s?(?:{_WHOLE}))"
    rf"|点(?P<spoken>[{''.join(_DIGITS)}]+)(?![\d{_KANJI}])(?!\s?(?:{_WHOLE})))?"
)
_NUMERAL = re.compile(
    # What joins two numbers (3日-5日, 090-1234) is no sign.
    rf"(?P<below>マイナス|零下|氷点下|\b(?:minus|negative)\s+|(?<![^\s、。,(「はがをもでに:])[-−‐–])?"
    rf"(?P<sign>[¥$€]\s?)?(?P<number>{_PIECE}(?:[{_KANJI}]|(?<=[{_KANJI}]){_PIECE})*|[{_KANJI}]+(?:{_PIECE}[{_KANJI}]*)*){_POINT}"
    rf"(?:\s?(?P<thousands>k|thousand|million)\b)?"
    rf"\s?(?P<unit>{_COUNTERS}|%|o'clock|[A-Za-z]+)?",
    re.IGNORECASE,
)
_PARTS = re.compile(rf"{_PIECE}|[{_KANJI}]")
_NOT_COUNTED = re.compile(r"(?:一[番度日回]|十分[なにだ])")
_UNITS = {
    **dict.fromkeys(("¥", "yen", "jpy", "円"), "円"),
    **dict.fromkeys(("$", "dollar", "dollars", "usd", "bucks", "ドル"), "ドル"),
    **dict.fromkeys(("€", "euro", "euros", "ユーロ"), "ユーロ"),
    **dict.fromkeys(("%", "percent", "パーセント"), "%"),
    **dict.fromkeys(("才", "歳"), "歳"),
    **dict.fromkeys(("か月", "ヶ月", "カ月", "ヵ月", "箇月"), "か月"),
    "分間": "分",
    **dict.fromkeys(("people", "persons", "人", "名"), "人"),
}
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ENGLISH = {word: value for value, word in enumerate(_ONES.split())} | {
    word: value * 10 for value, word in enumerate(_TENS.split(), start=2)
}
_ENGLISH_LARGE = {"thousand": 10**3, "million": 10**6}
_ENGLISH_WORD = "|".join(sorted([*_ENGLISH, *_ENGLISH_LARGE, "hundred"], key=len, reverse=True))
_ENGLISH_NUMERAL = re.compile(
    rf"\b(?P<below>(?:minus|negative)\s+)?(?P<words>(?:{_ENGLISH_WORD})(?:(?:\s+and\s+|[\s-]+)(?:{_ENGLISH_WORD}))*)\b(?:\s(?P<unit>o'clock|[A-Za-z]+))?",
    re.IGNORECASE,
)


_UNIT_WORDS = "gb mb tb kg g km m cm mm l ml hz w kw v year month week day hour minute second am pm o'clock time"
_ENGLISH_UNITS = frozenset(_UNIT_WORDS.split())
_MEASURES = frozenset(("gb", "mb", "tb", "kg", "km", "cm", "mm", "ml", "kw"))
"""After a single kanji too: 五kg."""


_PARTS_OF = {"時": "分", "時間": "分", "月": "日"}
_MOMENTS = frozenset(_PARTS_OF.items())
_HALF = re.compile(rf"(?<=[\d{_KANJI}]時)半|(?<=[\d{_KANJI}]時間)半")
_FRACTION = re.compile(rf"の[\d{_KANJI}]")
_MINUTES = re.compile(r"[0-5]\d(?!\d)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it counts; `unit` is empty when nothing tells, and one spelling for one thing (yen is 円)."""

    value: Decimal
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A number where it stands in a text (NFKC): from `start` to `end` with what it counts, the number alone within."""

    quantity: Quantity
    start: int
    end: int
    number_start: int
    number_end: int


def quantities(text: str) -> frozenset[Quantity]:
    """Every number in `text`, digits, kanji numerals and English words alike."""
    return frozenset(one.quantity for one in written(text))


def written(text: str) -> tuple[Written, ...]:
    """Every number in `text` and where it stands once that is NFKC, in order; a moment is one."""
    text = unicodedata.normalize("NFKC", text)
    found: list[Written] = []
    for one in _pieces(text):
        joined = _joined(found[-1], one, text) if found else None
        if joined is not None:
            found[-1] = joined
        else:
            found.append(one)
    return tuple(_with_half(one, text) for one in found)


def _joined(first: Written, second: Written, text: str) -> Written | None:
    """Two pieces as the one moment that they name: 17時 and 30分, 17 and :30, 十一月 and 三十日."""
    value, part = first.quantity.value, second.quantity.value
    if not (value == value.to_integral_value() and part == part.to_integral_value() and 0 <= part < 100):
        return None
    unit, between = first.quantity.unit, text[first.end : second.start]
    by_units = between == "" and (unit, second.quantity.unit) in _MOMENTS
    by_colon = between == ":" and unit == "" and value < 25 and _MINUTES.match(text, second.number_start) is not None
    if not (by_units or (by_colon and second.quantity.unit in ("", "am", "pm"))):
        return None
    unit = unit or second.quantity.unit or "時"
    # A length of time is in hours; a moment keeps its minutes: 17.30時.
    share = part / 60 if unit == "時間" else part / 100
    quantity = Quantity(round(value + share, 4).normalize() + 0, unit)
    number_end = second.number_end if by_colon else second.end
    return Written(quantity, first.start, second.end, first.number_start, number_end)


def _with_half(one: Written, text: str) -> Written:
    """三時半 is half past three, 三時間半 three hours and a half."""
    if one.quantity.unit not in ("時", "時間") or text[one.end : one.end + 1] != "半":
        return one
    half = Decimal("0.5") if one.quantity.unit == "時間" else Decimal("0.3")
    quantity = Quantity(one.quantity.value + half, one.quantity.unit)
    return Written(quantity, one.start, one.end + 1, one.number_start, one.end + 1)


def _pieces(text: str) -> list[Written]:
    """The numbers of a text (NFKC) one by one."""
    found: list[Written] = []
    for match in _NUMERAL.finditer(text):
        number, unit = match["number"], match["unit"] or ""
        point = match["point"] or match["spoken"] or ""
        if not _counts(number + point, unit) or _NOT_COUNTED.match(text, match.start("number")):
            continue
        if unit == "分" and _FRACTION.match(text, match.end()):
            continue  # 三分の一 is no three minutes
        value = _value(number) * _ENGLISH_LARGE.get((match["thousands"] or "").lower(), 1)
        if point:
            value += Decimal("0." + "".join(str(_DIGITS.get(digit, digit)) for digit in point))
        if (match["thousands"] or "").lower() == "k":
            value *= 1000
        if match["below"]:
            value = -value
        last = "thousands" if match["thousands"] else "point" if match["point"] else "spoken" if point else "number"
        number_end = match.end(last)
        end = match.end() if _unit(unit) else number_end
        counted = Quantity(value, _unit(match["sign"] or unit))
        number_start = match.start() if match["below"] else match.start("number")
        found.append(Written(counted, match.start(), end, number_start, number_end))
    for match in _ENGLISH_NUMERAL.finditer(text):
        words = [word for word in re.split(r"[\s-]+", match["words"].lower()) if word != "and"]
        # "one" alone is a pronoun more often than a number, and "30 thousand" was read above.
        if words != ["one"] and not (words[0] in _ENGLISH_LARGE and re.search(r"\d\s?$", text[: match.start()])):
            value = _english_value(words) * (-1 if match["below"] else 1)
            counted = Quantity(value, _unit(match["unit"] or ""))
            end = match.end() if counted.unit else match.end("words")
            found.append(Written(counted, match.start(), end, match.start(), match.end("words")))
    return sorted(found, key=lambda one: (one.start, one.end))


def without_quantities(text: str) -> str:
    """`text` as NFKC with a comma for every number and its unit; what is no unit (2 sons) stays."""
    text = _HALF.sub("", unicodedata.normalize("NFKC", text))

    def removed(match: re.Match[str]) -> str:
        unit = match["unit"] or ""
        return "、" if not unit or _unit(unit) else f"、{unit}"

    def numeral(match: re.Match[str]) -> str:
        unit = match["unit"] or ""
        number = match["number"] + (match["point"] or match["spoken"] or "")
        return removed(match) if _counts(number, unit) else match[0]

    def english(match: re.Match[str]) -> str:
        return match[0] if match["words"].lower() == "one" else removed(match)

    return _ENGLISH_NUMERAL.sub(english, _NUMERAL.sub(numeral, text))


def values(text: str) -> frozenset[Decimal]:
    """The numbers in `text` as they are written, each piece of a moment too, without their sign and what they count."""
    return frozenset(abs(one.quantity.value) for one in _pieces(unicodedata.normalize("NFKC", text)))


def as_written(quantity: Quantity) -> str:
    """How people write it: 17時30分, 30000円."""
    value, unit = quantity.value, quantity.unit
    if unit in _PARTS_OF and value != value.to_integral_value():
        whole = int(value)
        parts = round((value - whole) * (60 if unit == "時間" else 100))
        return f"{whole}{unit}{parts}{_PARTS_OF[unit]}"
    return f"{value:f}{unit}"


def _counts(number: str, unit: str) -> bool:
    if number[0].isdigit() or any(character.isdigit() for character in number):
        return True
    if len(number) == 1:
        written = not unit.isascii() or unit.lower() in _MEASURES
        return bool(unit) and written and number not in _LARGE
    return not all(character in _LARGE for character in number)


def _value(number: str) -> Decimal:
    total, section = Decimal(0), Decimal(0)
    current: Decimal | None = None
    positional = False
    for part in _PARTS.findall(number):
        if part in _DIGITS:
            current = current * 10 + _DIGITS[part] if current is not None and positional else Decimal(_DIGITS[part])
            positional = True
            continue
        positional = False
        if part in _SMALL:
            section += (Decimal(1) if current is None else current) * _SMALL[part]
            current = None
        elif part in _LARGE:
            total += (section + (current or 0) or Decimal(1)) * _LARGE[part]
            section, current = Decimal(0), None
        else:
            current = Decimal(part.replace(",", ""))
    return (total + section + (current or 0)).normalize() + 0


def _english_value(words: list[str]) -> Decimal:
    total, section = 0, 0
    for word in words:
        if word == "hundred":
            section = (section or 1) * 100
        elif word in _ENGLISH_LARGE:
            total += (section or 1) * _ENGLISH_LARGE[word]
            section = 0
        else:
            section += _ENGLISH[word]
    return Decimal(total + section)


def _unit(unit: str) -> str:
    unit = unit.strip().lower()
    if unit in _UNITS:
        return _UNITS[unit]
    if unit.isascii():
        # Any word may follow a number in English; only what is written as a unit, plural or not, is one.
        return unit.rstrip("s") if unit in _ENGLISH_UNITS or unit.rstrip("s") in _ENGLISH_UNITS else ""
    return unit
