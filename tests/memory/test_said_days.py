"""Words like 昨日 get the date they meant, since they are read on another day."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.said_days import day_text, explained, lasting

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("昨日、PCを買った。", "ja", "2026年11月29日、PCを買った。"),
        ("昨日買った。", "ja", "2026年11月29日に買った。"),
        ("昨日は雨だった。", "ja", "2026年11月29日は雨だった。"),
        ("昨日(2026年11月29日)買った", "ja", "2026年11月29日に買った"),
        ("先月買った", "ja", "2026年10月に買った"),
        ("去年の夏に行った", "ja", "2025年6月1日から2025年8月31日に行った"),
        ("11月3日に行った", "ja", "2026年11月3日に行った"),
        ("Yesterday I bought it.", "en", "On November 29, 2026 I bought it."),
        ("I bought it yesterday.", "en", "I bought it on November 29, 2026."),
        ("I went there last month.", "en", "I went there in October 2026."),
    ],
)
def test_relative_days_become_dates(text: str, language: str, expected: str) -> None:
    assert lasting(text, MONDAY, language) == expected


@pytest.mark.parametrize("text", ["2025年5月に買った", "on May 3, 2025", "前に買った", "猫が好き", "", "😀\ud800"])
def test_what_means_the_same_day_for_ever_is_left_alone(text: str) -> None:
    assert lasting(text, MONDAY, "ja") == text


def test_a_reader_is_told_the_date_beside_the_word() -> None:
    assert explained("昨日買った", MONDAY, "ja") == "昨日(2026年11月29日)買った"
    assert explained("see you tomorrow", MONDAY, "en") == "see you tomorrow(December 1, 2026)"


@pytest.mark.parametrize(
    ("first", "last", "japanese", "english"),
    [
        ("2026-11-03", "2026-11-03", "2026年11月3日", "November 3, 2026"),
        ("2026-02-01", "2026-02-28", "2026年2月", "February 2026"),
        ("2026-01-01", "2026-12-31", "2026年", "2026"),
        ("2026-11-23", "2026-11-29", "2026年11月23日から2026年11月29日", "November 23, 2026 to November 29, 2026"),
    ],
)
def test_days_as_people_write_them(first: str, last: str, japanese: str, english: str) -> None:
    days = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    assert day_text(*days, "ja") == japanese
    assert day_text(*days, "en") == english


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("1月11日に始まる", "ja", "1月11日に始まる"),
        ("四月から習う", "ja", "四月から習う"),
        ("11月3日に買った", "ja", "2026年11月3日に買った"),
        ("クリスマスは出かける", "ja", "クリスマスは出かける"),
        ("春は混む", "ja", "春は混む"),
        ("去年の夏に行った", "ja", "2025年6月1日から2025年8月31日に行った"),
        ("It begins on January 11.", "en", "It begins on January 11."),
        ("She marries on June 5 next year.", "en", "She marries on June 5, 2027."),
        ("They met on November 3.", "en", "They met on November 3, 2026."),
    ],
)
def test_a_day_that_may_lie_ahead_is_not_made_past(text: str, language: str, expected: str) -> None:
    assert lasting(text, dt.date(2026, 11, 30), language) == expected
