"""Much is told of one's son: only what has the very thing that is to be forgotten goes without being asked about."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from server.memory.meant import RecentTurn, memory_thing
from server.memory.meant_words import head_word, wanted_words
from tests.memory.test_meant import decided, remembered
from tests.memory.test_memory_tools import memory

pytestmark = pytest.mark.unit

NOT_MEANT = [
    ("Forget my son's bedwetting", "My son is allergic to peanuts."),
    ("Please forget my husband's affair", "My husband is allergic to penicillin."),
    ("Forget about my son's girlfriend", "My son broke his arm."),
    ("Forget my daughter's name", "My daughter is allergic to peanuts."),
    ("Forget about Anna's divorce", "Anna takes insulin."),
    ("Forget the color of my sister's car", "My sister's car is parked at the hospital."),
    ("Forget that my son wets the bed", "My son broke the bed."),
    ("息子のおねしょのことは忘れて", "息子の血液型はAB型だよ。"),
    ("母の借金のことは忘れて", "母の血液型はO型だよ。"),
    ("娘のいたずらのことは忘れて", "娘の名前はさくらだよ。"),
    ("田中先生の冗談のことは忘れて", "田中先生に血圧の薬を一日一回飲むように言われた。"),
    ("娘の水ぼうそうのことは忘れて", "娘はピーナッツのアレルギーがある。"),
    ("息子のおもらしは忘れて", "息子の血液型はAB型だよ。"),
    ("娘の名前は忘れて", "娘はピーナッツのアレルギーがある。"),
    ("ミケの水ぼうそうは忘れて", "ミケの体重は四キロだった。"),
    ("妻のきのこの話は忘れて", "妻はペニシリンのアレルギーがある。"),
    ("母の血液型は忘れて", "血液型はO型だよ。"),
    ("息子のサッカー大会のことは忘れて", "息子のピアノの大会は五月だ。"),
    # One kanji is a thing, too, and nothing may have it.
    ("富士通のパソコンの箱は忘れて", "富士通のパソコンを三万円で買った。"),
    ("妻の携帯の色は忘れて", "妻の携帯は090-1234-5678だよ。"),
    ("京都の宿のことは忘れて", "田中さんと京都に行った。"),
    ("花子の嘘のことは忘れて", "花子と婚約した。"),
    ("妻の顔のことは忘れて", "妻の誕生日は五月五日だよ。"),
    ("自転車の鍵のことは忘れて", "自転車を買った。"),
    ("自転車の傘は忘れて", "自転車を買った。"),
    ("自転車鍵のことは忘れて", "自転車を買った。"),
    ("ミケの薬のことは忘れて", "ミケは三歳だよ。"),
    ("箱のことは忘れて", "パソコンを買った。"),
    ("Forget the box of the red bike", "I bought a red bike."),
    ("Forget the bike's key", "I bought a red bike."),
]
MEANT = [
    ("娘の水ぼうそうのことは忘れて", "娘は水ぼうそうにかかった。", "娘はピーナッツのアレルギーがある。"),
    ("娘のおたふくかぜのことは忘れて", "娘はおたふくかぜにかかった。", "娘はさくら組に入った。"),
    ("息子のおねしょのことは忘れて", "息子はおねしょをした。", "息子の血液型はAB型だよ。"),
    ("娘の名前は忘れて", "娘の名前はさくらだよ。", "娘はピーナッツのアレルギーがある。"),
    ("Forget my son's bedwetting", "My son's bedwetting got worse.", "My son is allergic to peanuts."),
    ("Forget my daughter's name", "My daughter's name is Nora.", "My daughter is allergic to peanuts."),
    ("Forget what I told you about my brother.", "My brother has a new job.", "My sister lives in Nara."),
    ("Remember Luna and forget the laptop", "I bought a laptop for 900 dollars.", "The cat Luna had surgery."),
    ("Forget the laptop but keep Luna", "I bought a laptop for 900 dollars.", "The cat Luna had surgery."),
    ("Keep my daughter's allergy but forget Mark", "I broke up with Mark.", "My daughter has an allergy."),
    ("Forget Mark, not my daughter's allergy", "I broke up with Mark.", "My daughter has an allergy."),
    ("ミケのことは覚えておいて、パソコンのことは忘れて", "パソコンを三万円で買った。", "ミケが注射を打った。"),
    ("ミケのことはそのままでパソコンのことは忘れて", "パソコンを三万円で買った。", "ミケが注射を打った。"),
    ("ミケじゃなくてパソコンのことを忘れて", "パソコンを三万円で買った。", "ミケが注射を打った。"),
    ("パソコンの箱は忘れて", "パソコンの箱を捨てた。", "ミケが注射を打った。"),
    ("花子の嘘のことは忘れて", "花子の嘘がばれた。", "ミケが注射を打った。"),
    ("嘘のことは忘れて", "昨日嘘をついた。", "ミケが注射を打った。"),
    ("京都の宿に泊まったことは忘れて", "京都の宿に泊まった。", "ミケが注射を打った。"),
    ("自転車の鍵のことは忘れて", "自転車の鍵をなくした。", "ミケが注射を打った。"),
    ("娘のアレルギーは大事だけど、マルクのことは忘れて", "マルクと別れた。", "娘はピーナッツのアレルギーがある。"),
]


@pytest.mark.parametrize(("words", "other"), NOT_MEANT)
def test_what_is_only_of_the_same_person_is_never_certain(words: str, other: str) -> None:
    for near in ((), (other,)):
        certain, perhaps, left = decided(words, remembered(other, near=near))
        assert certain == []
        assert set(perhaps) | set(left) <= {other}


@pytest.mark.parametrize(
    ("words", "other"),
    [one for one in NOT_MEANT if one[0].startswith(("息子のお", "母の借", "娘の", "Forget my son's"))],
)
def test_where_nothing_is_near_the_thing_nothing_is_found(words: str, other: str) -> None:
    assert decided(words, remembered(other)) == ([], [], [])


@pytest.mark.parametrize(("words", "other"), NOT_MEANT)
def test_having_just_spoken_of_the_person_makes_it_no_more_certain(words: str, other: str) -> None:
    turn = RecentTurn(other, "うん。", told=tuple(remembered(other)))
    assert decided(words, remembered(other), turn)[0] == []


@pytest.mark.parametrize(("words", "meant", "other"), MEANT)
def test_the_very_thing_goes_and_what_is_kept_is_no_part_of_it(words: str, meant: str, other: str) -> None:
    for pool in (remembered(meant, other), remembered(other, meant)):
        certain, perhaps, _ = decided(words, pool)
        assert (certain, perhaps) == ([meant], [])


@pytest.mark.parametrize(
    ("words", "pair"),
    [
        ("Forget my bank number", ["My bank is Acme.", "My number is 4821."]),
        ("銀行の番号は忘れて", ["銀行はみどり銀行だよ。", "番号は4821だよ。"]),
    ],
)
def test_a_number_that_was_told_apart_from_what_it_is_of_is_asked_about(words: str, pair: list[str]) -> None:
    certain, perhaps, _ = decided(words, remembered(*pair))
    assert certain == []
    assert sorted(perhaps) == sorted(pair)


@pytest.mark.parametrize(
    ("words", "wanted", "head"),
    [
        ("娘の水ぼうそうのことは忘れて", ["娘", "水ぼうそう"], "水ぼうそう"),
        ("母の借金は忘れて", ["母", "借金"], "借金"),
        ("パソコンの箱は忘れて", ["ぱそこん", "箱"], "箱"),
        ("宿のことは忘れて", ["宿"], "宿"),
        ("その話は忘れて", [], None),
        ("ミケのことは覚えておいて、パソコンのことは忘れて", ["ぱそこん"], "ぱそこん"),
        ("Remember Luna and forget the laptop", ["laptop"], "laptop"),
        ("Forget the color of my sister's hat", ["color", "sister", "hat"], "hat"),
        ("Forget my son's name.", ["son", "nam"], "nam"),
        ("それ忘れて", [], None),
    ],
)
def test_the_head_of_a_request(words: str, wanted: Sequence[str], head: str | None) -> None:
    assert list(wanted_words(words)) == wanted
    assert head_word(words) == head


ALLERGY = memory(1, "娘はピーナッツのアレルギーがある。", entities=("娘", "ピーナッツ", "アレルギー"))
MARK = memory(2, "マルクと別れた。", entities=("マルク",))
PEANUTS = memory(3, "My daughter is allergic to peanuts.", entities=("daughter",))
BROKE_UP = memory(4, "I broke up with Mark.", entities=("Mark",))


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("user", "robot", "shown", "request_words"),
    [
        ("マルクとはどうなったっけ", "別れたよ。娘さんのアレルギーは大丈夫？", (MARK, ALLERGY), "それは忘れて"),
        ("マルクとはどうなったっけ", "別れたよ。娘さんのアレルギーに気をつけてね。", (MARK, ALLERGY), "今の話は忘れて"),
        (
            "What happened with Mark?",
            "You broke up. How is your daughter's peanuts allergy?",
            (BROKE_UP, PEANUTS),
            "Forget that.",
        ),
        ("What happened with Mark?", "Your daughter is allergic to peanuts.", (BROKE_UP, PEANUTS), "Forget it."),
    ],
)
def test_that_is_what_the_user_spoke_of_whatever_the_robot_has_added(
    user: str, robot: str, shown: tuple[object, ...], request_words: str, order: int
) -> None:
    turn = RecentTurn(user, robot, shown=tuple(shown[::order]), asked=True)  # type: ignore[arg-type]
    assert decided(request_words, [], turn) == ([shown[0].summary], [], [])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("user", "robot", "shown", "request_words"),
    [
        ("マルクとはどうなったっけ", "娘さんのアレルギーに気をつけてね。", ALLERGY, "それは忘れて"),
        ("What happened with Mark?", "Your daughter is allergic to peanuts.", PEANUTS, "Forget that."),
    ],
)
def test_what_only_the_robot_spoke_of_is_asked_about(user: str, robot: str, shown: object, request_words: str) -> None:
    turn = RecentTurn(user, robot, shown=(shown,), asked=True)  # type: ignore[arg-type]
    certain, perhaps, _ = decided(request_words, [memory_thing(shown)], turn)  # type: ignore[arg-type]
    assert certain == []
    assert len(perhaps) == 1
