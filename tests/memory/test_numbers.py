"""One number, however it is written; and what only looks like one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from server.memory.numbers import Quantity, as_written, quantities, values

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text",
    [
        "三万円",
        "30,000円",
        "30000円",
        "３００００円",
        "3万円",
        "３万円",
        "¥30,000",
        "thirty thousand yen",
        "30 thousand yen",
    ],
)
def test_thirty_thousand_yen_is_one_amount(text: str) -> None:
    assert quantities(text) == {Quantity(Decimal(30_000), "円")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("二万五千", [25_000]),
        ("2万5千円", [25_000]),
        ("二万五千円", [25_000]),
        ("twenty-five thousand", [25_000]),
        ("25k", [25_000]),
        ("百二十円", [120]),
        ("二〇二六年", [2026]),
        ("十一月", [11]),
        ("3.5万", [35_000]),
        ("1億2千万", [120_000_000]),
        ("三匹の猫と二人", [2, 3]),
        ("two hundred and fifty dollars", [250]),
        ("15:30", [15, 30]),
        ("七時二十分", [7, 20]),
        ("-640", [640]),
        ("RTX 3050 Ti", [3050]),
        ("1,5", [1, 5]),
    ],
)
def test_numbers_in_digits_kanji_and_words(text: str, expected: list[int]) -> None:
    assert sorted(values(text)) == [Decimal(number) for number in expected]


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        *(
            ("六十五・五キロ", "65.5", "キロ"),
            ("65・5", "65.5", ""),
            ("六十五点五度", "65.5", "度"),
            ("三・一四", "3.14", ""),
        ),
        ("６５．５％", "65.5", "%"),
        *(
            ("-640", "-640", ""),
            ("残高は−640円", "-640", "円"),
            ("-$640", "-640", "ドル"),
            ("マイナス五度", "-5", "度"),
        ),
        *(("零下五度", "-5", "度"), ("minus 20 dollars", "-20", "ドル"), ("minus twenty dollars", "-20", "ドル")),
        *(
            ("17時30分", "17.3", "時"),
            ("十七時三十分", "17.3", "時"),
            ("17:30", "17.3", "時"),
            ("１７：０５", "17.05", "時"),
        ),
        *(
            ("三時半", "3.3", "時"),
            ("5:30 pm", "5.3", "pm"),
            ("二時間三十分", "2.5", "時間"),
            ("二時間半", "2.5", "時間"),
            ("1時間30分", "1.5", "時間"),
            ("1時間20分", "1.3333", "時間"),
        ),
        *(("十一月三十日", "11.3", "月"), ("11月3日", "11.03", "月")),
    ],
)
def test_a_number_with_its_point_its_sign_or_its_minutes_is_one(text: str, value: str, unit: str) -> None:
    (found,) = quantities(text)
    assert found.value == Decimal(value)
    assert found.unit == unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Two or three days; a list; numbers of telephones, ranges, and a hyphen within a name.
        ("2・3日前", ["2", "3"]),
        ("10・11月", ["10", "11"]),
        ("090-1234-5678", ["90", "1234", "5678"]),
        ("3日-5日", ["3", "5"]),
        ("RTX-3050", ["3050"]),
        ("三点五百円", ["3", "500"]),
        ("room 12, 30 people", ["12", "30"]),
        ("10:30:15", ["10.3", "15"]),
        ("2:1", ["1", "2"]),
    ],
)
def test_what_only_stands_beside_a_number_is_another(text: str, expected: list[str]) -> None:
    assert sorted(one.value for one in quantities(text)) == sorted(map(Decimal, expected))


def test_two_hours_are_no_time_of_the_clock() -> None:
    assert quantities("2時間") != quantities("2時")


@pytest.mark.parametrize("text", ["17時30分", "17.5時", "30000円", "-5度", "11月30日", "2時間5分", "65.5キロ", "3050"])
def test_a_number_is_written_as_people_write_it(text: str) -> None:
    (found,) = quantities(text)
    if text != "17.5時":
        assert quantities(as_written(found)) == {found}


@pytest.mark.parametrize(
    "text",
    ["一緒に千葉へ行く", "一番好き", "四国と九州", "十分に寝た", "one of them", "no one", "", "😀", "万が一", "\ud800"],
)
def test_what_is_no_number(text: str) -> None:
    assert quantities(text) == frozenset()


def test_units_keep_their_numbers_apart() -> None:
    assert quantities("16GBで三万円") == {Quantity(Decimal(16), "gb"), Quantity(Decimal(30_000), "円")}
    assert quantities("3 dogs") == {Quantity(Decimal(3))}


def test_months_are_counted_however_they_are_written() -> None:
    assert quantities("四か月") == quantities("4ヶ月") == quantities("４カ月") == {Quantity(Decimal(4), "か月")}


def test_a_third_is_no_number_of_minutes() -> None:
    assert quantities("三分の一") == frozenset()
    assert [one.unit for one in quantities("三分")] == ["分"]


def test_half_an_hour_and_thirty_minutes_are_alike_and_not_a_decimal() -> None:
    assert quantities("1時間半") == quantities("1時間30分") != quantities("1.3時間")
