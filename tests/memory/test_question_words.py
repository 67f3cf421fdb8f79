from __future__ import annotations

import pytest

from server.memory.question_words import forms, search_text

pytestmark = pytest.mark.unit


def test_english_words_that_only_ask_are_left_out() -> None:
    found = search_text("Where is it that RTX broke").split()
    assert "RTX" in found
    assert "broke" in found
    assert not {"Where", "is", "it", "that"} & set(found)


def test_a_verb_is_searched_for_in_its_other_forms() -> None:
    assert {"realize", "realized", "realizing"} <= set(search_text("what did she realize today").split())
    assert "running" in forms("run")
    assert "hobby" in forms("hobbies")
    assert "hobbies" in forms("hobby")


def test_names_and_types_keep_their_one_form() -> None:
    assert search_text("Caroline's RTX3050").split() == ["Caroline", "RTX3050"]


@pytest.mark.parametrize("text", ["富士通のPC、いつ買った", "ねこ", "😀", "Who is it?", ""])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert search_text(text) == text


def test_a_long_question_leaves_the_index_room_for_its_own_words() -> None:
    long = "walking talking painting cooking reading swimming hiking running singing dancing"
    found = search_text(long).split()
    assert " ".join(found[:10]) == long
    assert len(found) <= 64
