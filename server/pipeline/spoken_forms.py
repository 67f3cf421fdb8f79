"""Pieces of words that requests are made of, in Japanese and English: numbers as they are said, the beginning of an
English sentence that asks for something, the end of a Japanese one. Pure; knows no request.
"""

from __future__ import annotations

import re

from server.storage.words import plain

_MOST_CHARACTERS = 500
_JA_DIGITS = {digit: value for value, digit in enumerate("〇一二三四五六七八九")}
_EN_NUMBERS = {
    **{
        word: value
        for value, word in enumerate(
            ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
        )
    },
    **{word: 11 + value for value, word in enumerate(["eleven", "twelve", "thirteen", "fourteen", "fifteen"])},
    **{word: 16 + value for value, word in enumerate(["sixteen", "seventeen", "eighteen", "nineteen"])},
    **{
        word: 20 + 10 * value
        for value, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"])
    },
    **{"a": 1, "an": 1, "half": 0.5, "a couple of": 2, "a couple": 2, "a dozen": 12},
}
NUMBER_WORDS = frozenset(_EN_NUMBERS)
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_EN_WORD = rf"(?:(?:{_TENS})[- ](?:{_ONES})|{'|'.join(sorted(_EN_NUMBERS, key=len, reverse=True))})"

JA_NUMBER = r"(?:\d+(?:\.\d+)?|[〇一二三四五六七八九十百千]+)"
EN_NUMBER = rf"(?:\d+(?:\.\d+)?|(?:an?|{_ONES}) hundred(?:(?: and)? {_EN_WORD})?|{_EN_WORD})"
EN_ASK = (
    r"(?:^|[.!?;:,]\s*|\b(?:please|now|then|and|so|ok|okay|hey|well|yes|yeah|actually|stackchan"
    r"|can you|could you|would you|will you"
    r"|let's|you to|i need|i want|i'd like)\s+)"
)
"""After it comes what is asked for."""
EN_NOT_ASKED = re.compile(
    r"\b(?:i|he|she|they|we|my \w+) (?:already )?"
    r"(?:set|made|started|forgot|cancelled|canceled|stopped|had|bought|broke|turned|muted)\b"
    r"|\bdon't\b|\bdo not\b|\bnever\b"
)
EN_QUESTION = re.compile(
    r"(?:^|[.,!?;]\s*)(?:(?:hey|ok|okay|so|and|but|stackchan),? )?"
    r"(?:how|why|when|where|who|what|if|should|shall|may|do|does"
    r"|did|is|are|was|were|has|have you|can i|could i|would it|will it)\b[^.,!?;]*"
)
"""A part of a sentence that asks, or sets a condition: it asks for no deed."""
JA_TE = (
    r"(?:といて(?!る|た|くれた|もら)|て(?=ください|下さい|くれ(?:る|ない|ます|ません|よ|[。!?]|$)|もらえ(?:る|ない|ます|ません)|いただけ|頂け|ほしい|欲しい"
    r"|ちょうだい|頂戴|お願い|おねがい|おいて(?!る|た|くれた|もら)|[ねよ。!?]|$|[、\s](?!.*た(?:よ|の|ね|んだ)?[。!?]*$)))"
)
"""The て of a request: 切って and 切ってくれる？ but not 切ってもいい？, 切ってる or 切ってくれた."""

_KANA_DIGITS = {
    **{"いち": 1, "いっ": 1, "に": 2, "さん": 3, "よん": 4, "ご": 5, "ろく": 6, "ろっ": 6},
    **{"なな": 7, "しち": 7, "はち": 8, "はっ": 8, "きゅう": 9},
}
_KANA_UNITS = {"じかん": "時間", "ふん": "分", "ぷん": "分", "びょう": "秒"}
_KANA_LENGTH = re.compile(
    rf"(?P<many>{'|'.join(_KANA_DIGITS)})?(?P<ten>じゅう|じゅっ|じっ)(?P<after>{'|'.join(_KANA_DIGITS)})?(?P<unit>{'|'.join(_KANA_UNITS)})"
    rf"|(?P<one>{'|'.join(_KANA_DIGITS)})(?P<unit_of_one>{'|'.join(_KANA_UNITS)})"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PARTS = {"½": ".5", "¼": ".25", "¾": ".75"}
_NO_INTEGER = re.compile(r"(?<![\w.])\.(?=\d)")


def folded(words: str) -> str:
    """The beginning of `words` in one form: NFKC, lower case, single spaces, one kind of apostrophe; numbers in digits
    where they come with a mark (1,200; 1½) or in kana (さんぷん).
    """
    words = words[:_MOST_CHARACTERS]
    for mark, digits in _PARTS.items():
        words = words.replace(mark, digits)
    said = " ".join(plain(words).split())[:_MOST_CHARACTERS]
    said = _NO_INTEGER.sub("0.", _THOUSANDS.sub("", said))
    return _KANA_LENGTH.sub(_in_digits, said)


def _in_digits(match: re.Match[str]) -> str:
    if one := match["one"]:
        return f"{_KANA_DIGITS[one]}{_KANA_UNITS[match['unit_of_one']]}"
    number = 10 * _KANA_DIGITS.get(match["many"] or "", 1) + _KANA_DIGITS.get(match["after"] or "", 0)
    return f"{number}{_KANA_UNITS[match['unit']]}"


def number_of(text: str) -> float:
    """A number that `JA_NUMBER` or `EN_NUMBER` has found."""
    if text[0].isdigit():
        return float(text)
    if text in _EN_NUMBERS:
        return float(_EN_NUMBERS[text])
    if text[0].isascii():
        hundreds, _, rest = text.rpartition(" hundred")
        parts = [part for part in re.split(r"[- ]", rest) if part and part != "and"]
        return (_EN_NUMBERS[hundreds] * 100 if hundreds else 0.0) + sum(_EN_NUMBERS[part] for part in parts)
    total = 0
    digit = 0
    for character in text:
        if size := {"千": 1000, "百": 100, "十": 10}.get(character):
            total, digit = total + (digit or 1) * size, 0
        else:
            digit = digit * 10 + _JA_DIGITS[character]
    return float(total + digit)
