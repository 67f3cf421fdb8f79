"""What a sentence is about without its numbers, days and negation; a value told alone; what is denied for another."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.content import content_words, home_of, is_bare_value, resident, without_denied
from server.memory.numbers import without_quantities

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026年11月29日、富士通のパソコンを30,000円で買った。", {"富士通", "パソコン"}),
        ("富士通のﾊﾟｿｺﾝは二万五千円だったんだよね", {"富士通", "パソコン"}),
        ("富士通のパソコンのメモリを五千円で足したよ", {"富士通", "パソコン", "メモリ", "足"}),
        ("辛いものは好きじゃない。", {"辛"}),
        ("コムギは鳴かない", {"コムギ", "鳴"}),
        ("コムギはまだりんごを食べる", {"コムギ", "まだりんご", "食"}),
        ("田中さんの席は3番。", {"田中", "席", "番"}),
        ("Anna has 2 sons.", {"anna", "son"}),
        ("Anna doesn’t like coffee.", {"anna", "coffee"}),
        ("The move is on December 3, 2026.", {"move"}),
        ("25,000円だった。", set()),
        ("😀…", set()),
    ],
)
def test_words_that_say_what_it_is_about(text: str, words: set[str]) -> None:
    assert content_words(text, MONDAY) == words


@pytest.mark.parametrize(
    "text",
    [
        "二万五千円だよ",
        "いや、２５０００円",
        "二万五千円だったよ",
        "ごめん、二匹だった",
        "違う、明日だよ",
        "It's not 300, it's 250",
        "250 dollars",
        "十七時三十分だよ",
        "違う、三時半だよ",
        "65・5キロだった",
    ],
)
def test_a_value_alone(text: str) -> None:
    assert is_bare_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "二万五千円?",
        "二万円かな",
        "二台で六万円だね",
        "あと五千円",
        "モニタは二万円",
        "もう一個",
        "yes, 250 more",
        "in 5 minutes",
        "そうだね",
        "",
    ],
)
def test_no_value_alone(text: str) -> None:
    assert not is_bare_value(text)


def test_what_is_denied_for_another_is_taken_out() -> None:
    assert without_denied("三万円じゃなくて二万五千円") == "二万五千円"
    assert without_denied("Not 300, 250") == "250"
    assert without_denied("三万円じゃなくて。") == "三万円じゃなくて。"
    assert without_denied("PCは30,000円ではない。") == "PCは30,000円ではない。"


@pytest.mark.parametrize(
    ("text", "home", "who"),
    [
        ("田中さんは東京に引っ越して住んでいる。", "東京", {"田中"}),
        ("田中さんは大阪に住んでるよ", "大阪", {"田中"}),
        ("Tom moved to York.", "york", {"tom"}),
        ("My sister lives in New York now", "new york", {"sister"}),
        ("田中さんは大阪に住んでいない。", None, None),
        ("田中さんは大阪に住んでいた。", None, None),
        ("東京に引っ越したい", None, None),
        ("Tom used to live in Leeds", None, None),
        ("パソコンを買った", None, None),
    ],
)
def test_where_somebody_lives_now(text: str, home: str | None, who: set[str] | None) -> None:
    assert home_of(text) == home
    if who is not None:
        assert set(resident(text, MONDAY)) == who


def test_numbers_go_with_their_units_and_leave_what_is_counted() -> None:
    assert without_quantities("三万円とりんご2個") == "、とりんご、"
    assert without_quantities("two sons, 16 GB, one day") == "、sons, 、, one day"
    assert without_quantities("千葉と一緒") == "千葉と一緒"
