from __future__ import annotations

import datetime as dt

import pytest

from server.memory.dates import DateRange, named_days

pytestmark = pytest.mark.unit

WEDNESDAY = dt.date(2026, 11, 25)


def days(text: str, asked_on: dt.date = WEDNESDAY) -> list[tuple[str, str]]:
    return [(str(one.first), str(one.last)) for one in named_days(text, asked_on)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("昨日何食べたっけ", "2026-11-24", "2026-11-24"),
        ("一昨日のことだけど", "2026-11-23", "2026-11-23"),
        ("あさっての予定", "2026-11-27", "2026-11-27"),
        ("先週買ったもの", "2026-11-16", "2026-11-22"),
        ("先週の土曜どこ行った", "2026-11-21", "2026-11-21"),
        ("来週の火曜は何", "2026-12-01", "2026-12-01"),
        ("先週末どこ行った", "2026-11-21", "2026-11-22"),
        ("今週末の予定", "2026-11-28", "2026-11-29"),
        ("この間の日曜日", "2026-11-22", "2026-11-22"),
        ("last weekend", "2026-11-21", "2026-11-22"),
        ("a couple of days ago", "2026-11-22", "2026-11-24"),
        ("what is in two weeks?", "2026-12-06", "2026-12-12"),
        ("two weeks from now", "2026-12-06", "2026-12-12"),
        ("先月のこと", "2026-10-01", "2026-10-31"),
        ("先月末に払った", "2026-10-21", "2026-10-31"),
        ("去年の夏どこ行った", "2025-06-01", "2025-08-31"),
        ("今年の春に", "2026-03-01", "2026-05-31"),
        ("2年前の夏", "2024-06-01", "2024-08-31"),
        ("去年の冬は", "2025-12-01", "2026-02-28"),
        ("11月3日何してた", "2026-11-03", "2026-11-03"),
        ("十一月三日", "2026-11-03", "2026-11-03"),
        ("２０２６年３月上旬", "2026-03-01", "2026-03-10"),
        ("2月の下旬", "2026-02-21", "2026-02-28"),
        ("3日前", "2026-11-22", "2026-11-22"),
        ("三週間前", "2026-11-01", "2026-11-07"),
        ("半年くらい前に", "2026-04-25", "2026-06-24"),
        ("この前の日曜", "2026-11-22", "2026-11-22"),
        ("ゴールデンウィークに泊まった", "2026-04-29", "2026-05-06"),
        ("2026-03-07の買い物", "2026-03-07", "2026-03-07"),
        ("What did I do yesterday?", "2026-11-24", "2026-11-24"),
        ("the day before yesterday", "2026-11-23", "2026-11-23"),
        ("Last week I bought it", "2026-11-16", "2026-11-22"),
        ("what happened last month", "2026-10-01", "2026-10-31"),
        ("in May", "2026-05-01", "2026-05-31"),
        ("in early May 2023", "2023-05-01", "2023-05-31"),
        ("on 3rd of May, 2022", "2022-05-03", "2022-05-03"),
        ("on May 3, 2022", "2022-05-03", "2022-05-03"),
        ("two weeks ago", "2026-11-08", "2026-11-14"),
        ("a year ago", "2025-01-01", "2025-12-31"),
        ("last summer", "2026-06-01", "2026-08-31"),
        ("last Friday", "2026-11-20", "2026-11-20"),
        ("in 2022", "2022-01-01", "2022-12-31"),
    ],
)
def test_days_that_are_named(text: str, first: str, last: str) -> None:
    assert days(text) == [(first, last)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "前に進んで",
        "この前の話の続き",
        "水曜と土曜に通ってるのは誰",
        "夏服はどこ",
        "三ヶ月間続いた",
        "2月30日",
        "13月",
        "What may I do?",
        "We march on",
        "recently",
        "I read it in two weeks",
        "99999999999999日前",
    ],
)
def test_what_names_no_days(text: str) -> None:
    assert days(text) == []


def test_two_months_are_two_ranges_in_the_order_they_are_named() -> None:
    assert days("6月か五月に買った") == [("2026-06-01", "2026-06-30"), ("2026-05-01", "2026-05-31")]


def test_a_month_that_comes_soon_may_be_the_last_one_or_the_next() -> None:
    assert days("12月の予定") == [("2025-12-01", "2025-12-31"), ("2026-12-01", "2026-12-31")]


def test_the_words_that_named_the_days_are_told() -> None:
    assert [one.said for one in named_days("去年の夏と昨日", WEDNESDAY)] == ["去年の夏", "昨日"]


def test_days_outside_are_counted_from_the_nearer_end() -> None:
    week = DateRange(dt.date(2026, 11, 16), dt.date(2026, 11, 22), "")
    assert [week.days_away(dt.date(2026, 11, day)) for day in (14, 16, 22, 25)] == [2, 0, 0, 3]


def test_the_last_day_of_the_calendar_is_no_error() -> None:
    assert days("明日", dt.date(9999, 12, 31)) == []
