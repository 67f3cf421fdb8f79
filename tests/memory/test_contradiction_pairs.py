"""Labelled pairs of statements: how often a difference without words of correction is rightly a contradiction.

Every pair is judged as if it were as alike as can be, as Japanese sentences about one name nearly are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server.memory.contradiction import NARROW_COSINES, Proposal, decide
from tests.memory.test_contradiction import new, old

pytestmark = pytest.mark.unit
PAIRS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "contradictions.json").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class Score:
    right: int
    wrong: list[str]
    missed: list[str]

    @property
    def precision(self) -> float:
        return self.right / (self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        return self.right / (self.right + len(self.missed))


def score() -> Score:
    right, wrong, missed = 0, [], []
    for pair in PAIRS:
        before, after = (pair[side] for side in ("old", "new"))
        stored = old(1, before["summary"], *before["names"], memory_type=before["type"])
        said = new(after["summary"], *after["names"], memory_type=after["type"])
        supersedes = bool(decide(Proposal(said), [(stored, 0.99)], NARROW_COSINES).supersedes)
        if supersedes and pair["contradicts"]:
            right += 1
        elif supersedes:
            wrong.append(f"{before['summary']} / {after['summary']}")
        elif pair["contradicts"]:
            missed.append(f"{before['summary']} / {after['summary']}")
    return Score(right, wrong, missed)


def test_the_pairs_are_enough_of_both_kinds_and_languages() -> None:
    assert len(PAIRS) >= 40
    assert sum(one["contradicts"] for one in PAIRS) >= 15
    assert sum(one["old"]["summary"].isascii() for one in PAIRS) >= 15


def test_what_replaces_contradicts(record_property: Callable[[str, object], None]) -> None:
    found = score()
    record_property("precision", found.precision)
    record_property("recall", found.recall)
    assert found.precision >= 0.95, found.wrong
    # Real changes that no rule sees stay beside what they change, and the newer is found first.
    assert found.recall >= 0.7, found.missed
