"""How several searches become one order: weighted min-max fusion, named recipes, and when nothing was found.

Pure and fast: every search comes in as {key: score}. Knows no model, no database and no memory: a key may be anything
that sorts. Weighted min-max beat reciprocal ranks in every measurement (`scripts/bench_recall`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

Key = TypeVar("Key", str, int)
Signal = Literal["summary_vectors", "summary_words", "source_words", "days", "speaker"]
"""Searches that are fused: cosines of summaries, BM25 of summaries, BM25 of source turns; whether it happened on days
that the question names; whether it is about somebody whom the question names."""

TIE = 1e-6
"""Scores closer than this are equal."""

_SEARCHES: tuple[Signal, ...] = ("summary_vectors", "summary_words", "source_words")
_RAISES: tuple[Signal, ...] = ("days", "speaker")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Weights and limits of one way to rank. Frozen: another figure is another recipe with another name."""

    name: str
    summary_vectors: float
    summary_words: float
    source_words: float
    days: float
    speaker: float
    cosine_width: float
    """Cosines of one search are spread over at least this much; of an embedding model (`recall.fitted`)."""
    pool: int
    """The best so many of each search take part."""
    days_slack: int
    """Days around a named day on which a memory still counts by half."""
    found_from_memories: int
    """Among fewer, everything was found: how rare a word is cannot be told, and little is in the way."""
    found_cosine: float
    """Nothing was found when the best memory is less similar than this ..."""
    found_words: float
    """... and neither it nor its source turns share words with the question of this BM25.

    The cosine is of an embedding model (`recall.fitted`)."""
    close: float
    """The best two are close when their fused scores differ by less than this share of the best."""
    rerank: float = 0.7
    """Share of a reranker's judgement in the order, where there is one; the rest is the fused score's."""

    def weight(self, signal: Signal) -> float:
        weight: float = getattr(self, signal)
        return weight


def scaled(scores: Mapping[Key, float], *, from_zero: bool = False, least_width: float = 0.0) -> dict[Key, float]:
    """Scores as 0 (the worst) to 1 (the best). `from_zero`: 0 stays 0, for scores of which a missing one is zero.

    Scores that are all alike tell nothing apart: each is 1. `least_width`: scores nearer together than this stay near,
    so that of two hits the second is not simply the worst.
    """
    if not scores:
        return {}
    # The same vector scores differently by less than this in another row; a small width would make much of it.
    scores = {key: round(score / TIE) * TIE for key, score in scores.items()}
    best = max(scores.values())
    lowest = min(0.0, *scores.values()) if from_zero else min(*scores.values(), best - least_width)
    width = best - lowest
    return {key: (score - lowest) / width if width > 0 else 1.0 for key, score in scores.items()}


def fused(signals: Mapping[Signal, Mapping[Key, float]], recipe: Recipe) -> dict[Key, float]:
    """One score for every key that any search found: the weighted sum of its scaled scores.

    Words scale from zero, cosines from the lowest of their hits; `days` and `speaker` are 0 to 1 already and raise only
    what another search found.
    """
    total: dict[Key, float] = {}
    for signal in _SEARCHES:
        weight = recipe.weight(signal)
        found = signals.get(signal, {})
        if signal == "summary_vectors":
            shares = scaled(found, least_width=recipe.cosine_width)
        else:
            shares = scaled(found, from_zero=True)
        for key, score in shares.items():
            total[key] = total.get(key, 0.0) + weight * score
    for signal in _RAISES:
        for key, score in signals.get(signal, {}).items():
            if key in total:
                total[key] += recipe.weight(signal) * score
    return total


def together(scores: Collection[float], shares: Collection[float]) -> float:
    """What several turns of one memory count for: the best whole, the next by `shares`; more than those add nothing."""
    best = sorted(scores, reverse=True)
    return sum(score * share for score, share in zip(best, (1.0, *shares), strict=False))


def blended(scores: Mapping[Key, float], judged: Mapping[Key, float], share: float) -> dict[Key, float]:
    """Fused scores after a reranker looked at the best: `share` of its judgement (0 to 1), the rest of the fused score
    as a part of the best one. What it did not look at counts as judged 0, and so never comes before what it did and
    what was better.
    """
    return {
        key: share * judged.get(key, 0.0) + (1 - share) * score for key, score in scaled(scores, from_zero=True).items()
    }


def in_order(scores: Mapping[Key, float], recency: Mapping[Key, float]) -> list[Key]:
    """Keys, best first. Only equals are ordered by recency (newest first), then by key, largest first."""
    return sorted(scores, key=lambda key: (round(scores[key] / TIE), recency.get(key, 0.0), key), reverse=True)


def is_found(cosine: float | None, words: float, recipe: Recipe) -> bool:
    """Whether a memory has to do with the question at all. `words`: its best BM25; `cosine` None: it has no vector.

    A weak judge: on the Japanese set questions about what was never said look much like the others to this model.
    """
    if cosine is None:
        return words > 0
    return cosine >= recipe.found_cosine or words >= recipe.found_words


def are_close(best: float, second: float, recipe: Recipe) -> bool:
    """Whether the second score is nearly as good as the best."""
    return best > 0 and best - second < recipe.close * best


NEXT_TURNS = (0.5, 0.3)
"""What a memory's second and third best source turns add to the words of its best; tuned as neighbours on LoCoMo."""

SUMMARIES_AND_SOURCES = Recipe(
    name="summaries-and-sources-1",
    summary_vectors=1.0,
    summary_words=0.3,
    source_words=0.8,
    days=0.5,
    speaker=0.3,
    cosine_width=0.05,
    pool=200,
    days_slack=7,
    found_from_memories=500,
    found_cosine=0.83,
    found_words=16.0,
    close=0.1,
)
"""Chosen on LoCoMo's conversations 1 and 2, with multilingual-e5-small."""
