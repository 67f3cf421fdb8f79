"""Where one topic ends and the next begins: a drop of similarity between neighbouring exchanges.

Pure. Takes vectors that somebody else made; knows no model, no database and no words. What a segment says, and whether
it holds several topics after all, is the summarizer's matter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from server.events import Samples


@dataclass(frozen=True, slots=True)
class SegmentRecipe:
    """How segments are cut. Similarities are cosines, whose range differs from model to model."""

    name: str
    drop: float
    """A boundary lies where similarity falls by so much below what it was on one side since the last boundary."""
    never_above: float
    """Neighbours this alike are one topic, whatever the drop."""
    most_exchanges: int = 6
    """A segment is closed when it is so long (`memory.backlog_rounds`)."""


NARROW_COSINES = SegmentRecipe("narrow-cosines-1", drop=0.03, never_above=0.88)
"""For models whose cosines all lie near each other, as those of E5. Chosen, not yet measured."""
WIDE_COSINES = SegmentRecipe("wide-cosines-1", drop=0.12, never_above=0.65)
"""For models that spread, as Qwen3-Embedding. Chosen, not yet measured."""


def recipe_for(model: str) -> SegmentRecipe:
    """The recipe of an embedding model, by the name in its fingerprint."""
    return NARROW_COSINES if "e5" in model.casefold() else WIDE_COSINES


def closed_segments(
    vectors: Samples,
    recipe: SegmentRecipe,
    *,
    ended: bool,
    breaks: Collection[int] = (),
    light: Collection[int] = (),
) -> list[range]:
    """The segments that are over, as ranges of exchange numbers from 0; the open one at the end is not among them.

    `vectors`: unit, float32, shape (exchanges, dimensions), in the order they were said. `ended`: the session is over,
    which closes the last one too. `breaks`: exchanges that begin a segment in any case. `light`: exchanges without a
    topic of their own (うん, thanks): they go with what was said before, and those around them are compared.
    """
    count = len(vectors)
    if not count:
        return []
    weighty = [exchange for exchange in range(count) if exchange not in light]
    alike = np.einsum("ij,ij->i", vectors[weighty[:-1]], vectors[weighty[1:]])
    to_next = dict(zip(weighty[:-1], map(float, alike), strict=True))
    to_last = dict(zip(weighty[1:], map(float, alike), strict=True))
    begins = [0]
    peak = -1.0
    for exchange in range(1, count):
        begun = exchange in breaks or exchange - begins[-1] >= recipe.most_exchanges
        if not begun and exchange not in light:
            similarity = to_last.get(exchange)
            # The topic must have held on one side: within it so far, or right behind the gap. With nothing but
            # greetings before it, it is the first.
            held = max(peak, to_next.get(exchange, -1.0))
            begun = similarity is None or (held - similarity >= recipe.drop and similarity < recipe.never_above)
            if not begun and similarity is not None:
                peak = max(peak, similarity)
        if begun:
            begins.append(exchange)
            peak = -1.0
    ends = [*begins[1:], count]
    segments = [range(first, end) for first, end in zip(begins, ends, strict=True)]
    if not ended and len(segments[-1]) < recipe.most_exchanges:
        segments.pop()
    return segments


def fixed_windows(count: int, size: int) -> list[range]:
    """What `closed_segments` is compared with: cut every `size` exchanges."""
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
