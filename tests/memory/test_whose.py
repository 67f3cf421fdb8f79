"""Whose a statement is, and whether what was asked is what a memory is about."""

from __future__ import annotations

import pytest

from server.memory.whose import asks_about, is_of_self, is_own, of_another, same_people

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text",
    [
        *(
            "私の身長は百六十センチ",
            "僕は左利き",
            "いや、百七十五センチだよ",
            "違う、えびが好きだよ",
            "体重は五十キロだった",
        ),
        *("富士通のパソコンを三万円で買ったよ", "薬は一日二回飲む", "俺のパスポートの番号は1234"),
        *("My car's plate is 1234", "I am allergic to peanuts", "No, 5", "Mine is blue", "Blood type is A", ""),
    ],
)
def test_what_may_be_about_nobody_but_the_speaker_is_own(text: str) -> None:
    assert is_own(text)


@pytest.mark.parametrize(
    "text",
    [
        *("母の誕生日は五月五日", "車は白い", "ミケは三歳", "田中さんの席は三番", "姉の体重は五十キロ"),
        *("The car is red", "Anna's extension is 5522", "Mom is sixty", "The kayak was 640 dollars"),
    ],
)
def test_what_is_of_others_or_of_a_thing_is_not(text: str) -> None:
    assert not is_own(text)
    assert not is_of_self(text)


def test_an_event_of_no_subject_may_be_said_by_two() -> None:
    assert is_own("富士通のパソコンを三万円で買った")
    assert not is_of_self("富士通のパソコンを三万円で買った")
    assert is_of_self("納豆が好き")


@pytest.mark.parametrize(
    ("mine", "theirs", "text", "expected"),
    [
        (("ken",), ("aki",), "私の身長は百六十センチ", True),
        (("ken",), ("aki",), "母の誕生日は五月五日", False),
        (("ken",), ("ken",), "私の身長は百六十センチ", False),
        (("ken",), ("aki", "ken"), "私の身長は百六十センチ", False),
        # With nobody known, all is one person.
        ((), ("aki",), "私の身長は百六十センチ", False),
        ((), (), "My car's plate is 1234", False),
        (("ken",), ("aki",), "My car's plate is 1234", True),
    ],
)
def test_two_known_people_are_two(mine: tuple[str, ...], theirs: tuple[str, ...], text: str, expected: bool) -> None:
    assert of_another(mine, theirs, text) is expected


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("母の誕生日はいつだっけ", "母の誕生日は六月九日"),
        ("この前のパソコン、いくらだったっけ", "富士通のパソコンを三万円で買った"),
        ("前に買ったやつ、いくらだっけ", "富士通のパソコンを三万円で買った"),
        ("弟は何歳だっけ", "姉は三十歳、弟は二十五歳だよ"),
        ("What is my cat called?", "My cat Lena moved in with us"),
        ("What did I pay for it?", "I bought a used Fujitsu desktop"),
        ("When is Anna's wedding?", "Anna's wedding is on June 5"),
        ("", "猫のタマ"),
    ],
)
def test_a_question_is_about_what_names_all_it_names(question: str, statement: str) -> None:
    assert asks_about(question, statement)


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("母の誕生日はいつだっけ", "姉の誕生日は六月九日"),
        ("弟は何歳", "姉は三十歳だよ"),
        ("父の痛み止めの薬は何錠だっけ", "母の血圧の薬は一日一錠だよ"),
        ("誕生日はいつだっけ", "姉の誕生日は六月九日"),
        ("マウスいくらだった", "富士通のパソコンを三万円で買った"),
        ("自転車いくらだった", "富士通のパソコンを三万円で買った"),
        ("How much was the paddle?", "I paid 640 dollars for the kayak"),
        ("What number is Bob's extension?", "Anna's phone extension is 4411."),
        ("When is my sister's wedding?", "My brother's wedding is on June 5"),
    ],
)
def test_of_another_person_or_thing_it_is_not(question: str, statement: str) -> None:
    assert not asks_about(question, statement)


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("この前手に入れたパソコン、いくらだったっけ", "富士通の中古のデスクトップを三万円で買ったよ。"),
        ("スマホいくらだっけ", "携帯を五万円で買った"),
        ("チャリはいくらだった？", "赤い自転車を三万円で買った"),
        ("自転車はいくらだった？", "電動自転車を十万円で買った"),
        ("車はいくら？", "赤い車を百万円で買った"),
        ("猫の体重は？", "猫の体重は四キロだよ"),
        ("How much was the couch?", "The two-seat sofa was 260 dollars."),
        ("How much was that computer I got the other day?", "I bought a used Fujitsu desktop for 300 dollars."),
        ("When is my dentist appointment?", "My dentist is on Friday."),
        ("What is the cat's weight?", "The cat's weight is 4 kg."),
    ],
)
def test_another_word_names_the_same_thing(question: str, statement: str) -> None:
    assert asks_about(question, statement)


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        *(
            ("車はいくらだった？", one)
            for one in ("自転車を三万円で買った", "電車は三百円だった", "車検は十万円だった")
        ),
        *(("猫の体重は？", one) for one in ("犬の体重は七キロだよ", "体重は七十キロだよ", "猫背の犬の体重は七キロ")),
        ("塾は何時だっけ", "ピアノ教室は五時だよ"),
        ("飲み会は何時だっけ", "忘年会は七時だよ"),
        ("忘年会は何時だっけ", "飲み会は七時だよ"),
        ("パンはいくらだった？", "フライパンは三千円だった"),
        ("テストは何点だっけ", "コンテストは八十点だったよ"),
        ("パソコンいくらだった？", "パソコンケースは三千円だった"),
        ("How much was the motorbike?", "I bought a bicycle for 300 dollars."),
        ("How much was the bike?", "I bought a motorbike for 3000 dollars."),
        ("How much was that van I got?", "I paid 9000 dollars for the truck."),
        ("How much was the freezer?", "The fridge was 400 dollars."),
        ("How much was the van?", "I paid 9000 dollars for the truck."),
        ("How much was the red bike?", "The red umbrella was 20 dollars."),
        ("What is the cat's weight?", "The dog's weight is 7 kg."),
        ("What is the weight of the cat?", "The dog's weight is 7 kg."),
        ("How much was the car?", "The carpet was 90 dollars."),
    ],
)
def test_another_thing_of_its_kind_or_whose_name_has_its_letters_is_another(question: str, statement: str) -> None:
    assert not asks_about(question, statement)


def test_statements_that_name_different_people_are_told_apart() -> None:
    assert not same_people("母の誕生日は三月三日", "姉の誕生日は六月九日")
    assert not same_people("Bob's extension is 5522", "Anna's extension is 4411")
    assert same_people("Tom lives in York", "Tom lives in Leeds")
    assert same_people("誕生日は三月三日", "姉の誕生日は六月九日")
