"""What a model has read of earlier prompts, kept so that the next one is read only from where it differs.

Pure bookkeeping over states of a model: which one saves most, whether it is continued or copied, which ones go. Knows
no library and not what tokens mean. Not thread-safe: it belongs to the model's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, Self, TypeVar

from server.engines.llm.beginnings import common_length

_WORTH_KEEPING_TOKENS = 256
"""A prompt that differs sooner than so many tokens before the end of a kept one is another conversation: it gets a copy
of what they share. What a turn changes at its end is less."""


class ReadState(Protocol):
    """What a model keeps of the tokens that it has read."""

    tokens: list[int]
    """All of them, in order."""
    croppable: bool
    """Its end can be taken away; else it can only be continued."""

    @property
    def size_bytes(self) -> int:
        """Memory it takes."""

    def crop(self, length: int) -> None:
        """Forget all but the first `length` tokens."""

    def copy(self, length: int) -> Self:
        """Another state that has read the first `length` tokens; all of them where it cannot be cropped."""


State = TypeVar("State", bound=ReadState)


class KeptPrompts(Generic[State]):
    """`new`: makes an empty state. `most_bytes`: memory of all that is kept, beside the state that was taken.

    The stable prefix and the newest prompt stay whatever they take: without them each turn would read everything.
    """

    def __init__(self, new: Callable[[], State], *, most_bytes: int) -> None:
        self._new = new
        self._most_bytes = most_bytes
        self._stable: State | None = None
        self._kept: list[State] = []
        """Oldest first."""

    def take(self, prompt: Sequence[int]) -> State:
        """A state that has read a beginning of `prompt`, the longest there is, but never all of it: something has to be
        read for the model to go on. It is the caller's until it is put back."""
        best, usable = None, 0
        for state in (*reversed(self._kept), *([self._stable] if self._stable is not None else [])):
            saved = _usable(state, prompt)
            if saved > usable:
                best, usable = state, saved
        if best is None:
            return self._new()
        if best is self._stable or not best.croppable or len(best.tokens) - usable >= _WORTH_KEEPING_TOKENS:
            self._shrink(self._most_bytes - best.size_bytes, spare=best)
            return best.copy(usable)
        self._kept.remove(best)
        if len(best.tokens) > usable:
            best.crop(usable)
        return best

    def put(self, state: State, *, stable: bool = False) -> None:
        """Keep what was read. `stable`: it is the beginning of most prompts; it replaces the one there was."""
        if not state.tokens:
            return
        # What begins in the same way and holds no more saves nothing that this does not.
        self._kept = [one for one in self._kept if not _replaces(state, one)]
        if stable:
            self._stable = state
        else:
            self._kept.append(state)
        self._shrink(self._most_bytes, spare=state)

    def clear(self) -> None:
        """Forget everything."""
        self._stable = None
        self._kept = []

    def _shrink(self, most_bytes: int, *, spare: State) -> None:
        """Let the oldest go until the rest takes no more than this."""
        taken = sum(one.size_bytes for one in self._kept)
        if self._stable is not None:
            taken += self._stable.size_bytes
        for one in tuple(self._kept):
            if taken <= most_bytes:
                return
            if one is not spare:
                self._kept.remove(one)
                taken -= one.size_bytes


def _replaces(state: ReadState, other: ReadState) -> bool:
    """Whether a state saves whatever the other one would."""
    length = len(other.tokens)
    return (state.croppable or length == len(state.tokens)) and other.tokens == state.tokens[:length]


def _usable(state: ReadState, prompt: Sequence[int]) -> int:
    """How many tokens of `prompt` this state saves."""
    shared = min(common_length(state.tokens, prompt), len(prompt) - 1)
    if state.croppable or shared == len(state.tokens):
        return shared
    return 0
