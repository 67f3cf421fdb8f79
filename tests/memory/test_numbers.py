"""One number, however it is written; and what only looks like one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from server.memory.numbers import Quantity, quantities, values

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
        ("RTX 3050 Ti", [3050]),
        ("1,5", [1, 5]),
    ],
)
def test_numbers_in_digits_kanji_and_words(text: str, expected: list[int]) -> None:
    assert sorted(values(text)) == [Decimal(number) for number in expected]


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
