"""Words like 昨日 get the date they meant, since they are read on another day."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.check import Said, check
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
        ("去年の夏に行った", "ja", "2025年6月1日から2025年8月31日の間に行った"),
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
        ("去年の夏に行った", "ja", "2025年6月1日から2025年8月31日の間に行った"),
        ("It begins on January 11.", "en", "It begins on January 11."),
        ("She marries on June 5 next year.", "en", "She marries on June 5, 2027."),
        ("They met on November 3.", "en", "They met on November 3, 2026."),
    ],
)
def test_a_day_that_may_lie_ahead_is_not_made_past(text: str, language: str, expected: str) -> None:
    assert lasting(text, dt.date(2026, 11, 30), language) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I went to Kyoto a week ago.", "I went to Kyoto about November 23, 2026."),
        ("About two weeks ago I sold it.", "About November 16, 2026 I sold it."),
        ("I moved here three months ago.", "I moved here about August 30, 2026."),
        ("I have jogged since a week ago.", "I have jogged since about November 23, 2026."),
        ("I saw a fox a couple of days ago.", "I saw a fox about November 28, 2026."),
        ("We met a few weeks ago.", "We met about November 9, 2026."),
        ("I saw a fox two days ago.", "I saw a fox on November 28, 2026."),
        ("It happened a year ago.", "It happened in 2025."),
        ("I was ill last week.", "I was ill between November 23, 2026 and November 29, 2026."),
        ("We hiked last weekend.", "We hiked between November 28, 2026 and November 29, 2026."),
        ("We met yesterday evening.", "We met on the evening of November 29, 2026."),
        ("I slept badly last night.", "I slept badly on the night of November 29, 2026."),
        ("This morning the boiler broke.", "On the morning of November 30, 2026 the boiler broke."),
        ("It arrived last Friday night.", "It arrived on the night of November 27, 2026."),
        ("The exam is in two weeks.", "The exam is about December 14, 2026."),
        ("We will move in three days.", "We will move on December 3, 2026."),
        ("In a week, we're flying to Oslo.", "About December 7, 2026, we're flying to Oslo."),
        ("I lost two kilos in two weeks.", "I lost two kilos in two weeks."),
        ("You can learn it in two weeks.", "You can learn it in two weeks."),
        ("I bought a kayak on Thursday.", "I bought a kayak on November 26, 2026."),
        ("The concert is on Friday.", "The concert is on Friday."),
        ("We decided to meet on Friday.", "We decided to meet on Friday."),
        ("I have an exam on Friday.", "I have an exam on Friday."),
    ],
)
def test_an_english_day_stays_the_day_that_was_said(text: str, expected: str) -> None:
    assert lasting(text, MONDAY, "en") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("先週末、山に登った", "2026年11月28日から2026年11月29日、山に登った"),
        ("先週の週末に行った", "2026年11月28日から2026年11月29日の間に行った"),
        ("今週末は釣り", "2026年12月5日から2026年12月6日は釣り"),
        ("来週末は休み", "2026年12月12日から2026年12月13日は休み"),
        ("先月末に払った", "2026年10月21日から2026年10月31日の間に払った"),
        ("先週行った", "2026年11月23日から2026年11月29日の間に行った"),
        ("2週間前に行った", "2026年11月16日ごろに行った"),
        ("三ヶ月前から習ってる", "2026年8月30日ごろから習ってる"),
        ("この間の日曜に会った", "2026年11月29日に会った"),
        ("この前の日曜日に会った", "2026年11月29日に会った"),
        ("昨日の夜に会った", "2026年11月29日の夜に会った"),
        ("昨夜食べた", "2026年11月29日の夜に食べた"),
        ("今朝は走った", "2026年11月30日の朝は走った"),
    ],
)
def test_a_japanese_day_stays_the_day_that_was_said(text: str, expected: str) -> None:
    assert lasting(text, MONDAY, "ja") == expected


def test_a_writer_is_told_the_day_meant_and_not_the_leeway() -> None:
    assert explained("I went a week ago", MONDAY, "en") == "I went a week ago(about November 23, 2026)"
    assert explained("2週間前に行った", MONDAY, "ja") == "2週間前(2026年11月16日ごろ)に行った"


def test_the_day_meant_by_weeks_ago_is_one_that_was_said() -> None:
    said = [Said("I went a week ago", MONDAY)]
    assert not check("", "They went about November 23, 2026.", (), said)
    assert check("", "They went about November 22, 2026.", (), said).dates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("しあさって会議がある", "2026年12月3日に会議がある"),
        ("やのあさって帰る", "2026年12月4日に帰る"),
        ("明々後日は休み", "2026年12月3日は休み"),
        ("あさって会議がある", "2026年12月2日に会議がある"),
        ("さきおととい買った", "2026年11月27日に買った"),
        ("一昨々日の夜に会った", "2026年11月27日の夜に会った"),
    ],
)
def test_days_further_off_have_names_too(text: str, expected: str) -> None:
    assert lasting(text, MONDAY, "ja") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("歯医者は明後日だよ", "歯医者は2026年12月2日だよ"),
        ("歯医者は明日だね", "歯医者は2026年12月1日だね"),
        ("試験は明日です。", "試験は2026年12月1日です。"),
        ("会議は昨日じゃない", "会議は2026年11月29日じゃない"),
        ("試験は明日って聞いた", "試験は2026年12月1日って聞いた"),
        ("歯医者は明日!", "歯医者は2026年12月1日!"),
        ("歯医者は明日よ", "歯医者は2026年12月1日よ"),
        ("昨日と今日は雨", "2026年11月29日と2026年11月30日は雨"),
        ("昨日だいこんを買った", "2026年11月29日にだいこんを買った"),
        ("昨日よかった", "2026年11月29日によかった"),
    ],
)
def test_no_particle_is_put_before_one(text: str, expected: str) -> None:
    assert lasting(text, MONDAY, "ja") == expected


@pytest.mark.parametrize(
    "text",
    [
        "毎年八月十五日にお墓参りに行く",
        "誕生日は六月九日だよ",
        "姉の誕生日は11月3日",
        "私は五月三日に生まれた",
        "結婚記念日は十月十日です",
        "祖父の命日は十一月二日",
        "My birthday is on June 9.",
        "Every year on August 15 we visit the grave.",
        "Our anniversary is on October 10.",
        "I was born on November 3.",
    ],
)
def test_what_comes_every_year_gets_no_year(text: str) -> None:
    assert lasting(text, MONDAY, "ja" if not text.isascii() else "en") == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("誕生日は六月九日だ。11月3日に時計を買った", "誕生日は六月九日だ。2026年11月3日に時計を買った"),
        ("昨日は誕生日だった", "2026年11月29日は誕生日だった"),
        (
            "Ann's birthday is on November 3. We met on November 4.",
            "Ann's birthday is on November 3. We met on November 4, 2026.",
        ),
        ("My birthday party was yesterday.", "My birthday party was on November 29, 2026."),
    ],
)
def test_beside_a_birthday_other_days_get_theirs(text: str, expected: str) -> None:
    assert lasting(text, MONDAY, "ja" if not text.isascii() else "en") == expected
