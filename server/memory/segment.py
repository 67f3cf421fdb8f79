"""Where one topic ends and the next begins: where the words say so, and a drop of similarity between neighbours.

Pure. Takes vectors that somebody else made, and breaks that `topic_words.py` found; knows no model, no database and no
words. What a segment says, and whether it holds several topics after all, is the summarizer's matter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from server.events import Samples


@dataclass(frozen=True, slots=True)
class SegmentRecipe:
    """How segments are cut. Similarities are cosines, whose range differs from model to model."""

    name: str
    drop: float | None
    """A boundary lies where similarity falls by so much below what it was on one side since the last boundary. None: it
    tells nothing, and only breaks and length count."""
    never_above: float = 1.0
    """Neighbours this alike are one topic, whatever the drop."""
    most_exchanges: int = 6
    """A segment is closed when it is so long (`memory.backlog_rounds`)."""


NARROW_COSINES = SegmentRecipe("narrow-cosines-2", drop=None)
"""For models whose cosines all lie near each other, as those of E5: neighbours on one topic are no more alike than
others (0.86-0.94 in Japanese, 0.75-0.85 in English, either way), so the words alone tell."""
WIDE_COSINES = SegmentRecipe("wide-cosines-1", drop=0.12, never_above=0.65)
"""For models that spread, as Qwen3-Embedding. Chosen, not yet measured."""


def recipe_for(model: str) -> SegmentRecipe:
    """The recipe of an embedding model, by the name in its fingerprint."""
    return NARROW_COSINES if "e5" in model.casefold() else WIDE_COSINES


def closed_segments(
    vectors: Samples | int,
    recipe: SegmentRecipe,
    *,
    ended: bool,
    breaks: Collection[int] = (),
    light: Collection[int] = (),
) -> list[range]:
    """The segments that are over, as ranges of exchange numbers from 0; the open one at the end is not among them.

    `vectors`: unit, float32, shape (exchanges, dimensions), in the order they were said; the number of exchanges where
    the recipe needs no more. `ended`: the session is over,
    which closes the last one too. `breaks`: exchanges that begin a segment in any case. `light`: exchanges without a
    topic of their own (うん, thanks): they go with what was said before, and those around them are compared.
    """
    count = vectors if isinstance(vectors, int) else len(vectors)
    if not count:
        return []
    drops = _Drops(vectors, recipe, light)
    begins = [0]
    for exchange in range(1, count):
        begun = exchange in breaks or exchange - begins[-1] >= recipe.most_exchanges
        if drops.at(exchange, begun=begun):
            begins.append(exchange)
    ends = [*begins[1:], count]
    segments = [range(first, end) for first, end in zip(begins, ends, strict=True)]
    if not ended and len(segments[-1]) < recipe.most_exchanges:
        segments.pop()
    return segments


class _Drops:
    """Where similarity falls, exchange by exchange."""

    def __init__(self, vectors: Samples | int, recipe: SegmentRecipe, light: Collection[int]) -> None:
        self._recipe = recipe
        self._light = light
        self._peak = -1.0
        self._to_next: dict[int, float] = {}
        self._to_last: dict[int, float] = {}
        if not isinstance(vectors, int):
            weighty = [exchange for exchange in range(len(vectors)) if exchange not in light]
            alike = np.einsum("ij,ij->i", vectors[weighty[:-1]], vectors[weighty[1:]])
            self._to_next = dict(zip(weighty[:-1], map(float, alike), strict=True))
            self._to_last = dict(zip(weighty[1:], map(float, alike), strict=True))

    def at(self, exchange: int, *, begun: bool) -> bool:
        """Whether a segment begins with `exchange`. `begun`: it does in any case."""
        drop = self._recipe.drop
        if not begun and drop is not None and exchange not in self._light:
            similarity = self._to_last.get(exchange)
            # The topic must have held on one side: within it so far, or right behind the gap. With nothing but
            # greetings before it, it is the first.
            held = max(self._peak, self._to_next.get(exchange, -1.0))
            begun = similarity is None or (held - similarity >= drop and similarity < self._recipe.never_above)
            if not begun and similarity is not None:
                self._peak = max(self._peak, similarity)
        if begun:
            self._peak = -1.0
        return begun
