from __future__ import annotations

from dataclasses import replace

import pytest

from server.memory.fusion import (
    SUMMARIES_AND_SOURCES,
    are_close,
    fused,
    in_order,
    is_found,
    scaled,
    together,
)

pytestmark = pytest.mark.unit

RECIPE = replace(
    SUMMARIES_AND_SOURCES,
    summary_vectors=1.0,
    summary_words=0.5,
    source_words=2.0,
    days=0.4,
    speaker=0.2,
    cosine_width=0.01,
)


def test_scores_are_scaled_between_their_worst_and_best() -> None:
    assert scaled({"a": 0.9, "b": 0.8, "c": 0.7}) == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.0})


def test_words_scale_from_zero_so_that_the_last_hit_still_counts() -> None:
    assert scaled({"a": 8.0, "b": 2.0}, from_zero=True) == {"a": 1.0, "b": 0.25}


def test_the_second_of_two_near_ones_stays_near() -> None:
    assert scaled({"a": 0.86, "b": 0.85}, least_width=0.05) == pytest.approx({"a": 1.0, "b": 0.8})


def test_the_last_digits_of_equal_scores_do_not_count() -> None:
    assert scaled({"a": 0.8600001, "b": 0.8600003}) == {"a": 1.0, "b": 1.0}


def test_nothing_scales_to_nothing_and_equals_to_one() -> None:
    assert scaled({}) == {}
    assert scaled({"a": 0.8, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_searches_add_up_by_their_weights() -> None:
    found = fused(
        {
            "summary_vectors": {"a": 0.9, "b": 0.7},
            "summary_words": {"b": 4.0, "c": 2.0},
            "source_words": {"c": 1.0},
        },
        RECIPE,
    )
    assert found == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.25 + 2.0})


def test_days_and_speaker_raise_only_what_a_search_found() -> None:
    found = fused({"source_words": {"a": 1.0}, "days": {"a": 0.5, "z": 1.0}, "speaker": {"a": 1.0, "z": 1.0}}, RECIPE)
    assert found == pytest.approx({"a": 2.0 + 0.2 + 0.2})


def test_more_turns_of_one_memory_add_less_and_less() -> None:
    assert together([1.0, 4.0, 2.0, 9.0], (0.5, 0.25)) == pytest.approx(9.0 + 2.0 + 0.5)
    assert together([], (0.5,)) == 0


def test_recency_orders_equals_only_and_ids_come_last() -> None:
    scores = {"old": 0.9, "new": 0.9, "newest": 0.8, "x": 0.5, "y": 0.5}
    recency = {"old": 1.0, "new": 2.0, "newest": 3.0, "x": 1.0, "y": 1.0}
    assert in_order(scores, recency) == ["new", "old", "newest", "y", "x"]


def test_the_newest_never_outranks_the_slightly_more_similar() -> None:
    assert in_order({"old": 0.90001, "new": 0.9}, {"old": 0.0, "new": 1e9}) == ["old", "new"]


def test_a_memory_is_found_by_likeness_or_by_words() -> None:
    recipe = replace(RECIPE, found_cosine=0.8, found_words=5.0)
    assert is_found(0.8, 0.0, recipe)
    assert is_found(0.1, 5.0, recipe)
    assert not is_found(0.79, 4.9, recipe)
    assert is_found(None, 0.1, recipe), "without its vector, words are all there is"
    assert not is_found(None, 0.0, recipe)


def test_two_are_close_by_a_share_of_the_best() -> None:
    recipe = replace(RECIPE, close=0.1)
    assert are_close(2.0, 1.81, recipe)
    assert not are_close(2.0, 1.79, recipe)
    assert not are_close(0.0, 0.0, recipe)
