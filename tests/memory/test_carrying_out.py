"""A correction in a whole sentence leaves one memory that has the right value and not the wrong one."""

from __future__ import annotations

import datetime as dt

import pytest

from server.memory.prompts import SpokenExchange
from server.memory.quoting import quoted

pytestmark = pytest.mark.unit
MONDAY = dt.date(2026, 11, 30)


def told(*words: str) -> list[str]:
    language = "en" if words[0].isascii() else "ja"
    drafts = quoted([SpokenExchange(text, "OK.", MONDAY) for text in words], language)
    return [draft.summary for draft in drafts]


@pytest.mark.parametrize(
    ("first", "correction", "summary"),
    [
        ("I bought a red bike.", "Actually the bike was blue.", "I bought a blue bike."),
        ("I bought a red bike.", "No, it was green.", "I bought a green bike."),
        ("I paid 300 dollars for the bike.", "Actually the bike was 250 dollars.", "I paid 250 dollars for the bike."),
        ("My dentist is on Friday.", "Actually my dentist is on Thursday.", "My dentist is on Thursday."),
        ("赤い自転車を買ったよ", "本当は自転車は青だった", "青い自転車を買ったよ。"),
        ("赤い自転車を買ったよ", "違う、自転車は緑だった", "緑の自転車を買ったよ。"),
        ("自転車を三万円で買ったよ", "違う、自転車は二万円だった", "自転車を二万円で買ったよ。"),
    ],
)
def test_what_is_put_right_stands_alone(first: str, correction: str, summary: str) -> None:
    assert told(first, correction) == [summary]


@pytest.mark.parametrize(
    ("first", "correction"),
    [
        ("I bought a red bike.", "Actually my helmet was blue."),
        ("I bought a red bike and a green tent.", "Actually the bike was blue."),
        ("赤い自転車を買ったよ", "本当はヘルメットは青だった"),
    ],
)
def test_what_is_said_of_another_thing_or_may_mean_either_changes_nothing(first: str, correction: str) -> None:
    assert first.rstrip(".") in " ".join(told(first, correction))
