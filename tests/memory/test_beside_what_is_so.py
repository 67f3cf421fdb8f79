"""What was once, is wished for, supposed, heard or said in jest replaces nothing; what is so now does."""

from __future__ import annotations

import pytest

from server.memory.contradiction import NARROW_COSINES, Decision, Proposal, decide
from tests.memory.test_contradiction import name_of, new, old

pytestmark = pytest.mark.unit
WEIGHT, RENT = ("体重は70キロだよ。", "体重"), ("家賃は8万円だよ。", "家賃")
ENGLISH = ("My rent is 800 dollars.", "rent")


def decided(before: str, after: str, *names: str, corrects: bool = False) -> Decision:
    language = "en" if before.isascii() else "ja"
    stored = old(1, before, *names, language=language)
    return decide(Proposal(new(after, *names, language=language), corrects), [(stored, 0.99)], NARROW_COSINES)


@pytest.mark.parametrize("corrects", [False, True])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(
            (WEIGHT, said)
            for said in ("体重は60キロにしたい。", "十年前は体重が60キロだった。", "去年の体重は60キロだった。")
        ),
        *(
            (WEIGHT, said)
            for said in ("体重の目標は60キロ。", "昔は体重が60キロだった。", "体重は60キロだったらいいな。")
        ),
        *(
            (RENT, said)
            for said in ("家賃は6万円だったらいいのに。", "家賃は6万円がいい。", "前は家賃が6万円だったんだ。")
        ),
        *(
            (RENT, said)
            for said in ("家賃は9万円だって言われた。", "家賃は9万円だと思ってた。", "家賃は百万円だよ、なんてね。")
        ),
        (("貯金は100万円だよ。", "貯金"), "貯金は200万円ほしい。"),
        (("子供は二人だよ。", "子供"), "子供は三人ほしい。"),
        (("面接は六月八日だよ。", "面接"), "面接は六月七日だったらよかったのに。"),
        *((ENGLISH, f"My rent {said}.") for said in ("was 500 dollars in 2010", "used to be 500 dollars")),
        *((ENGLISH, f"My rent {said}.") for said in ("was 500 dollars back then", "was 500 dollars last year")),
        *((ENGLISH, f"{said} 500 dollars.") for said in ("I want my rent to be", "I thought my rent was")),
        *((ENGLISH, f"{said} 500 dollars.") for said in ("I wish my rent was", "My target rent is")),
    ],
)
def test_what_is_not_so_now_stands_beside_what_is(before: tuple[str, str], after: str, *, corrects: bool) -> None:
    assert decided(*before[:1], after, before[1], corrects=corrects).supersedes == ()


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("去年の体重は60キロだった。", "体重は70キロだよ。", "体重"),
        ("家賃は6万円がいい。", "家賃は8万円だよ。", "家賃"),
        ("My rent was 500 dollars in 2010.", "My rent is 800 dollars.", "rent"),
    ],
)
def test_nor_is_it_replaced_by_what_is_so(before: str, after: str, name: str) -> None:
    assert decided(before, after, name).supersedes == ()


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("体重は70キロだよ。", "体重は68キロになったよ。", "体重"),
        ("体重は70キロだよ。", "体重は68キロなんだよね。", "体重"),
        ("家賃は8万円だよ。", "家賃は9万円だよ。", "家賃"),
        ("My rent is 800 dollars.", "My rent is 900 dollars now.", "rent"),
    ],
)
def test_what_is_so_now_replaces_what_was_said_to_be(before: str, after: str, name: str) -> None:
    assert decided(before, after, name).supersedes == (name_of(1),)


def test_what_was_once_is_corrected_as_what_was_once() -> None:
    assert decided("去年の体重は60キロだった。", "去年の体重は62キロだった。", "体重").supersedes == (name_of(1),)
    assert decided("My rent was 500 dollars in 2010.", "My rent was 550 dollars in 2010.", "rent").supersedes
