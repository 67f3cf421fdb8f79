"""Text from tokens as they come, never half a character.

A token may be some bytes of a character, whose rest the next one brings. Pure: knows no model and no library; what
tokens mean is given as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\ufffd"
# A character has at most four bytes; what is still no text then never will be.
_MOST_WAITING = 8


class TokenText:
    """Feed tokens one by one; get the text that each completes. `decode`: the text of some tokens."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        """From the last ones that were given on: some decoders write a token by what stands before it."""
        self._given = 0
        """How many of them."""

    def feed(self, token: int) -> str:
        """The text that is whole with this token; empty while a character is not."""
        self._tokens.append(token)
        text = self._new_text()
        waiting = len(self._tokens) - self._given
        if text.endswith(_BROKEN) and waiting < _MOST_WAITING:
            return ""
        self._tokens, self._given = self._tokens[self._given :], waiting
        return text

    def finish(self) -> str:
        """What is left at the end, without what never became a character."""
        text = self._new_text().rstrip(_BROKEN)
        self._tokens, self._given = [], 0
        return text

    def _new_text(self) -> str:
        before = self._decode(self._tokens[: self._given]) if self._given else ""
        return self._decode(self._tokens)[len(before) :]
