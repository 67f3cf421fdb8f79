"""What an answer to "which one?" means."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.choosing import chosen
from server.memory.meant import memory_thing
from tests.memory.test_memory_tools import NOON, memory

pytestmark = pytest.mark.unit

JAPANESE = [
    memory_thing(memory(place, summary, topic="", entities=(), occurred_at=NOON + dt.timedelta(days=day)))
    for place, (summary, day) in enumerate(
        [
            ("富士通のデスクトップを三万円で買った。", 2),
            ("会社のノートパソコンが壊れた。", 3),
            ("姉のマックは白い。", 1),
        ],
        1,
    )
]
ENGLISH = [
    memory_thing(memory(place, summary, topic="", entities=(), occurred_at=NOON + dt.timedelta(days=day)))
    for place, (summary, day) in enumerate([("I sold my old desktop.", 1), ("My laptop is a ThinkPad.", 2)], 1)
]


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("全部", [0, 1, 2]),
        ("どれも忘れて", [0, 1, 2]),
        ("三つとも", [0, 1, 2]),
        ("みんなお願い", [0, 1, 2]),
        ("デスクトップのほう", [0]),
        ("でっかいデスクトップのやつだよ", [0]),
        ("二つ目", [1]),
        ("2番目のやつ", [1]),
        ("一つ目と三つ目", [0, 2]),
        ("最後の", [2]),
        ("会社のとマック", [1, 2]),
        ("一番新しいの", [1]),
        ("古いほう", [2]),
        ("どれでもない", []),
        ("やっぱりやめて", []),
        ("忘れないで", []),
        ("会社のだけ残して", None),
        ("うん", None),
        ("きょうは寒いね", None),
        ("", None),
        ("…？", None),
    ],
)
def test_japanese_answers(answer: str, places: list[int] | None) -> None:
    wanted = None if places is None else tuple(JAPANESE[place] for place in places)
    assert chosen(answer, JAPANESE) == wanted


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("Both.", [0, 1]),
        ("all of them", [0, 1]),
        ("Everything, please!", [0, 1]),
        ("the desktop one", [0]),
        ("THE LAPTOP", [1]),
        ("the first", [0]),
        ("number two", [1]),
        ("the last one", [1]),
        ("the old one", [0]),
        ("the newer one", [1]),
        ("not the laptop", [0]),
        ("Never mind.", []),
        ("none of them", []),
        ("No.", []),
        ("keep the laptop", None),
        ("yes", None),
        ("What time is it?", None),
    ],
)
def test_english_answers(answer: str, places: list[int] | None) -> None:
    wanted = None if places is None else tuple(ENGLISH[place] for place in places)
    assert chosen(answer, ENGLISH) == wanted


def test_yes_chooses_the_only_one_and_places_count_what_was_told() -> None:
    assert chosen("うん", JAPANESE[:1]) == (JAPANESE[0],)
    assert chosen("Yes, please.", ENGLISH[:1]) == (ENGLISH[0],)
    assert chosen("三つ目", JAPANESE, 2) is None
    assert chosen("全部", JAPANESE, 2) == tuple(JAPANESE)
    assert chosen("全部", []) is None
