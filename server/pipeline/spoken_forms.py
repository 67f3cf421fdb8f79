"""Pieces of words that requests are made of, in Japanese and English: numbers as they are said, and the beginning of an
English sentence that asks for something. Pure; knows no request.
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
    **{"a": 1, "an": 1, "half": 0.5, "a couple of": 2},
}
NUMBER_WORDS = frozenset(_EN_NUMBERS)
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_EN_WORD = rf"(?:(?:{_TENS})[- ](?:{_ONES})|{'|'.join(sorted(_EN_NUMBERS, key=len, reverse=True))})"

JA_NUMBER = r"(?:\d+(?:\.\d+)?|[〇一二三四五六七八九十百]+)"
EN_NUMBER = rf"(?:\d+(?:\.\d+)?|{_EN_WORD})"
EN_ASK = (
    r"(?:^|[.!?;:,]\s*|\b(?:please|now|then|and|so|ok|okay|hey|stackchan|can you|could you|would you|will you"
    r"|let's|you to|i need|i want|i'd like)\s+)"
)
"""After it comes what is asked for."""
EN_NOT_ASKED = re.compile(
    r"\b(?:i|he|she|they|we|my \w+) (?:already )?"
    r"(?:set|made|started|forgot|cancelled|canceled|stopped|had|bought|broke|turned|muted)\b"
    r"|\bdon't\b|\bdo not\b|\bnever\b"
)


def folded(words: str) -> str:
    """The beginning of `words` in one form: NFKC, lower case, single spaces, one kind of apostrophe."""
    return " ".join(plain(words[:_MOST_CHARACTERS]).split())


def number_of(text: str) -> float:
    """A number that `JA_NUMBER` or `EN_NUMBER` has found."""
    if text[0].isdigit():
        return float(text)
    if text in _EN_NUMBERS:
        return float(_EN_NUMBERS[text])
    if text[0].isascii():
        return float(sum(_EN_NUMBERS[part] for part in re.split(r"[- ]", text)))
    total = 0
    digit = 0
    for character in text:
        if character == "百":
            total, digit = total + (digit or 1) * 100, 0
        elif character == "十":
            total, digit = total + (digit or 1) * 10, 0
        else:
            digit = digit * 10 + _JA_DIGITS[character]
    return float(total + digit)
