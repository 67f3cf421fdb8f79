"""What is lived through in a house: told, asked for in other words, corrected, asked for again, forgotten, asked after.

Data only. In each story the same thing happens with another thing or in another language.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from tests.models.house_over_days import Secret


@dataclass(frozen=True, slots=True)
class Story:
    """What is said. `old`, `new`: regular expressions of what was told first, and of what it was corrected to."""

    name: str
    told: str
    small_talk: str
    asked: str
    corrected: str
    asked_again: str
    forget: str
    asked_after: str
    old: str
    new: str
    secret: Secret
    """As it stands in the database, and in files."""

    def says_old(self, text: str) -> bool:
        return _says(self.old, text)

    def says_new(self, text: str) -> bool:
        return _says(self.new, text)


def _says(expression: str, text: str) -> bool:
    """Half-width digits, no commas between them."""
    plain = unicodedata.normalize("NFKC", text).replace(",", "")
    return re.search(expression, plain, re.IGNORECASE) is not None


STORIES = (
    Story(
        "computer-ja",
        "富士通の中古のデスクトップを三万円で買ったよ",
        "今日は空がきれいだね",
        "この前手に入れたパソコン、いくらだったっけ",
        "違う、二万五千円だよ",
        "うちのパソコンの値段、覚えてる？",
        "そのパソコンのことは忘れて",
        "前に買ったパソコンはいくらだった？",
        "三万|3万|30000",
        "二万五千|2万5千|2万5000|25000",
        Secret(
            ("富士通", "デスクトップ", "三万", "3万", "30,000", "二万五千", "2万5千", "25,000"),
            "パソコンの値段",
        ),
    ),
    Story(
        "computer-en",
        "I bought a used Fujitsu desktop for 300 dollars.",
        "It is a lovely day, isn't it?",
        "How much was that computer I got the other day?",
        "No, it was 250 dollars.",
        "Do you remember the price of our computer?",
        "Forget about that computer.",
        "How much was the computer I bought before?",
        r"\b300\b|three hundred",
        r"\b250\b|two hundred (and )?fifty",
        Secret(("Fujitsu", "300 dollars", "250 dollars"), "price of the computer"),
    ),
)
