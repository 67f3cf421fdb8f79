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
        # The afternoon would stay though nobody said so.
        ("面接は午後三時から。", "違う、四時だよ"),
        ("面接は三時前から。", "違う、四時だよ"),
        ("My shift starts at 3 pm.", "no, four"),
        # Parts of longer words.
        ("タマゴを買った。", "違う、タマじゃなくてミケだよ"),
        ("東京都に行ったよ。", "京都じゃなくて奈良だよ"),
        ("Lenard came.", "it's Luna, not Lena"),
        ("紅茶が好き。", "コーヒーじゃなくて紅茶が好き"),
        ("田中さんと田中先生に会った", "田中じゃなくて中田だよ"),
        ("東京から東京駅まで歩いた", "東京じゃなくて京都だよ"),
        ("Ann said Ann Arbor is cold.", "it's Anne, not Ann"),
        ("York is older than New York City.", "it's Yorck, not York"),
        # The right name is somebody else's there.
        ("母が花子に本をあげた", "母じゃなくて花子だよ"),
        ("Bob gave Lena a book.", "it's Lena, not Bob"),
        # Numbers that are only a piece of one, or another kind.
        ("電話は090-1234-5678だよ", "違う、5679だよ"),
        ("室温は零下五度だった", "違う、三度だよ"),
        ("室温は二十度だった", "違う、マイナス二度だよ"),
        (BOUGHT, "違う、-20000円だよ"),
        (PAID, "No, minus 20,000 yen"),
        ("I ran 5 miles.", "No, 8 km"),
        ("I ran 5 km.", "No, 8 miles"),
        ("薬は三錠飲む", "違う、二回だよ"),
        # A time of day too.
        ("2026年12月1日に歯医者に行く", "いや、明後日の三時だよ"),
        ("The dentist is on December 3, 2026.", "No, December 4 at 3 pm"),
        ("I like coffee.", "I want tea, not coffee"),
        ("\ud800", "違う、三万円"),
        ("", "no, Friday"),
    ],
)
def test_where_it_is_not_certain_nothing_is_made(statement: str, words: str) -> None:
    assert put_right(statement, words) is None


@pytest.mark.parametrize(
    ("statement", "words", "expected"),
    [
        ("I ran 5 miles.", "No, 6", "I ran 6 miles."),
        # A number with its point, its sign or its minutes goes as a whole.
        ("体重は六十五・五キロだよ", "違う、六十六キロだよ", "体重は六十六キロだよ"),
        ("体重は六十五キロだよ", "違う、65・5キロだよ", "体重は65・5キロだよ"),
        ("室温は零下五度だった", "違う、マイナス三度だよ", "室温はマイナス三度だった"),
        ("面接は三時半から。", "違う、四時だよ", "面接は四時から。"),
        ("面接は17時30分から。", "違う、18時だよ", "面接は18時から。"),
        ("面接は十七時から。", "違う、十七時三十分だよ", "面接は十七時三十分から。"),
        ("The train leaves at 7:20.", "No, at 8", "The train leaves at 8."),
        ("The train leaves at 7:20.", "No, 7:50", "The train leaves at 7:50."),
        ("I met Ann and Anna.", "it's Anne, not Ann", "I met Anne and Anna."),
        ("The dentist is on December 3 at 3 pm.", "No, 4 pm", "The dentist is on December 3 at 4 pm."),
        ("明日歯医者に行く。", "違う、あさってだよ", "2026年12月3日に歯医者に行く。"),
        ("明日歯医者に行く。", "あ、違う、しあさってだよ", "2026年12月4日に歯医者に行く。"),
        ("猫の名前はあんこだよ。", "違う、あんこじゃなくてあずきだよ", "猫の名前はあずきだよ。"),
        ("犬はあおだよ。", "あ、あおじゃなくてあかだよ", "犬はあかだよ。"),
    ],
)
def test_where_it_is_certain_it_is_carried_out(statement: str, words: str, expected: str) -> None:
    assert put_right(statement, words) == expected


SEVERAL = "富士通のパソコンを三万円で買って、マウスは二千円だった"
PADDLE = "The kayak was 640 dollars, and the paddle was 80 dollars"


@pytest.mark.parametrize(
    ("statement", "words", "asked", "told", "expected"),
    [
        (
            SEVERAL,
            "違う、二千五百円だよ",
            "マウスいくらだった",
            "二千円だよ。",
            SEVERAL.replace("二千円", "二千五百円"),
        ),
        (SEVERAL, "違う、二万五千円だよ", "パソコンいくらだっけ", "", SEVERAL.replace("三万円", "二万五千円")),
        (
            "姉は三十歳、弟は二十五歳だよ",
            "違う、二十六歳だよ",
            "弟は何歳だっけ",
            "二十五歳だよ。",
            "姉は三十歳、弟は二十六歳だよ",
        ),
        (PADDLE, "No, 90 dollars", "How much was the paddle?", "80 dollars.", PADDLE.replace("80", "90")),
        (PADDLE, "No, 650 dollars", "How much was it?", "640 dollars.", PADDLE.replace("640", "650")),
        # Neither tells, or one tells otherwise than the other.
        (SEVERAL, "違う、二千五百円だよ", "いくらだったっけ", "えっと。", None),
        (SEVERAL, "違う、二千五百円だよ", "マウスいくらだった", "三万円だよ。", None),
        (PADDLE, "No, 90 dollars", "How much was the paddle?", "640 dollars.", None),
        (PADDLE, "No, 90 dollars", "", "", None),
    ],
)
def test_of_several_values_the_one_that_was_asked_and_told_is_meant(
    statement: str, words: str, asked: str, told: str, expected: str | None
) -> None:
    made = restated(statement, THEN, PutRight(words, NOW, "en" if words.isascii() else "ja", asked, told))
    assert (made and made.text) == expected


@pytest.mark.parametrize(
    "words",
    [
        *("違うよ、三万二千円じゃないよ", "違う、二万五千円じゃない", "二万五千円ではありません", "二万五千円は違うよ"),
        *("もし二万五千円だったらよかったのに", "二万五千円だと思ってた", "二万五千円じゃないよね", "へえ、百万円だね"),
        *("違う、六万円だって言うんだよ", "違うよ、二万五千円だったら買わないよ", "百万円だよ、なんちゃって"),
        *(
            "二万五千円ならよかった",
            "二万五千円のはず",
            "二万五千円らしいよ",
            "二万五千円だといいな",
            "じゃあ二万円だね",
        ),
        *("No, it's not 25,000 yen", "not 25,000 yen", "It isn't 25,000 yen", "If only it was 25,000 yen"),
        *("I thought it was 25,000 yen", "Yeah right, a million yen", "He said 25,000 yen", "I wish it was 25,000 yen"),
        *("Wow, a million yen", "Maybe 25,000 yen", "it would be 25,000 yen"),
    ],
)
def test_what_is_not_told_as_a_fact_puts_nothing_right(words: str) -> None:
    assert not puts_right(words)
    assert put_right(PAID if words.isascii() else BOUGHT, words) is None


@pytest.mark.parametrize(
    "words", ["違う、二万五千円だよね"[:-1], "ううん、二万五千円だね", "違います、二万五千円です", "No, it's 250 yen"]
)
def test_what_is_told_as_a_fact_does(words: str) -> None:
    assert puts_right(words)


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
