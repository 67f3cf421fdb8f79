"""Where the words say that another topic begins."""

from __future__ import annotations

import pytest

from server.memory.topic_words import topics_begin

pytestmark = pytest.mark.unit


def begins(*said: str) -> list[int]:
    language = "en" if all(text.isascii() for text in said) else "ja"
    return sorted(topics_begin(said, language))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("猫のコムギが来た", "そういえば、自転車を買った"), [1]),
        (("I sold the canoe", "By the way, my aunt keeps bees"), [1]),
        # Announced and then told is one topic.
        (("猫のコムギが来た", "話は変わるけど", "転職の面接がある"), [1]),
    ],
)
def test_who_says_so_begins_another(said: tuple[str, ...], expected: list[int]) -> None:
    assert begins(*said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("I bought a Fujitsu desktop.", "私は寿司が好き"), [1]),
        (("私は寿司が好き", "Thanks", "My cat Luna is five."), [2]),
        (("私は寿司が好き", "OK", "いちばんはマグロ"), []),
    ],
)
def test_another_language_is_another_topic(said: tuple[str, ...], expected: list[int]) -> None:
    assert begins(*said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("富士通のデスクトップを三万円で買ったよ", "猫のミケが病院で注射を打ったんだ"), [1]),
        (("富士通のデスクトップを三万円で買ったよ", "うちの猫はミケっていうんだ"), [1]),
        (("庭にトマトを植えた", "姉が東京に引っ越した"), [1]),
        (("I bought a kayak for 640 dollars.", "My sister Odette lives in Lisbon."), [1]),
        # More of the same: it points back, or carries a topic of its own on.
        (("十二月に金沢に行くんだ", "宿は犀川の近く", "だから雪が心配で長靴を買った"), []),
        (("富士通のデスクトップを買ったよ", "それに印刷機をつないだ"), []),
        (("I bought a kayak.", "It's made by Perrin.", "The paddle cost 30 dollars."), []),
        (("My legs are sore from the marathon.", "The marathon was in Kobe."), []),
        (("富士通のデスクトップを三万円で買ったよ", "違う、二万五千円だよ"), []),
        (("デスクトップを買ったよ", "違うよ"), []),
    ],
)
def test_something_else_is_told_at_once(said: tuple[str, ...], expected: list[int]) -> None:
    assert begins(*said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("健康診断で血圧が百三十八だった", "三百足す五百は？", "正解"), [1]),
        (("車検は十二万円だった", "じゃんけんしよう"), [1]),
        (("車検は十二万円だった", "車検って毎年あるのかな"), []),
        (("My sister is getting married.", "Turn your head left."), [1]),
        (("I picked up a kayak.", "Do you think it floats?"), []),
        # Chatter in between, then something new.
        (("面接があるんだ", "緊張するなあ", "おじいちゃんが九十歳になった"), [2]),
        (("I ran a marathon in Kobe.", "So tired.", "My legs still hurt, though."), []),
    ],
)
def test_orders_sums_and_chatter_end_a_topic(said: tuple[str, ...], expected: list[int]) -> None:
    assert begins(*said) == expected


def test_what_is_told_after_greetings_and_games_begins_the_first_topic() -> None:
    assert begins("おはよう", "右を向いて", "庭のトマトが十二個できた") == [2]


def test_more_talk_changes_no_boundary() -> None:
    said = (
        "庭にトマトを植えた",
        "水は朝やる",
        "姉が東京に引っ越した",
        "そっか",
        "I sold the canoe",
        "歌って",
        "猫が来た",
    )
    for length in range(len(said)):
        assert topics_begin(said[:length], "ja") == {one for one in topics_begin(said, "ja") if one < length}


def test_nothing_and_odd_letters_begin_nothing() -> None:
    assert begins() == []
    assert begins("\ud800", "😀", "。。。") == []
