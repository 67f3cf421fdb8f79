"""Topics are cut where neighbouring exchanges stop being alike, or where the words say so."""

from __future__ import annotations

import numpy as np
import pytest

from server.events import Samples
from server.memory.segment import (
    NARROW_COSINES,
    WIDE_COSINES,
    SegmentRecipe,
    closed_segments,
    recipe_for,
)

pytestmark = pytest.mark.unit
RECIPE = SegmentRecipe("test", drop=0.2, never_above=0.7)


def topics(*names: str) -> Samples:
    """One unit vector an exchange; those of one topic are 0.9 alike, others 0.2."""
    different = {name: place for place, name in enumerate(dict.fromkeys(names))}
    vectors = np.zeros((len(names), 2 * len(names) + 8), np.float32)
    for place, name in enumerate(names):
        vectors[place, -1] = np.sqrt(0.2)
        vectors[place, different[name]] = np.sqrt(0.7)
        vectors[place, len(names) + place] = np.sqrt(0.1)
    return vectors


def cut(*names: str, ended: bool = True, breaks: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    found = closed_segments(topics(*names), RECIPE, ended=ended, breaks=breaks)
    return [(part.start, part.stop) for part in found]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", []),
        ("a", [(0, 1)]),
        ("aaa", [(0, 3)]),
        ("aabb", [(0, 2), (2, 4)]),
        ("abb", [(0, 1), (1, 3)]),
        ("aab", [(0, 2), (2, 3)]),
        ("aabbaa", [(0, 2), (2, 4), (4, 6)]),
        ("aaaaaaaa", [(0, 6), (6, 8)]),
    ],
)
def test_a_drop_in_likeness_is_a_boundary(said: str, expected: list[tuple[int, int]]) -> None:
    assert cut(*said) == expected


def test_exchanges_that_are_all_different_are_left_to_the_summarizer() -> None:
    # Nothing was ever alike, so nothing has dropped.
    assert cut(*"abcd") == [(0, 4)]


def test_the_last_segment_stays_open_until_the_session_ends_or_it_is_full() -> None:
    assert cut(*"aabb", ended=False) == [(0, 2)]
    assert cut(*"aaaaa", ended=False) == []
    assert cut(*"aaaaaa", ended=False) == [(0, 6)]


def test_what_was_closed_stays_closed_when_more_is_said() -> None:
    said = "aabbbaaaaaaabc"
    for length in range(len(said) - 1):
        before, after = cut(*said[:length], ended=False), cut(*said[: length + 1], ended=False)
        # The newest exchange may still show that the topic before it goes on; nothing older changes.
        assert after[: len(before) - 1] == before[:-1]


def test_a_break_begins_a_segment_whatever_was_said() -> None:
    assert cut(*"aaaa", breaks=(1,)) == [(0, 1), (1, 4)]


def test_each_kind_of_model_has_its_recipe() -> None:
    assert recipe_for("multilingual-e5-small-q4") is NARROW_COSINES
    assert recipe_for("Qwen3-Embedding-0.6B") is WIDE_COSINES


def test_what_has_no_topic_goes_with_what_was_said_before_and_hides_nothing() -> None:
    vectors = topics(*"aaxabb")
    cuts = closed_segments(vectors, RECIPE, ended=True, light={2})
    assert [(part.start, part.stop) for part in cuts] == [(0, 4), (4, 6)]
    # Greetings first: the topic begins with what is said after them.
    cuts = closed_segments(topics(*"xyaaa"), RECIPE, ended=True, light={0, 1})
    assert [(part.start, part.stop) for part in cuts] == [(0, 2), (2, 5)]
    everything = closed_segments(topics(*"xyzxyzxy"), RECIPE, ended=True, light=range(8))
    assert [(part.start, part.stop) for part in everything] == [(0, 6), (6, 8)]


def test_where_likeness_tells_nothing_only_breaks_and_length_count() -> None:
    assert recipe_for("multilingual-e5-small-q4").drop is None
    cuts = closed_segments(9, NARROW_COSINES, ended=True, breaks={2}, light={4})
    assert [(part.start, part.stop) for part in cuts] == [(0, 2), (2, 8), (8, 9)]
    assert closed_segments(topics(*"aabb"), NARROW_COSINES, ended=False) == []
    assert closed_segments(0, NARROW_COSINES, ended=True) == []
