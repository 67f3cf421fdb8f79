"""Ordinary English sentences said to a small model: which are kept, and what they are about."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.nouns import nouns
from server.memory.telling import tells

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("Anna is 12 years old.", ("Anna",)),
        ("Tom is 9 years old.", ("Tom",)),
        ("Grandma turned 80.", ("Grandma",)),
        ("Dad has diabetes.", ("Dad",)),
        ("Ben lives in Bristol.", ("Ben", "Bristol")),
        ("Kate works for Siemens.", ("Kate", "Siemens")),
        ("Sam speaks Portuguese.", ("Sam", "Portuguese")),
        ("Rex is a beagle.", ("Rex", "beagle")),
        ("Lucy and Paul have three children.", ("Lucy", "Paul")),
        ("Anna's school is in Bath.", ("Anna", "Bath")),
        ("When Anna was small she had a red bicycle.", ("Anna", "red bicycle")),
        ("My cat is called Miso.", ("cat", "Miso")),
        ("My cat is a Siamese.", ("cat", "Siamese")),
        ("Our dog died in March.", ("dog",)),
        ("My sister works at a hospital in Oslo.", ("sister", "hospital", "Oslo")),
        ("My brother plays the violin.", ("brother", "violin")),
        ("My wife used the drill.", ("wife", "drill")),
        ("Her husband died last year.", ("husband",)),
        ("My boss lives near the station.", ("boss", "station")),
        ("My daughter goes to Elm Park School.", ("daughter", "Elm Park School")),
        ("Our neighbor Mr. Okonedo teaches chemistry.", ("neighbor", "Mr. Okonedo")),
        ("My best friend moved to Perth.", ("best friend", "Perth")),
        ("My birthday is on May 3.", ("birthday",)),
        ("My phone number is 555 0137.", ("phone number",)),
        ("The Fujitsu has 8 GB of memory.", ("Fujitsu",)),
        ("I bought a used laptop for 300 dollars.", ("used laptop",)),
        ("The meeting starts at 10.", ("meeting",)),
        ("The blue bicycle belongs to Emma.", ("blue bicycle", "Emma")),
        ("My car broke down near Reading.", ("car", "Reading")),
        ("The roof is leaking above the study.", ("roof", "study")),
        ("We decided to pay from the savings account.", ("savings account",)),
        ("I moved to Berlin from Madrid.", ("Berlin", "Madrid")),
        ("I am allergic to peanuts.", ()),
        ("School starts at eight.", ()),
    ],
)
def test_an_ordinary_fact_is_kept_and_is_about_its_names_and_things(text: str, about: tuple[str, ...]) -> None:
    assert tells(text, MONDAY, "en")
    assert nouns(text, MONDAY) == about


@pytest.mark.parametrize(
    "text",
    [
        "It is nice.",
        "Time flies.",
        "Dinner is ready.",
        "Thanks, that was great.",
        "Everything is fine.",
        "What time is it?",
        "Is Anna at home?",
        "Turn left.",
        "Sure.",
        "Really good.",
    ],
)
def test_what_is_asked_ordered_or_merely_said_is_left_out_and_names_nothing(text: str) -> None:
    assert not tells(text, MONDAY, "en")


@pytest.mark.parametrize("text", ["It is nice.", "Dinner is ready.", "It's a yellow one.", "Turn left.", "When I can."])
def test_the_first_word_of_a_sentence_is_no_name_for_its_capital(text: str) -> None:
    assert nouns(text, MONDAY) == ()
