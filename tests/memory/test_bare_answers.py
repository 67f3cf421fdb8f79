"""A question and the bare value that answers it are one statement, of words that were said."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.bare_answers import asks_another, is_answer, statement_of

pytestmark = pytest.mark.unit
TODAY = dt.date(2026, 12, 1)


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("この前のデスクトップ、いくらだったっけ", "違う、二万五千円だよ", "デスクトップは二万五千円だよ。"),
        ("車検はいくらかかったの", "9万4000円", "車検は9万4000円。"),
        ("パソコンいくらだっけ？", "二万五千円！", "パソコンは二万五千円。"),
        ("うちのパソコンの値段、覚えてる？", "二万五千円だったよ", "パソコンの値段は二万五千円だったよ。"),
        ("デスクトップの値段を教えて", "二万五千円", "デスクトップの値段は二万五千円。"),
        ("妹の誕生日っていつだっけ", "十一月三日", "妹の誕生日は十一月三日。"),
        ("お母さんの誕生日は何日", "五月五日だよ", "お母さんの誕生日は五月五日だよ。"),
        ("歯医者いつだっけ", "ううん、金曜日だよ", "歯医者は金曜日だよ。"),
        ("歯医者は何時から？", "午後三時", "歯医者は午後三時。"),
        ("猫は何匹いるの", "三匹", "猫は三匹。"),
        ("How much was the desktop again?", "No, 25,000 yen.", "The desktop: 25,000 yen."),
        ("What is the price of the bike?", "it's 300 dollars", "The price of the bike: 300 dollars."),
        ("When is my sister's wedding?", "June 5", "My sister's wedding: June 5."),
        ("When is my dentist appointment?", "no, Friday", "My dentist: Friday."),
        ("What time is my flight?", "6:45", "My flight: 6:45."),
    ],
)
def test_subject_and_value_are_one_statement(question: str, answer: str, expected: str) -> None:
    assert statement_of(question, answer, "en" if question.isascii() else "ja") == expected


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        # No thing is named.
        *(("前に買ったやつ、いくらだっけ", "二万五千円"), ("いくら？", "三万円"), ("いま何時", "三時")),
        *(("How much was it?", "25,000"), ("How many cats do you have?", "three")),
        # Another thing is asked for.
        *(("妹の誕生日っていつだっけ", "三万円"), ("車検はいくらかかったの", "金曜日"), ("右を向いて", "三万円")),
        *(("When is the wedding?", "300 dollars"), ("How much was the desktop?", "Friday")),
        # What the robot has or did is not the user's.
        ("How much did your trip cost?", "$300"),
        ("", ""),
        ("\ud800", "三万円"),
    ],
)
def test_what_does_not_belong_together_is_left_apart(question: str, answer: str) -> None:
    assert statement_of(question, answer, "en" if question.isascii() else "ja") is None


def test_other_languages_are_left_alone() -> None:
    assert statement_of("Combien coûte le vélo ?", "300 euros", "fr") is None


@pytest.mark.parametrize(
    "text", ["9万4000円", "違う、二万五千円だよ", "金曜日", "no, Friday", "25,000 yen", "午後三時"]
)
def test_a_value_and_little_else_is_an_answer(text: str) -> None:
    assert is_answer(text, TODAY)


@pytest.mark.parametrize(
    "text", ["うん", "パソコンは昨日三万円で買ったんだよね", "I sold the desk for 300 dollars", "", "😀"]
)
def test_what_says_more_or_nothing_is_none(text: str) -> None:
    assert not is_answer(text, TODAY)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("この前のパソコン、いくらだったっけ", "七時だよ"),
        ("この前のパソコン、いくらだったっけ", "金曜日だよ"),
        ("How much was the kayak?", "It's 5 o'clock"),
        ("How much was the kayak?", "It's five o'clock"),
        ("How much was the kayak?", "It's 5:30"),
        ("When is the wedding?", "300 dollars"),
    ],
)
def test_another_kind_of_value_is_no_answer(question: str, answer: str) -> None:
    assert asks_another(question, answer)
    assert statement_of(question, answer, "en" if question.isascii() else "ja") is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("この前のパソコン、いくらだったっけ", "三万円だよ"),
        ("What time is my flight?", "6:45"),
        ("What did I pay for it?", "5"),
        ("", "5"),
    ],
)
def test_what_fits_or_cannot_be_told_may_be_one(question: str, answer: str) -> None:
    assert not asks_another(question, answer)
