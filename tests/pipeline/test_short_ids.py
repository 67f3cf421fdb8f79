"""A small model reads m1 where a memory's id is; what is stored and run has the real one."""

from __future__ import annotations

import pytest

from server.pipeline.short_ids import ShortIds

pytestmark = pytest.mark.unit

ONE, OTHER = "mem_01KA0000000000000000000001", "mem_01KA0000000000000000000002"
FOUND = {
    "candidates": [{"memory_id": ONE, "topic": "靴"}, {"memory_id": OTHER, "topic": "mem_text"}],
    "ambiguous": True,
}


def test_ids_get_short_names_in_the_order_they_are_shown_and_keep_them():
    ids = ShortIds()
    shown = ids.shortened(FOUND)
    assert [one["memory_id"] for one in shown["candidates"]] == ["m1", "m2"]
    assert ids.shortened({"which": [{"memory_id": OTHER}]}) == {"which": [{"memory_id": "m2"}]}
    assert FOUND["candidates"][0]["memory_id"] == ONE


def test_nothing_but_ids_is_changed():
    ids = ShortIds()
    data = {
        "topic": ONE,
        "turns": [{"text": f"{ONE} m1"}],
        "memory_id": 5,
        "memory_ids": [3, None],
    }
    assert ids.shortened(data) == data


def test_numbers_of_source_turns_are_stored_and_not_read():
    result = {"said": [{"source_turn_id": 7, "said_at": "2026-11-30", "by": "user", "text": "鍵は source_turn_id: 7"}]}
    shown = ShortIds().shortened(result)
    assert shown == {"said": [{"said_at": "2026-11-30", "by": "user", "text": "鍵は source_turn_id: 7"}]}
    assert list(shown["said"][0]) == ["said_at", "by", "text"], "in the order it always had"
    assert result["said"][0]["source_turn_id"] == 7


def test_a_call_is_given_the_ids_that_its_short_names_stand_for():
    ids = ShortIds()
    ids.shortened(FOUND)
    assert ids.lengthened({"memory_id": " m2 "}) == {"memory_id": OTHER}
    assert ids.lengthened({"memory_ids": ["m1", "m9"], "query": "m1"}) == {"memory_ids": [ONE, "m9"], "query": "m1"}
    assert ids.lengthened({"memory_id": ONE}) == {"memory_id": ONE}
    assert ids.short(OTHER) == "m2"
