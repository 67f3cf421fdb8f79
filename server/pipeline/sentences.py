"""Cuts a growing reply into pieces to speak.

The first piece ends early, at a clause mark, so that the voice starts soon; once enough has been given to cover the
time that the next sentence takes, pieces end at sentence ends, so that it sounds natural. Nothing that is read as one
thing is cut: numbers, dates, addresses, links, abbreviations, quotations. Every decision needs only what stands a
bounded distance ahead, so how the text arrives makes no difference. Pure text arithmetic: knows nothing of engines or
time.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from server.pipeline.speakable_marks import URL

_SENTENCE_ENDS = frozenset("。！？!?…．.\n")
_CLAUSE_ENDS = _SENTENCE_ENDS | frozenset("、，,；;：:")
# These end something only before white space: "3.14", "1,000", "10:30", "example.com" go on.
_NEEDS_SPACE = frozenset(".,:;!?")
_CLOSERS = frozenset("」』）)】］]\"'”’〉》〕*_")
_PAIRS = {
    "「": "」",
    "『": "』",
    "（": "）",
    "(": ")",
    "[": "]",
    "［": "］",
    "【": "】",
    "〈": "〉",
    "《": "》",
    "“": "”",
}
_FENCE = "```"
_KANJI_DIGITS = frozenset("一二三四五六七八九十")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A point behind one of these ends no sentence; behind the second kind it may, before a capital letter; behind the
# third kind it does not before a digit.
_NEVER_LAST = _words("dr mr mrs ms prof st mt gen sgt capt rev hon vs e.g i.e cf approx")
_SELDOM_LAST = _words("etc a.m p.m u.s u.k u.s.a jr sr inc ltd corp ph.d b.c a.d mon tue wed thu fri")
_NUMBERED = _words("no nos fig vol p pp ver jan feb mar apr jun jul aug sep sept oct nov dec")
_LAST_WORD = re.compile(r"(?:[A-Za-z]{1,2}\.){0,3}[A-Za-z]{1,7}$")
_DAY = re.compile(r"[A-Za-z]{3,9}\.? [0-9]{1,2}(?:st|nd|rd|th)?$")
_ENTITY = re.compile(r"&[A-Za-z0-9#]{2,8};")
_ENTITY_BEGUN = re.compile(r"&[A-Za-z0-9#]{0,8}\Z")
_ADDRESS_BEGINNINGS = ("https://", "http://", "www.")
_WORD_CHARACTERS_MAX = 20
_ADDRESS_ENDS = ".,:;!?)'*_~|]"


@dataclass(frozen=True, slots=True)
class CutRecipe:
    """Lengths are in spoken weight: a Japanese character counts 1, a Latin one 0.4 (about equal speaking time).

    Marks and spaces count nothing.
    """

    first_floor: float = 1.2
    """The shortest first piece: 「うん、」 and "Yes," are spoken alone, 「あ、」 and "Oh," are not."""
    opening: float = 4.5
    """Until this much has been given, pieces may end at clause marks: a lone 「うん、」 covers little time."""
    later_floor: float = 3.0
    """The shortest later piece."""
    ceiling: float = 80.0
    """A piece without any mark is cut here, at a space if there is one, so that no synthesis is unbounded."""
    ceiling_characters: int = 400
    """The same for characters without weight."""
    span_characters: int = 60
    """Brackets and quotations up to this length are not cut; longer ones are text like any other."""
    target_characters: int = 600
    """The same for the address of a link."""
    marks_characters: int = 60
    """A longer run of marks is taken in parts."""


def spoken_weight(text: str) -> float:
    """How long `text` takes to say, in Japanese characters."""
    return sum(map(_weight, text))


def _weight(character: str) -> float:
    if character.isascii():
        return 0.4 if character.isalnum() else 0.0
    return 1.0 if character.isalnum() else 0.0


def whole_sentences(text: str) -> str:
    """A text that was broken off, up to the end of its last whole sentence; empty when it has none."""
    cutter = SentenceCutter(CutRecipe(first_floor=0, opening=0, later_floor=0))
    end = whole = 0
    for piece in (*cutter.feed(text), *cutter.end()):
        end = max(end, text.find(piece, end) + len(piece))
        if piece.rstrip("".join(_CLOSERS))[-1:] in _SENTENCE_ENDS:
            whole = end
    return text[:whole]


class _More(Exception):
    """What comes next decides: wait for it."""


class SentenceCutter:
    """Feed reply text as it comes; get pieces ready to speak."""

    def __init__(self, recipe: CutRecipe | None = None) -> None:
        self._recipe = recipe or CutRecipe()
        self._rest = ""
        self._given = 0.0
        self._ended = False
        self._begin_piece()

    def _begin_piece(self) -> None:
        # How far the next piece has been read. What stands before is decided, so that nothing is read again and again.
        self._index = 0
        self._weight = 0.0
        self._last_space = 0

    def feed(self, text: str) -> list[str]:
        """Take more text; return the pieces that are complete."""
        self._rest += text
        pieces: list[str] = []
        while (end := self._cut_at()) is not None:
            piece, self._rest = self._rest[:end].strip(), self._rest[end:]
            self._begin_piece()
            if piece:
                pieces.append(piece)
                self._given += spoken_weight(piece)
        return pieces

    def end(self) -> list[str]:
        """No more text comes: return the pieces that only waited for what follows their mark."""
        self._ended = True
        return self.feed("")

    def finish(self) -> list[str]:
        """Return what is left."""
        pieces = self.end()
        piece, self._rest = self._rest.strip(), ""
        return [*pieces, piece] if piece else pieces

    def _cut_at(self) -> int | None:
        try:
            return self._next_cut()
        except _More:
            return None

    def _next_cut(self) -> int | None:
        """Where the next piece ends; None when the text goes on without an end. Raises `_More`."""
        recipe, text = self._recipe, self._rest
        marks = _CLAUSE_ENDS if self._given < recipe.opening else _SENTENCE_ENDS
        floor = recipe.later_floor if self._given else recipe.first_floor
        weight, index, last_space = self._weight, self._index, self._last_space
        while index < len(text):
            self._weight, self._index, self._last_space = weight, index, last_space
            character = text[index]
            span_end, span_weight = self._span(index)
            weight += span_weight if span_end > index else _weight(character)
            if span_end > index:
                # 「…。」 ends a sentence like its last mark.
                quoted = text[span_end - 1] in "」』”" and text[span_end - 2] in marks
                index = span_end - 2 if quoted else span_end
                if not quoted:
                    continue
                character = text[index]
            if character.isspace():
                last_space = index + 1
            if character in marks:
                end, ends = self._mark(index, marks)
                if ends and weight >= floor:
                    return end
                index = end
            elif weight >= recipe.ceiling or index >= recipe.ceiling_characters:
                return last_space or self._whole_character(index + 1)
            else:
                index += 1
        self._weight, self._index, self._last_space = weight, index, last_space
        return None

    def _at(self, index: int) -> str:
        """The character there, "" behind the end. Raises `_More` when it is still to come."""
        if index < len(self._rest):
            return self._rest[index]
        if self._ended:
            return ""
        raise _More

    def _behind_spaces(self, index: int) -> str:
        while (character := self._at(index)).isspace():
            index += 1
        return character

    def _span(self, index: int) -> tuple[int, float]:
        """The end and the weight of what stands at `index` and is never cut; the index itself when nothing is."""
        text, character = self._rest, self._rest[index]
        if character in _PAIRS:
            return self._bracket(index)
        if character == "`" and len(text) - index < len(_FENCE) and _FENCE.startswith(text[index:]):
            self._at(len(text))
        if character == "`" and text.startswith(_FENCE, index):
            end = text.find(_FENCE, index + len(_FENCE))
            if end < 0:
                self._at(len(text))
                return len(text), 0.0
            return end + len(_FENCE), 0.0
        if character == "&":
            if entity := _ENTITY.match(text, index):
                return entity.end(), 0.4
            if _ENTITY_BEGUN.match(text, index):
                self._at(len(text))
        if character == "<" and (self._next_is_tag(index)):
            return self._until(">", index, self._recipe.span_characters)
        if character in "hHwW":
            if address := URL.match(text, index):
                self._at(address.end())
                return index + len(address.group().rstrip(_ADDRESS_ENDS)), 3.0
            begun = text[index : index + len(_ADDRESS_BEGINNINGS[0])].lower()
            if len(text) - index <= len(begun) and any(known.startswith(begun) for known in _ADDRESS_BEGINNINGS):
                self._at(len(text))
        return index, 0.0

    def _next_is_tag(self, index: int) -> bool:
        following = self._at(index + 1)
        return following == "/" or (following.isascii() and following.isalpha())

    def _until(self, mark: str, index: int, characters: int) -> tuple[int, float]:
        text = self._rest
        limit = index + characters
        end = text.find(mark, index, limit)
        line_end = text.find("\n", index, limit)
        if end >= 0 and not 0 <= line_end < end:
            return end + 1, 0.0
        if line_end < 0 and len(text) < limit:
            self._at(len(text))
        return index, 0.0

    def _bracket(self, index: int) -> tuple[int, float]:
        text, opener = self._rest, self._rest[index]
        closer = _PAIRS[opener]
        target = opener == "(" and index > 0 and text[index - 1] == "]"
        limit = index + (self._recipe.target_characters if target else self._recipe.span_characters)
        depth = 0
        for position in range(index, min(limit, len(text))):
            character = text[position]
            if character == "\n":
                return index, 0.0
            depth += (character == opener) - (character == closer)
            if depth == 0:
                return position + 1, 0.0 if target else spoken_weight(text[index:position])
        if len(text) < limit:
            self._at(len(text))
        return index, 0.0

    def _mark(self, index: int, marks: frozenset[str]) -> tuple[int, bool]:
        """The end of the marks at `index` with what closes behind them, and whether a piece may end there."""
        text, mark = self._rest, self._rest[index]
        end = index + 1
        while (following := self._at(end)) and (following in _CLOSERS or following in marks):
            if end - index >= self._recipe.marks_characters:
                return end, True
            end += 1
        if not following:
            return end, True
        if mark in _NEEDS_SPACE and not (following.isspace() or not following.isascii() or "\n" in text[index:end]):
            return end, False
        # 「すごい！」と思った: after a closing bracket hiragana carries the sentence on.
        if text[end - 1] in _CLOSERS and "\u3041" <= following <= "\u3096":
            return end, False
        if end > index + 1 or index == 0:
            return end, True
        return end, not self._inside(mark, index, following)

    def _inside(self, mark: str, index: int, following: str) -> bool:
        """Whether a single mark stands inside a number, a date or an abbreviation."""
        before = self._rest[max(0, index - _WORD_CHARACTERS_MAX) : index]
        if mark in "、，,．：" and (
            (before[-1].isdecimal() and following.isdecimal())
            or (before[-1] in _KANJI_DIGITS and following in _KANJI_DIGITS)
        ):
            return True
        if mark == ",":
            return _DAY.search(before) is not None and self._behind_spaces(index + 1).isdecimal()
        if mark != ".":
            return False
        if self._rest[:index].strip().isdecimal():  # the number of a list item
            return True
        found = _LAST_WORD.search(before)
        word = found.group() if found else ""
        folded = word.casefold()
        if folded in _NEVER_LAST or (len(word) == 1 and word.isupper() and word != "I"):
            return True
        if folded in _NUMBERED:
            return self._behind_spaces(index + 1).isdecimal()
        return folded in _SELDOM_LAST and not self._behind_spaces(index + 1).isupper()

    def _whole_character(self, end: int) -> int:
        """`end`, or a little later, so that no word, number or emoji is cut in two."""
        for _ in range(_WORD_CHARACTERS_MAX):
            before, following = self._rest[end - 1], self._at(end)
            joined = following and (
                unicodedata.category(following) in ("Mn", "Me", "Cf", "Sk")
                or before == "\u200d"
                or (before.isascii() and before.isalnum() and following.isascii() and following.isalnum())
                or all("\U0001f1e6" <= character <= "\U0001f1ff" for character in (before, following))
            )
            if not joined:
                break
            end += 1
        return end
