"""What says も of the same, and what is as long as a story, stays one matter."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.matters import matters

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("金曜に歯医者があるし、うちの猫も病院に行く", "金曜に歯医者があるし、うちの猫は病院に行く"),
        ("私は看護師だし、うちの猫も太ってる", "私は看護師だし、うちの猫は太ってる"),
        ("庭は広いし、うちの車も赤い", None),
    ],
)
def test_what_is_so_too_is_told_with_the_first(text: str, other: str | None) -> None:
    assert matters(text, MONDAY) == (text,)
    assert other is None or len(matters(other, MONDAY)) == 2


def test_a_story_is_not_cut() -> None:
    told = "金曜に歯医者があるんだ、あと赤い自転車を買ったよ。"
    assert len(matters(told, MONDAY)) == 2
    assert len(matters(told + "とても楽しかったよ。" * 60, MONDAY)) == 1
