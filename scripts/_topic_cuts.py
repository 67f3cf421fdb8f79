"""How well boundaries between topics were found, and windows of a fixed size to compare with. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


def fixed_windows(count: int, size: int) -> list[range]:
    """What the server's segments are compared with: cut every `size` exchanges."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


class BoundaryScore(NamedTuple):
    precision: float
    recall: float
    f1: float


def boundary_score(found: Collection[int], right: Collection[int], *, tolerance: int = 0) -> BoundaryScore:
    """How well boundaries were found. A boundary is the number of the exchange that begins a segment, 0 left out.

    `tolerance`: so many exchanges off still count. Each right boundary is matched once. Nothing to find and nothing
    found is 1.
    """
    left = sorted(set(right) - {0})
    proposed = sorted(set(found) - {0})
    if not left and not proposed:
        return BoundaryScore(1.0, 1.0, 1.0)
    hits, total = 0, len(left)
    for boundary in proposed:
        near = [one for one in left if abs(one - boundary) <= tolerance]
        if near:
            left.remove(min(near, key=lambda one: (abs(one - boundary), one)))
            hits += 1
    precision = hits / len(proposed) if proposed else 0.0
    recall = hits / total if total else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return BoundaryScore(precision, recall, f1)
