"""Cuts a growing reply into pieces to speak.

The first piece ends early, at a clause mark, so that the voice starts soon; later pieces end at sentence ends, so that
it sounds natural. A floor keeps a single short word from being spoken alone. Pure text arithmetic: knows nothing of
engines or time.
"""

from __future__ import annotations

from dataclasses import dataclass

_SENTENCE_ENDS = frozenset("。！？!?…．.")
_CLAUSE_ENDS = _SENTENCE_ENDS | frozenset("、，,；;：:")
# These end something only before white space: "3.14", "1,000", "10:30", "example.com" go on.
_NEEDS_SPACE = frozenset(".,:;!?")
_CLOSERS = frozenset("」』）)】］]\"'”’")


@dataclass(frozen=True, slots=True)
class CutRecipe:
    """Lengths are in spoken weight: a Japanese character counts 1, a Latin one 0.4 (about equal speaking time)."""

    first_floor: float = 5.0
    """The shortest first piece."""
    later_floor: float = 4.0
    """The shortest later piece."""
    ceiling: float = 80.0
    """A piece without any mark is cut here, at a space if there is one, so that no synthesis is unbounded."""


def spoken_weight(text: str) -> float:
    """How long `text` takes to say, in Japanese characters."""
    return sum(0.4 if character.isascii() else 1.0 for character in text if not character.isspace())


class SentenceCutter:
    """Feed reply text as it comes; get pieces ready to speak."""

    def __init__(self, recipe: CutRecipe | None = None) -> None:
        self._recipe = recipe or CutRecipe()
        self._rest = ""
        self._spoke = False

    def feed(self, text: str) -> list[str]:
        """Take more text; return the pieces that are complete."""
        self._rest += text
        pieces: list[str] = []
        while (end := self._cut_at()) is not None:
            piece, self._rest = self._rest[:end].strip(), self._rest[end:]
            if piece:
                pieces.append(piece)
                self._spoke = True
        return pieces

    def finish(self) -> list[str]:
        """Return what is left."""
        piece, self._rest = self._rest.strip(), ""
        return [piece] if piece else []

    def _cut_at(self) -> int | None:
        marks = _SENTENCE_ENDS if self._spoke else _CLAUSE_ENDS
        floor = self._recipe.later_floor if self._spoke else self._recipe.first_floor
        text = self._rest
        weight = 0.0
        last_space = 0
        index = 0
        while index < len(text):
            character = text[index]
            weight += spoken_weight(character)
            if character.isspace():
                last_space = index + 1
            if character in marks:
                end = index + 1
                while end < len(text) and (text[end] in _CLOSERS or text[end] in marks):
                    end += 1
                if end == len(text):
                    return None  # a closing bracket or a digit may still follow
                ends_here = character not in _NEEDS_SPACE or text[end].isspace() or not text[end].isascii()
                # 「すごい！」と思った: after a closing bracket hiragana carries the sentence on.
                if text[end - 1] in _CLOSERS and "\u3041" <= text[end] <= "\u3096":
                    ends_here = False
                if ends_here and weight >= floor:
                    return end
                index = end - 1
            elif weight >= self._recipe.ceiling:
                return last_space or index + 1
            index += 1
        return None
