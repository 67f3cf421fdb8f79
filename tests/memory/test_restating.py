"""A statement with one value put right: every word was said, and where it is not certain which go, nothing is made."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.check import Said, check, is_correction
from server.memory.nouns import nouns
from server.memory.restating import PutRight, puts_right, restated, swapped

pytestmark = pytest.mark.unit
THEN, NOW = dt.date(2026, 11, 20), dt.date(2026, 12, 1)
BOUGHT = "富士通の中古のデスクトップを三万円で買ったよ。"
PAID = "I bought a used Fujitsu desktop for 30,000 yen."


def put_right(statement: str, words: str) -> str | None:
    made = restated(statement, THEN, PutRight(words, NOW, "en" if words.isascii() else "ja"))
    return made and made.text


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("違う、二万五千円だよ", "二万五千円"),
        ("いや、25,000円だったよ", "25,000円"),
        ("そうじゃない、二万五千円", "二万五千円"),
        ("ごめん、2万5千円だった", "2万5千円"),
        ("二万五千円の間違い", "二万五千円"),
        ("三万円じゃなくて、二万五千円だよ", "二万五千円"),
        ("二万五千だよ", "二万五千円"),
        ("違う、２万５千円だよ", "2万5千円"),
    ],
)
def test_an_amount_in_japanese_stands_as_it_was_said(words: str, value: str) -> None:
    assert put_right(BOUGHT, words) == BOUGHT.replace("三万円", value)


@pytest.mark.parametrize(
    ("statement", "words", "expected"),
    [
        (PAID, "No, it was 25,000 yen", "I bought a used Fujitsu desktop for 25,000 yen."),
        (PAID, "No, twenty-five thousand.", "I bought a used Fujitsu desktop for twenty-five thousand yen."),
        (PAID, "No, wait, it was 25,000 yen, not 30,000", "I bought a used Fujitsu desktop for 25,000 yen."),
        (PAID, "It’s not 30,000, it’s 25,000", "I bought a used Fujitsu desktop for 25,000 yen."),
        ("I paid $300 for it.", "No, 250", "I paid $250 for it."),
        ("I paid about 300 dollars for it.", "No, it was $250", "I paid $250 for it."),
        (
            "The roofer wants 2,300 dollars, and he starts on December 8.",
            "No, it was 3,200 dollars, not 2,300.",
            "The roofer wants 3,200 dollars, and he starts on December 8.",
        ),
    ],
)
def test_an_amount_in_english_stands_as_it_was_said(statement: str, words: str, expected: str) -> None:
    assert put_right(statement, words) == expected


@pytest.mark.parametrize(
    ("statement", "words", "expected"),
    [
        ("歯医者は木曜日だよ。", "ううん、金曜日だよ", "歯医者は金曜日だよ。"),
        ("歯医者は木曜だよ。", "木曜じゃなくて金曜だよ", "歯医者は金曜だよ。"),
        # Of which week, nobody said: no date is made up.
        ("2026年12月3日に歯医者に行く。", "違う、金曜日だよ", "金曜日に歯医者に行く。"),
        ("2026年12月3日に歯医者に行く。", "違う、明日だよ", "2026年12月2日に歯医者に行く。"),
        ("2026年12月3日に歯医者に行く。", "違う、12月4日だよ", "12月4日に歯医者に行く。"),
        ("I see the dentist on Thursday.", "no, Friday", "I see the dentist on Friday."),
        ("We meet on Thursday.", "It's Friday, not Thursday", "We meet on Friday."),
        ("The dentist is on December 3, 2026.", "no, Friday", "The dentist is on Friday."),
        ("The dentist is on December 3, 2026.", "No, it's tomorrow", "The dentist is on December 2, 2026."),
        ("The dentist is on December 3, 2026.", "No, it's on December 4", "The dentist is on December 4."),
    ],
)
def test_a_day_takes_the_place_of_the_day(statement: str, words: str, expected: str) -> None:
    assert put_right(statement, words) == expected


@pytest.mark.parametrize(
    ("statement", "words", "expected"),
    [
        ("猫のタマが来た。タマは三歳だ。", "違う、タマじゃなくてミケだよ", "猫のミケが来た。ミケは三歳だ。"),
        ("猫の名前はタマだよ。", "ミケだよ、タマじゃなくて", "猫の名前はミケだよ。"),
        ("京都に行ったよ。", "京都じゃなくて奈良だよ", "奈良に行ったよ。"),
        ("My cat Lena is old. Lena's food is fish.", "it's Luna, not Lena", "My cat Luna is old. Luna's food is fish."),
        ("My cat Lena is old.", "No, her name is Luna, not Lena", "My cat Luna is old."),
        ("My cat Lena is old.", "not Lena, Luna", "My cat Luna is old."),
        ("I bought a red bike.", "It's blue, not red.", "I bought a blue bike."),
    ],
)
def test_a_name_takes_the_place_of_the_name(statement: str, words: str, expected: str) -> None:
    assert put_right(statement, words) == expected


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (BOUGHT, "三万円だったよね"),
        (BOUGHT, "あと五千円足りなかった"),
        (BOUGHT, "違う、三個だよ"),
        (BOUGHT, "マウスは二千円だったよ"),
        (BOUGHT, "私は三万円じゃなくて二万円のがほしい"),
        (BOUGHT, "違うよ"),
        ("りんごを三百円、米を四千円で買った。", "違う、五千円だよ"),
        # Half past three, and the afternoon, would stay though nobody said so.
        ("面接は三時半から。", "違う、四時だよ"),
        ("面接は午後三時から。", "違う、四時だよ"),
        ("The train leaves at 7:20.", "No, at 8"),
        ("My shift starts at 3 pm.", "no, four"),
        # Parts of longer words.
        ("タマゴを買った。", "違う、タマじゃなくてミケだよ"),
        ("東京都に行ったよ。", "京都じゃなくて奈良だよ"),
        ("Lenard came.", "it's Luna, not Lena"),
        ("紅茶が好き。", "コーヒーじゃなくて紅茶が好き"),
        ("I like coffee.", "I want tea, not coffee"),
        ("\ud800", "違う、三万円"),
        ("", "no, Friday"),
    ],
)
def test_where_it_is_not_certain_nothing_is_made(statement: str, words: str) -> None:
    assert put_right(statement, words) is None


def test_with_the_wrong_value_said_it_is_known_among_several() -> None:
    several = "りんごを三百円、米を四千円で買った。"
    assert put_right(several, "四千円じゃなくて五千円だよ") == "りんごを三百円、米を五千円で買った。"
    assert put_right("時間は午後三時から。", "三時じゃなくて四時だよ") == "時間は午後四時から。"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (BOUGHT, "違う、二万五千円だよ"),
        ("猫のタマが来た。", "違う、タマじゃなくてミケだよ"),
        (PAID, "No, twenty-five thousand."),
        ("歯医者は木曜日だよ。", "ううん、金曜日だよ"),
    ],
)
def test_both_together_have_said_every_number_day_and_name_of_it(statement: str, words: str) -> None:
    made = put_right(statement, words)
    assert made is not None
    said = [Said(statement, THEN), Said(words, NOW)]
    assert not check("", made, nouns(made, NOW), said)
    assert check("", made, nouns(made, NOW), said[:1]) or "金曜日" in made


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("違う、タマじゃなくてミケだよ", ("タマ", "ミケ")),
        ("it's Luna, not Lena", ("Lena", "Luna")),
        ("no, luna not lena", ("lena", "luna")),
        ("うちの猫はタマじゃなくてミケだよ", None),
        ("タマじゃなくてタマだよ", None),
        ("ミケだよ", None),
        ("", None),
    ],
)
def test_wrong_and_right_are_told_apart(words: str, expected: tuple[str, str] | None) -> None:
    assert swapped(words) == expected


def test_a_swap_of_names_corrects_and_a_remark_does_not() -> None:
    assert is_correction("it's Luna, not Lena")
    assert is_correction("no, luna not lena")
    assert is_correction("It was 3,200 dollars, not 2,300.")
    assert is_correction("ううん、金曜日だよ")
    assert is_correction("no, Friday")
    assert not is_correction("It's cold, not hot")
    assert not is_correction("金曜日だよ")
    assert puts_right("金曜日だよ")
    assert not puts_right("金曜日に歯医者に行く")
