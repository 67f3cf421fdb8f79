"""How far two prompts are the same from their beginning, in whatever they consist of: tokens, messages, words."""

from __future__ import annotations

from collections.abc import Sequence


def common_length(first: Sequence[object], second: Sequence[object]) -> int:
    """How many items two sequences have in common at their beginning."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))
