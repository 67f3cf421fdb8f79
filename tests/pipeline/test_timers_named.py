"""Timers listed and ended as tools: what each kind of model's call does, and what the words say."""

from __future__ import annotations

from typing import Any

import pytest

from server.context.deed_replies import NO_SUCH, TAKEN_BACK
from server.errors import RequestError
from tests.pipeline.kept_timers import LARGE, SMALL, Kept, asker, tools

pytestmark = pytest.mark.unit


async def kept_three() -> Kept:
    kept = Kept()
    for seconds, label in ((180, "ラーメン"), (600, ""), (3600, "")):
        await kept.set("desk", seconds, label, "ja")
    await kept.set("kitchen", 60, "", "ja")
    return kept


async def test_timers_of_this_device_are_listed_with_what_is_left() -> None:
    told = await tools(await kept_three())["list_timers"].run({}, asker("…"))
    assert told["timers"][0] == {"length": "3分", "left": "3分", "label": "ラーメン", "timer_id": 1}
    assert [timer["timer_id"] for timer in told["timers"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "gone"),
    [
        ({"timer_id": 2}, {2}),
        ({"label": "ラーメン"}, {1}),
        ({"all": True}, {1, 2, 3}),
        ({}, set()),
        ({"timer_id": 4}, set()),
        ({"label": "うどん"}, set()),
        ({"label": "うどん", "all": True}, set()),
        ({"label": "ラーメン", "all": True}, {1}),
        ({"label": "ラーメン", "timer_id": 2}, set()),
    ],
)
async def test_a_large_model_cancels_what_it_names(arguments: dict[str, Any], gone: set[int]) -> None:
    kept = await kept_three()
    told = await tools(kept)["cancel_timer"].run(arguments, asker("…"))
    assert {1, 2, 3, 4} - {timer.timer_id for timer in kept.there} == gone
    assert ("which" in told) is not bool(gone)


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("ラーメンのタイマーを止めて", {1}),
        ("10分のタイマーをキャンセルして", {2}),
        ("タイマーを全部消して", {1, 2, 3}),
        ("タイマーを止めて", set()),
        ("cancel the 60 minute timer", {3}),
        ("cancel all timers", {1, 2, 3}),
    ],
)
async def test_for_a_small_model_the_words_say_which(words: str, gone: set[int]) -> None:
    kept = await kept_three()
    await tools(kept, SMALL)["cancel_timer"].run({}, asker(words))
    assert {1, 2, 3, 4} - {timer.timer_id for timer in kept.there} == gone


@pytest.mark.parametrize(
    "arguments", [{"timer_id": "2"}, {"timer_id": True}, {"timer_id": 1.0}, {"label": 5}, {"all": "true"}, {"all": 1}]
)
async def test_a_name_that_is_none_is_refused(arguments: dict[str, Any]) -> None:
    kept = Kept()
    await kept.set("desk", 60, "", "ja")
    with pytest.raises(RequestError):
        await tools(kept)["cancel_timer"].run(arguments, asker("…"))
    assert len(kept.there) == 1


@pytest.mark.parametrize("capabilities", [SMALL, LARGE])
@pytest.mark.parametrize("words", ["7分のタイマーを止めて", "お風呂のタイマーを止めて", "cancel the steak timer"])
async def test_what_does_not_run_is_said_and_the_only_one_goes_on(words: str, capabilities: Any) -> None:
    kept = Kept()
    await kept.set("desk", 180, "ラーメン", "ja")
    told = await tools(kept, capabilities)["cancel_timer"].run({}, asker(words))
    assert told == {"cancelled": [], "which": ["ラーメン"], "note": NO_SUCH}
    assert len(kept.there) == 1


async def test_a_large_model_does_not_end_all_where_the_user_names_one() -> None:
    for words, ends in (("10分のタイマーを止めて", False), ("タイマー全部止めて", True), ("うん、お願い", True)):
        kept = await kept_three()
        call = tools(kept)["cancel_timer"].run({"all": True}, asker(words))
        if ends:
            assert len((await call)["cancelled"]) == 3
            continue
        with pytest.raises(RequestError):
            await call
        assert len(kept.there) == 4


@pytest.mark.parametrize("capabilities", [SMALL, LARGE])
@pytest.mark.parametrize(
    "words", ["3分タイマーかけて。やっぱりやめて", "set a timer for 3 minutes, no wait, cancel it"]
)
async def test_what_is_taken_back_is_not_set(words: str, capabilities: Any) -> None:
    kept = Kept()
    told = await tools(kept, capabilities)["set_timer"].run({"minutes": 3}, asker(words))
    assert told == {"timer_set": False, "note": TAKEN_BACK}
    assert kept.there == []


@pytest.mark.parametrize("capabilities", [SMALL, LARGE])
@pytest.mark.parametrize("words", ["タイマーを止めて。やっぱりいい", "cancel the timer, no wait, never mind"])
async def test_what_is_taken_back_is_not_ended(words: str, capabilities: Any) -> None:
    kept = Kept()
    await kept.set("desk", 60, "", "ja")
    told = await tools(kept, capabilities)["cancel_timer"].run({}, asker(words))
    assert told == {"cancelled": [], "note": TAKEN_BACK}
    assert len(kept.there) == 1


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("5分タイマーかけて、やっぱり10分", [600]),
        ("set a timer for 5 minutes, actually make it 10", [600]),
        ("set a timer for two and a half minutes", [150]),
        ("set a timer for a quarter of an hour", [900]),
        ("set a timer for minus five minutes", []),
        ("マイナス5分のタイマー", []),
    ],
)
async def test_a_small_model_sets_what_was_said_last_and_nothing_negative(words: str, seconds: list[int]) -> None:
    kept = Kept()
    await tools(kept, SMALL)["set_timer"].run({}, asker(words))
    assert [timer.duration_seconds for timer in kept.there] == seconds


async def test_the_only_timer_is_meant_and_none_is_said() -> None:
    kept = Kept()
    assert (await tools(kept)["cancel_timer"].run({}, asker("…")))["note"] == "no timer runs"
    await kept.set("desk", 60, "", "ja")
    assert await tools(kept)["cancel_timer"].run({}, asker("…")) == {"cancelled": ["1分"]}
    assert kept.there == []
