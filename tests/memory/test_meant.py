"""What a request to forget means, by words alone: what goes, what is asked about, what is told as left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from server.memory.meant import RecentTurn, Thing, meant, memory_thing, request_of, turn_thing
from server.memory.meant_words import wanted_words
from tests.memory.test_memory_tools import NOON, memory

pytestmark = pytest.mark.unit


def remembered(*summaries: str, near: Sequence[str] = ()) -> list[Thing]:
    return [
        memory_thing(memory(place, summary, topic="", entities=()), near=summary in near)
        for place, summary in enumerate(summaries, start=1)
    ]


def told(things: Sequence[Thing]) -> list[str]:
    return [one.text.split("\n")[0] for one in things]


def decided(request: str, pool: Sequence[Thing], *recent: RecentTurn) -> tuple[list[str], list[str], list[str]]:
    """Certain, perhaps, left."""
    found = meant(request_of(request, wanted_words(request), NOON.date()), pool, recent)
    return told(found.certain), told(found.perhaps), told(found.left)


@pytest.mark.parametrize(
    ("request_words", "wanted"),
    [
        ("そのパソコンのことは忘れて", ["ぱそこん"]),
        ("引っ越しの話は忘れて", ["引っ越"]),
        ("もう忘れていいよ、さっきの住所", ["住所"]),
        ("仕事は忘れて", ["仕事"]),
        ("みけのことは全部忘れて", ["みけ"]),
        ("パソコンじゃなくてスマホの話を忘れて", ["すまほ"]),
        ("それ忘れて", []),
        ("俺が言ったことは忘れて", []),
        ("ﾊﾟｿｺﾝのことは忘れて", ["ぱそこん"]),
        ("Forget about my cars.", ["car"]),
        ("Please forget what I told you about my work", ["work"]),
        ("Forget about the phone, not the laptop.", ["phon"]),
        ("forget it", []),
        ("Just forget what I said.", []),
        ("", []),
        ("🙂", []),
    ],
)
def test_what_a_request_names(request_words: str, wanted: list[str]) -> None:
    assert list(wanted_words(request_words)) == wanted


def test_a_question_about_a_thing_is_not_the_thing() -> None:
    desktop, question = "富士通のデスクトップを三万円で買った。", "うちのパソコンの値段、覚えてる？"
    assert decided("パソコンのことは忘れて", remembered(question, desktop, near=[desktop])) == (
        [question],
        [desktop],
        [],
    )


def test_what_is_near_by_another_word_is_told_as_left() -> None:
    slow, desktop, cat = "My computer is slow.", "I bought a Dell desktop.", "The cat sleeps."
    assert decided("Forget about my computer.", remembered(slow, desktop, cat, near=[desktop])) == (
        [slow],
        [],
        [desktop],
    )


def test_more_than_three_go_only_when_all_is_asked_for() -> None:
    said = [f"会社の{what}が変わった。" for what in ("食堂", "机", "制服", "看板")]
    assert decided("会社のことは忘れて", remembered(*said)) == ([], said, [])
    assert decided("会社のことは全部忘れて", remembered(*said)) == (said, [], [])


@pytest.mark.parametrize(
    ("request_words", "mine", "other"),
    [
        ("田中さんの電話番号は忘れて", "田中さんの電話番号は0000-1111だ。", "佐藤さんの電話番号は0000-2222だ。"),
        ("妻の誕生日は忘れて", "妻の誕生日は五月三日だ。", "僕の誕生日は九月十日だ。"),
        ("Forget Anna's phone number.", "Anna's phone number is 0000.", "Ben's phone number is 1111."),
        ("Forget my laptop.", "My laptop is slow.", "My sister's laptop is new."),
        ("パソコンの値段は忘れて", "パソコンを三万円で買った。", "パソコンの音がうるさい。"),
        ("Forget the price of the bike.", "The bike was 300 dollars.", "The bike is red."),
        ("新しい車のことは忘れて", "新しい車を買った。", "古い車を売った。"),
    ],
)
def test_what_is_of_somebody_else_or_another_side_of_it_stays(request_words: str, mine: str, other: str) -> None:
    for pool in (remembered(mine, other), remembered(other, mine)):
        certain, perhaps, left = decided(request_words, pool)
        assert (certain, perhaps) == ([mine], [])
        assert set(left) <= {other}


def test_that_points_at_what_the_answer_was_made_from() -> None:
    weight, cat = memory(1, "ミケの体重は四キロだ。", entities=("ミケ",)), memory(2, "猫の餌を買った。", entities=())
    turn = RecentTurn("ミケの体重は？", "四キロだよ。", shown=(cat, weight), asked=True)
    assert decided("それ忘れて", [], turn) == ([weight.summary], [], [])
    assert decided("それ忘れて", []) == ([], [], [])


def test_who_has_told_something_points_at_that_and_at_what_corrects_it() -> None:
    bought, wrong = turn_thing(5, "自転車を二万円で買った"), turn_thing(6, "違う、三万円だよ")
    recent = (
        RecentTurn("自転車を二万円で買った", "いいね。", told=(bought,)),
        RecentTurn("違う、三万円だよ", "三万円だね。", told=(wrong,), corrects=True),
    )
    for words in ("今の話は忘れて", "自転車のことは忘れて"):
        assert decided(words, [], *recent) == ([bought.text, wrong.text], [], [])


def test_what_came_up_beside_it_is_asked_about_when_nothing_says_that_it_is_the_same() -> None:
    cat = memory(1, "ミケを病院に連れていった。", entities=("ミケ",))
    turn = RecentTurn("パソコンでミケの写真を見てる", "ミケは病院に行ったね。", shown=(cat,))
    assert decided("パソコンのことは忘れて", [], turn) == ([], [cat.summary], [])


def test_two_people_in_one_house() -> None:
    mine, other = remembered("パソコンが重い。", "パソコンに水をこぼした。")
    other = replace(other, of_others=True)
    assert decided("パソコンのことは忘れて", [other, mine]) == (["パソコンが重い。"], [], ["パソコンに水をこぼした。"])
    assert decided("パソコンのことは忘れて", [other])[0] == []
