"""A summary may say only what was said; what two statements differ in; corrections and filler."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.check import (
    Problems,
    Said,
    adds_to,
    check,
    contradicts,
    is_correction,
    is_filler,
    is_negated,
    opens_topic,
    stated,
    without_greeting,
)

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


def problems(said: str, summary: str, *entities: str, topic: str = "") -> Problems:
    return check(topic, summary, entities, [Said(said, MONDAY)])


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("富士通のＰＣを三万円で買ったんだ", "富士通のPCを30,000円で買った。"),
        ("二万五千だった", "25000円だった。"),
        ("昨日買ったよ", "2026年11月29日に買った。"),
        ("11/3に行った", "2026年11月3日に行った。"),
        ("先週の土曜に京都へ行った", "2026年11月28日に京都へ行った。"),
        ("来月引っ越す", "2026年12月に引っ越す。"),
        ("今決めた", "2026年11月30日に決めた。"),
        ("十一月三日に会った", "2026年11月に会った。"),
        ("I paid thirty thousand yen yesterday", "The user paid 30,000 yen on November 29, 2026."),
        ("I have two cats", "The user has 2 cats."),
        ("一緒に行った", "一緒に行った。"),
    ],
)
def test_the_same_written_otherwise_is_no_problem(said: str, summary: str) -> None:
    assert not problems(said, summary)


@pytest.mark.parametrize(
    ("said", "summary", "expected"),
    [
        ("三万円で買った", "25,000円で買った。", Problems(numbers=("25000円",))),
        ("昨日買った", "2026年11月20日に買った。", Problems(dates=("2026年11月20日",))),
        ("来月引っ越す", "2027年に引っ越す。", Problems(dates=("2027年",))),
        ("I paid 300 dollars", "The user paid 30 dollars.", Problems(numbers=("30ドル",))),
        ("猫を飼っている", "猫を2匹飼っている。", Problems(numbers=("2匹",))),
        ("十一月に会った", "2026年11月12日に会った。", Problems(dates=("2026年11月12日",))),
    ],
)
def test_what_was_not_said_is_named(said: str, summary: str, expected: Problems) -> None:
    assert problems(said, summary) == expected


def test_names_are_compared_as_they_are_searched() -> None:
    found = problems("ｒｔｘ3050 の PC と Fujitsu", "PC", "RTX 3050", "fujitsu", "富士通")
    assert found == Problems(entities=("富士通",))
    assert found.words() == ("富士通",)


def test_the_topic_is_checked_too() -> None:
    assert problems("PCを買った", "PCを買った。", topic="5万円の買い物") == Problems(numbers=("50000円",))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("富士通のPCを30,000円で買った", "富士通のPCは25,000円だった", {"number"}),
        ("PCは三万円", "PCは二万五千", {"number"}),
        ("PCは30,000円", "PCのメモリーは16GB", set()),
        ("PCは30,000円", "PCを買った", set()),
        ("辛いものが好き", "辛いものは好きじゃない", {"negation"}),
        ("She likes coffee", "She doesn't like coffee", {"negation"}),
        ("2026年12月3日に引っ越す", "2026年12月10日に引っ越す", {"date"}),
        ("2026年12月に引っ越す", "2026年12月10日に引っ越す", set()),
        ("I paid 300 dollars", "It was 250 dollars", {"number"}),
        ("The move is on December 3, 2026", "The move is on December 10, 2026", {"date"}),
        ("PCは三万円", "PCは三万円じゃなくて二万五千円", {"number"}),
        ("I paid 300 dollars", "It's not 300, it's 250 dollars", {"number"}),
    ],
)
def test_what_cannot_both_hold(old: str, new: str, expected: set[str]) -> None:
    assert contradicts(stated(new, MONDAY), stated(old, MONDAY)) == expected


def test_a_number_or_day_more_is_something_new() -> None:
    without, with_price = stated("PCを買った", MONDAY), stated("PCを30,000円で買った", MONDAY)
    assert adds_to(with_price, without) == {"number"}
    assert not adds_to(without, with_price)
    assert adds_to(stated("2026年11月3日に行った", MONDAY), stated("行った", MONDAY)) == {"date"}


@pytest.mark.parametrize(
    "text",
    [
        "違う、二万五千円",
        "ちがうよ",
        "いや、違うよ、二匹だ",
        "赤じゃなくて青",
        "さっきのは間違いだった",
        "訂正、金曜日",
        "No, it was 25,000.",
        "no, actually two",
        "Actually it's on Friday",
        "That's wrong.",
        "いや、二万五千円だよ",
        "いや二万五千円",
        "ううん、三匹だよ",
        "そうじゃない、二万五千円",
        "そうじゃなくて二万五千円",
        "ごめん、二万五千円だった",
        "二万五千円の間違い",
        "二万五千円の間違いだよ",
        "三万円じゃなくて、二万五千円",
        "三万円ではなく二万五千円",
        "wait, 250",
        "It's not 300, it's 250",
        "Not 300, 250",
        "it was not 300 dollars but 250",
        "Sorry, it was 250 dollars",
        "No, 250",
        "No, it’s red",
    ],
)
def test_corrections_are_noticed(text: str) -> None:
    assert is_correction(text)


@pytest.mark.parametrize(
    "text",
    [
        "色が違う服を買った",
        "間違いない",
        "間違いなく好き",
        "実は犬を飼っている",
        "No problem",
        "I know",
        "猫が好き",
        "",
        "No, I don't like it",
        "No, I have never been there",
        "No, it's fine",
        "not only that",
        "Not bad",
        "いや、楽しかったよ",
        "ごめん、三十分遅れる",
        "ごめん、聞こえなかった",
        "そうじゃない?",
        "いや、二万円?",
        "wait, I have two cats",
        "wait 5 minutes",
        "二万円は間違いない",
    ],
)
def test_what_corrects_nothing(text: str) -> None:
    assert not is_correction(text)


@pytest.mark.parametrize(
    "text",
    [
        "好きじゃない",
        "食べません",
        "行かなかった",
        "I never eat it",
        "don’t",
        "嫌い",
        "やめた",
        "行かないと思う",
        "好きじゃないから",
        "仕方なく行かなかった",
        "I can't wait because I don't like it",
        "良くない",
        "お金がない",
    ],
)
def test_negations(text: str) -> None:
    assert is_negated(text)


@pytest.mark.parametrize(
    "text",
    [
        "少ない",
        "危ない",
        "間違いない",
        "雨かもしれない",
        "note the knot",
        "好き",
        "行かなければならない",
        "行かなければいけません",
        "行かないといけない",
        "行かないとだめだ",
        "行かなきゃ",
        "飲まなくちゃいけない",
        "飲まなくてはならない",
        "とんでもない",
        "しょうがない",
        "しようがない",
        "しかたない",
        "仕方がない",
        "悪くない",
        "いいじゃないか",
        "もったいない",
        "I can't wait",
        "I can’t wait",
        "not only tea but coffee",
        "not bad",
    ],
)
def test_no_negations(text: str) -> None:
    assert not is_negated(text)


@pytest.mark.parametrize(
    "texts",
    [
        ["おはよう!"],
        ["うん、そうだね。", "ありがとうー"],
        ["Good morning!", "OK, thanks"],
        ["へえええ"],
        ["😀", "…"],
        [],
        *(
            [text]
            for text in (
                "おはよう、スタックチャン",
                "おはようスタックチャン！",
                "スタックチャン、ただいま",
                "みんな、おやすみ",
            )
        ),
        *([text] for text in ("Good morning, StackChan", "hi stack chan!", "Hey everyone", "StackChan, good night.")),
        *(
            [text]
            for text in (
                "また明日ね",
                "See you tomorrow!",
                "やあ、おはよう",
                "おはよう、元気？",
                "調子はどう？",
                "Hi, how are you?",
                "Hello there, robot",
            )
        ),
    ],
)
def test_filler_needs_no_model(texts: list[str]) -> None:
    assert is_filler(texts)


@pytest.mark.parametrize(
    "texts",
    [
        *(["おはよう", "猫を飼ってる"], ["うん、三万円"], ["I have a cat"], ["左を見て"], ["ありがとうって言われた"]),
        *(["おはよう、猫を飼ってる"], ["Hi, I'm Anna"], ["Good morning, it rains"], ["うん、タマ"]),
        ["Hello, my name is Bo"],
        *(["Thanks, Friday"], ["Hi, twelve"], ["Hello Kitty"], ["Hey Anna"], ["ハローワーク"], ["ねえ、カレー"]),
        *(["こんばんは、お父さん"], ["ありがとう、七時"]),
    ],
)
def test_what_is_not_filler_for_certain_is_left_to_the_model(texts: list[str]) -> None:
    assert not is_filler(texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("そういえば犬がいてね", True),
        ("あ、そうだ、鍵の話", True),
        ("話は変わるけど", True),
        ("By the way, it is open.", True),
        ("Oh, that reminds me of something", True),
        ("そうだね", False),
        ("それは変わった話だ", False),
        ("I know by the way he walks", False),
        ("", False),
    ],
)
def test_words_that_open_a_topic(text: str, expected: bool) -> None:
    assert opens_topic(text) is expected


def test_a_week_may_be_written_as_its_first_and_last_day() -> None:
    said = [Said("先週は島にいた", dt.date(2026, 8, 16))]
    assert not check("島", "2026年8月3日から2026年8月9日の間、島にいた。", (), said)
    assert check("島", "2026年8月3日から2026年8月8日の間、島にいた。", (), said).dates


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        *(("Hi, twelve", "twelve"), ("Thanks, Friday", "Friday"), ("Hello StackChan, it rains", "it rains")),
        *(("ねえ、カレー", "カレー"), ("おはよう！昨日寿司を食べた", "昨日寿司を食べた"), ("ただいま", "ただいま")),
        *(("どうも父が来たようだ", "どうも父が来たようだ"), ("ハローワークに行った", "ハローワークに行った"), ("", "")),
    ],
)
def test_what_is_said_after_a_greeting(text: str, rest: str) -> None:
    assert without_greeting(text) == rest
