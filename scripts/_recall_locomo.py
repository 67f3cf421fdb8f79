"""Ranking LoCoMo's exact turns with the project's words, vectors and fusion; evidence recall at k and at equal tokens.

A turn scores by its own words and those around it, by the memories that it or a turn near it belongs to, and, in the
best recipe, by its own vector. Ready-made observations are the memories. Knows no file format and no table to print.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from _locomo import Conversation, Question
from _vector_cache import VectorCache

from server.memory.dates import named_days
from server.memory.fusion import NEXT_TURNS, Recipe, Signal, fused, in_order, scaled
from server.memory.question_words import search_text
from server.storage.recall_tables import create_word_table
from server.storage.words import query_terms, tokens

KS = (5, 10, 20)
BUDGETS = (500, 1000, 2000)
REACH = (0.9, 0.8, 0.7)
"""What a memory of a turn counts for the turns one, two and three beside it: memories are of a few exchanges."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to rank turns."""

    name: str
    recipe: Recipe
    turn_vectors: float = 0.0
    window_vectors: float = 0.0


def ways(recipe: Recipe, *, turn_vectors: bool, window_vectors: bool) -> list[Way]:
    """The ways to compare; those with vectors of turns or windows only on request, since embedding takes minutes."""
    bare = replace(recipe, days=0.0, speaker=0.0)
    found = [
        Way("vectors only", replace(bare, summary_words=0.0, source_words=0.0)),
        Way("words only", replace(bare, summary_vectors=0.0)),
        Way("fused", bare),
        Way("fused, days, speaker", recipe),
    ]
    if turn_vectors:
        found.append(Way("  with turn vectors", recipe, turn_vectors=0.5))
    if window_vectors:
        found.append(Way("  with turn and window vectors", recipe, turn_vectors=0.5, window_vectors=0.5))
    return found


@dataclass(frozen=True, slots=True)
class Signals:
    """Scores of one question, by place of the turn."""

    searches: Mapping[Signal, Mapping[int, float]]
    turns: Mapping[int, float]
    windows: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Found:
    """One question ranked: the share of its evidence within each bound."""

    conversation: int
    category: int
    at: Mapping[str, float]


async def signals_of(
    conversation: Conversation, cache: VectorCache, *, turn_vectors: bool, window_vectors: bool
) -> list[Signals]:
    """What every search says about every question of a conversation."""
    turns, memories = conversation.turns, conversation.observations
    sessions = [turn.session for turn in turns]
    asked = await cache.vectors([question.text for question in conversation.questions], "query")
    summaries = asked @ (await cache.vectors([memory.summary for memory in memories], "document")).T
    alone = around = None
    if turn_vectors:
        alone = asked @ (await cache.vectors([turn.text for turn in turns], "document")).T
    if window_vectors:
        texts = [conversation.window_text(window) for window in conversation.windows]
        around = asked @ (await cache.vectors(texts, "document")).T
    memory_words = WordIndex(memory.summary for memory in memories)
    turn_words = WordIndex(turn.text for turn in turns)
    groups = [memory.turns for memory in memories]
    found = []
    for row, question in enumerate(conversation.questions):
        cosines = scaled(dict(enumerate(map(float, summaries[row]))))
        searches: dict[Signal, Mapping[int, float]] = {
            "summary_vectors": _reaching(_spread(cosines, groups), sessions),
            "summary_words": _reaching(_spread(memory_words.search(question.text), groups), sessions),
            "source_words": _with_neighbours(turn_words.search(question.text), sessions),
            **_raising(conversation, question),
        }
        found.append(
            Signals(
                searches,
                {} if alone is None else dict(enumerate(map(float, alone[row]))),
                {} if around is None else _spread(dict(enumerate(map(float, around[row]))), conversation.windows),
            )
        )
    return found


def rank(way: Way, signals: Signals) -> list[int]:
    """Places of turns, best first; equals newest first."""
    scores = fused(signals.searches, way.recipe)
    for weight, more in ((way.turn_vectors, signals.turns), (way.window_vectors, signals.windows)):
        if weight:
            for place, score in scaled(more).items():
                scores[place] = scores.get(place, 0.0) + weight * score
    return in_order(scores, {place: float(place) for place in scores})


def judge(number: int, conversation: Conversation, question: Question, order: Sequence[int]) -> Found:
    """The share of the evidence among the first k turns, and within so many tokens of turns."""
    at: dict[str, float] = {}
    for k in KS:
        at[f"@{k}"] = len(question.evidence.intersection(order[:k])) / len(question.evidence)
    for budget in BUDGETS:
        tokens_left, inside = float(budget), set()
        for place in order:
            tokens_left -= conversation.turns[place].tokens
            if tokens_left < 0:
                break
            inside.add(place)
        at[f"{budget} tokens"] = len(question.evidence & inside) / len(question.evidence)
    return Found(number, question.category, at)


def average(found: Iterable[Found]) -> dict[str, Any]:
    """Percentages over questions, and how many they are."""
    found = list(found)
    if not found:
        return {"questions": 0}
    return {"questions": len(found)} | {
        name: round(100 * fmean(one.at[name] for one in found), 1) for name in found[0].at
    }


class WordIndex:
    """The project's words in SQLite's FTS5, in memory."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute(create_word_table("words"))
        rows = ((place, " ".join(tokens(text))) for place, text in enumerate(texts))
        self._db.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", rows)

    def search(self, question: str) -> dict[int, float]:
        """BM25 of every text that shares a word with the question."""
        terms = query_terms(search_text(question))
        if not terms:
            return {}
        wanted = " OR ".join(f'"{term.word}"' + ("*" if term.begins else "") for term in terms)
        return dict(self._db.execute("SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?", (wanted,)))


def _spread(scores: Mapping[int, float], groups: Sequence[Sequence[int]]) -> dict[int, float]:
    """Scores of groups as scores of their turns: the best a turn is in."""
    found: dict[int, float] = {}
    for group, score in scores.items():
        for place in groups[group]:
            found[place] = max(found.get(place, 0.0), score)
    return found


def _reaching(scores: Mapping[int, float], sessions: Sequence[int]) -> dict[int, float]:
    """Turns near a memory's turns get their share of its score."""
    found = dict(scores)
    for place, score in scores.items():
        for near, share in _near(place, sessions, REACH):
            found[near] = max(found.get(near, 0.0), share * score)
    return found


def _with_neighbours(scores: Mapping[int, float], sessions: Sequence[int]) -> dict[int, float]:
    """Words said just before and after count too."""
    found = dict(scores)
    for place, score in scores.items():
        for near, share in _near(place, sessions, NEXT_TURNS):
            found[near] = found.get(near, 0.0) + share * score
    return found


def _near(place: int, sessions: Sequence[int], shares: Sequence[float]) -> Iterable[tuple[int, float]]:
    for distance, share in enumerate(shares, 1):
        for near in (place - distance, place + distance):
            if 0 <= near < len(sessions) and sessions[near] == sessions[place]:
                yield near, share


def _raising(conversation: Conversation, question: Question) -> dict[Signal, Mapping[int, float]]:
    """Turns of the days that the question names (asked on the last day), and of the one speaker whom it names."""
    turns = conversation.turns
    ranges = named_days(question.text, max(turn.said_on for turn in turns))
    named = [name for name in conversation.speakers if name.lower() in question.text.lower()]
    days: dict[int, float] = {}
    for place, turn in enumerate(turns):
        away = min((one.days_away(turn.said_on) for one in ranges), default=99)
        days[place] = 1.0 if away == 0 else 0.5 if away <= 7 else 0.0
    about = {place: float(turn.speaker == named[0]) for place, turn in enumerate(turns)} if len(named) == 1 else {}
    return {"days": days, "speaker": about}
