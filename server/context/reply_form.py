"""What a reply may look like, as a regular expression: its sentences, its language, and which numbers it may say.

A small model that has looked something up and did not find it fills in a number all the same, and one that has found
it miscopies it. So an answer to a search may be held to the numerals that somebody has said: any other cannot be
written. That is a matter of characters, not of wording; a number that is spelled out in English is not seen.

Pure. Knows no prompt, no tool and no persona.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

from server.memory.numbers import values

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
_MOST_NUMERALS = 100
# They count nothing.
_NO_NUMBERS = "一緒|一番|一生懸命|十分"


def reply_pattern(language: str, sentences: int, numerals: Collection[str] | None = None) -> str:
    """So many sentences at most, in `language` (ISO 639-1). `numerals`: the only numbers it may say; None: any."""
    sentence = _sentence(language) if numerals is None else _sentence_with(language, numerals)
    gap = " ?" if language == "en" else ""
    more = sentences - 1
    return f"^{sentence}({gap}{sentence}){{0,{more}}}$" if more else f"^{sentence}$"


def numerals_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The numbers in texts as they are written, and in digits; each once, at most 100, the first first."""
    found: dict[str, None] = {}
    for text in texts:
        plain = unicodedata.normalize("NFKC", text)
        for match in _NUMERAL.finditer(plain):
            found[match[0]] = None
            # 2026-04-05 is said as 4月5日.
            if match[0].isdecimal():
                found[match[0].lstrip("0") or "0"] = None
        for value in values(plain):
            found[f"{value:f}"] = None
            found[f"{value:,f}"] = None
    return tuple(found)[:_MOST_NUMERALS]


def _sentence(language: str) -> str:
    return _SENTENCES.get(language, _ANY_SENTENCE)


def _sentence_with(language: str, numerals: Collection[str]) -> str:
    """A sentence in which each numeral is one of these, whole: whatever stands behind it is none."""
    # The longest first, for engines that take the first that fits.
    one_of = "|".join(re.escape(one) for one in sorted(numerals, key=lambda one: (-len(one), one)))
    said = f"({one_of})?" if one_of else ""
    if language == "ja":
        other = rf'([^"\\\x00-\x1f。！？!?{{}}<>\[\]{_NUMERALS}]|{_NO_NUMBERS})'
        first = f"([ぁ-んァ-ヶ々{_kanji_without_numerals()}]|{_NO_NUMBERS})"
        return f"{said}{first}({said}{other}){{0,50}}{said}[ぁ-んァ-ヶー][。！？]"
    if language == "en":
        other = r"([#-\-/:;@-Z_-z ]|\.[a-z])"
        begins = f"([A-Z]|({one_of}){other})" if one_of else "[A-Z]"
        return f"{begins}({said}{other}){{1,120}}{said}[.!?]"
    return rf'({said}[^"\\\x00-\x1f。！？!?.{_NUMERALS}]){{1,120}}{said}[。！？!?.]'


def _kanji_without_numerals() -> str:
    """The range 一-龯 as a class without the numerals in it."""
    pieces, start = [], ord("一")
    for code in sorted(ord(one) for one in _KANJI_NUMERALS if "一" <= one <= "龯"):
        if start < code:
            pieces.append(f"{chr(start)}-{chr(code - 1)}")
        start = code + 1
    return "".join([*pieces, f"{chr(start)}-龯"])
