"""What a word is, for searching: folding, Japanese bigrams, numbers; and how two names are compared.

Pure functions over text. Japanese has no spaces, so a run of it becomes overlapping pairs of characters (設定を -> 設定
定を): pairs find 設定, which trigrams miss. Knows no table: the word indexes are in `word_index.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

QUERY_TERMS_LIMIT = 64
"""A query's first different words; what follows is not searched for. SQLite refuses expressions of some hundreds."""

WORD_CHARACTERS_LIMIT = 64
"""Longer words, which are no words, are cut here."""

_HIRAGANA = "\u3041-\u309f"
_JAPANESE = (
    f"{_HIRAGANA}\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # katakana, without the dot between words
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(
    rf"(?P<japanese>[{_JAPANESE}]+)"
    # Points and commas belong to a word between digits only: 30,000 and 2.5.
    rf"|(?P<other>(?:(?![{_JAPANESE}])[^\W_]|(?<=\d)[.,](?=\d))+)"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_LETTERS_OR_DIGITS = re.compile(r"\d+(?:\.\d+)*|[^\d.]+")
_INVISIBLE = re.compile(
    # Soft hyphens, zero widths and directions, joiners, byte order marks, variation selectors, tags.
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]"
)
_ALL_HIRAGANA = re.compile(f"[{_HIRAGANA}]+")
_TO_HIRAGANA = {katakana: katakana - 0x60 for katakana in range(0x30A1, 0x30F7)}


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a query. `begins`: any word that begins with it will do."""

    word: str
    begins: bool = False


def fold(text: str) -> str:
    """`text` as it is compared: NFKC (ＲＴＸ -> RTX, ﾊﾟｿｺﾝ -> パソコン), case-folded."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def straight(text: str) -> str:
    """NFKC with one kind of apostrophe and nothing invisible; capitals stay."""
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).replace("’", "'")


def plain(text: str) -> str:
    """Folded, with one kind of apostrophe and nothing invisible: as rules read it."""
    return _INVISIBLE.sub("", fold(text)).replace("’", "'")


def hiragana(text: str) -> str:
    """Katakana as hiragana: ワスレテ is わすれて. Marks of long vowels stay."""
    return text.translate(_TO_HIRAGANA)


def entity_key(text: str) -> str:
    """What two names of one thing have in common: folded, without spaces. "RTX 3050" and "ｒｔｘ3050" are one."""
    return "".join(fold(text).split())


def tokens(text: str) -> list[str]:
    """The words a text is found by, in order, for the index.

    Japanese runs as pairs, and their last character alone, so that every character begins a word. Others whole;
    30,000 as 30000, 07 also as 7, rtx3050 also as rtx and 3050; a number also with the Japanese character after it.
    """
    return [word for run in _runs(text) for word in _index_words(run)]


def query_terms(text: str) -> list[Term]:
    """The different words to search for, in order, at most `QUERY_TERMS_LIMIT`; empty when there is nothing to find.

    Pairs of hiragana alone (です, した) are in every text and left out, unless nothing else is left. A single kanji
    (猫は) also matches as the beginning of a word, since its pair depends on what follows.
    """
    found = list(dict.fromkeys(term for run in _runs(text) for term in _query_terms(run)))
    telling = [term for term in found if not _ALL_HIRAGANA.fullmatch(term.word)]
    return (telling or found)[:QUERY_TERMS_LIMIT]


def finds(query: str, words: Collection[str]) -> bool:
    """Whether a search for `query` would find any of `words`, as `tokens` gives them."""
    return any(
        term.word in words or (term.begins and any(word.startswith(term.word) for word in words))
        for term in query_terms(query)
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """A stretch of one kind of text. `number`: of a Japanese run, the digits right before it."""

    text: str
    japanese: bool
    number: str = ""


def _runs(text: str) -> Iterator[_Run]:
    number, number_end = "", -1
    for match in _RUN.finditer(fold(text)):
        japanese = match.lastgroup == "japanese"
        if japanese:
            yield _Run(match[0], True, number if match.start() == number_end else "")
            continue
        yield _Run(match[0], False)
        last = _whole_words(match[0])[-1]
        number, number_end = (last, match.end()) if last[-1].isdecimal() else ("", -1)
        if parts := _LETTERS_OR_DIGITS.findall(number):
            number = _plain(parts[-1])


def _index_words(run: _Run) -> list[str]:
    if not run.japanese:
        return _words(run.text)
    words = ["".join(pair) for pair in pairwise(run.text)]
    if len(run.text) == 1 or not _ALL_HIRAGANA.fullmatch(run.text[-1]):
        words.append(run.text[-1])
    return _counted(run) + words


def _query_terms(run: _Run) -> list[Term]:
    if not run.japanese:
        return [Term(word) for word in _words(run.text)]
    terms = [Term(word) for word in _counted(run)]
    if len(run.text) == 1 and _ALL_HIRAGANA.fullmatch(run.text):
        return [*terms, Term(run.text, begins=True)]
    terms += [Term("".join(pair)) for pair in pairwise(run.text)]
    kana = [bool(_ALL_HIRAGANA.fullmatch(character)) for character in run.text]
    for index, character in enumerate(run.text):
        # What counts a number (円, 日) begins too many words; it is searched for with its number.
        alone = not kana[index] and all(kana[index - 1 : index] + kana[index + 1 : index + 2])
        if alone and not (index == 0 and run.number):
            terms.append(Term(character, begins=True))
    return terms


def _counted(run: _Run) -> list[str]:
    """23日 and 30000円 as one word."""
    if not run.number or _ALL_HIRAGANA.fullmatch(run.text[0]):
        return []
    return [_cut(run.number + run.text[0])]


def _words(text: str) -> list[str]:
    found = []
    for word in _whole_words(text):
        found.append(_cut(word))
        parts = _LETTERS_OR_DIGITS.findall(word)
        if len(parts) > 1:
            found += [_cut(part) for part in parts]
        if len(parts) == 1 and _plain(word) != word:
            found.append(_cut(_plain(word)))
    return found


def _whole_words(text: str) -> list[str]:
    if _THOUSANDS.fullmatch(text):
        return [text.replace(",", "")]
    return [word for word in text.split(",") if word]


def _plain(number: str) -> str:
    """A number without leading zeros: 07 -> 7."""
    if not number.isdecimal():
        return number
    return number.lstrip("0") or "0"


def _cut(word: str) -> str:
    return word[:WORD_CHARACTERS_LIMIT]
