"""In which of a model's slots a prompt is read, so that conversations which take turns do not lose what was read.

A slot holds one prompt, and reads the next one from where it differs. llama.cpp's own choice takes the most similar
slot: with a long prefix that all conversations share, that is always the same one, and each robot's turn throws away
the history of the other's. Pure bookkeeping over messages; knows no library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from server.engines.llm.beginnings import common_length

Messages = Sequence[Mapping[str, Any]]


class PromptSlots:
    """`conversations`: slots for those, at least one; one more is for prompts that do not begin with the prefix."""

    def __init__(self, conversations: int) -> None:
        if conversations < 1:
            raise ValueError("A conversation needs a slot.")
        self.for_talk = range(conversations)
        """All slots that conversations may have."""
        self.count = conversations + 1
        self._prefix: Messages = ()
        self._read: dict[int, Messages] = {0: ()}
        """What each slot in use has read, by its last use, oldest first."""

    def begin(self, prefix: Messages, *, ready: int) -> None:
        """These messages begin every conversation from now on, and the first `ready` slots have read them."""
        self._prefix = tuple(prefix)
        self._read = dict.fromkeys(self.for_talk[:ready], self._prefix)

    def choose(self, messages: Messages) -> int:
        """The slot for a prompt; it is taken to be read there.

        That of its own conversation, else the one unused longest; the last slot for what is no conversation.
        """
        start = len(self._prefix)
        if common_length(self._prefix, messages) < start:
            return len(self.for_talk)
        said = _said(messages[start:])
        # Of equals the oldest: a conversation that begins takes no slot that was used just now.
        slot = max(self._read, key=lambda slot: _goes_on(_said(self._read[slot][start:]), said))
        del self._read[slot]
        self._read[slot] = tuple(messages)
        return slot


def _said(messages: Messages) -> list[str]:
    """By what was said a conversation is known: days and times are said to all, elsewhere in the next turn."""
    return [one["content"] for one in messages if one["role"] != "system" and one["content"]]


def _goes_on(before: Sequence[str], now: Sequence[str]) -> int:
    """How much of `before` the prompt `now` repeats from its beginning, which may lie later there: windows move on."""
    if not now or now[0] not in before:
        return 0
    return common_length(before[before.index(now[0]) :], now)
