"""The clock and timers as tools: what each kind of model is offered, and what its calls do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from server.context.deed_replies import CANNOT_RING
from server.context.prompts import stable_prefix
from server.engines.base import LlmDone, LlmToolCall
from server.errors import RequestError
from server.memory.tools import FORGET_MEMORY_SHORT, READ_MEMORY_SOURCE_SHORT, SEARCH_MEMORY
from server.pipeline.request import TurnRequest
from server.pipeline.thinking import Thinker
from server.pipeline.time_tools import stable_specs, time_tools
from tests.fakes.engines import FakeLlm, answer
from tests.pipeline.kept_timers import LARGE, NOW, PERSONA, SMALL, Kept, asker, tools
from tests.pipeline.turns import SETTINGS, TURN, play_turn

pytestmark = pytest.mark.unit


def test_the_prompt_that_a_small_model_has_read_is_the_same_to_the_byte() -> None:
    memory = (SEARCH_MEMORY, READ_MEMORY_SOURCE_SHORT, FORGET_MEMORY_SHORT)
    before = stable_prefix(PERSONA, SMALL, memory)
    assert stable_prefix(PERSONA, SMALL, (*memory, *stable_specs(SMALL))) == before
    given = [type("Given", (), {"spec": spec})() for spec in memory]
    thinker = Thinker(FakeLlm(), PERSONA, SETTINGS, (*given, *tools(Kept(), SMALL).values()))
    assert stable_prefix(PERSONA, SMALL, thinker._tool_specs()) == before


@pytest.mark.parametrize("native", [True, False])
def test_a_large_model_is_told_of_all_at_once(native: bool) -> None:
    capabilities = replace(LARGE, native_tools=native)
    names = ["get_time", "set_timer", "list_timers", "cancel_timer"]
    assert list(tools(Kept(), capabilities)) == names
    assert [spec.name for spec in stable_specs(capabilities)] == names
    told = stable_prefix(PERSONA, capabilities, stable_specs(capabilities))[0].content
    assert all(name in told for name in names) is not native


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("3分タイマー", ["set_timer"]),
        ("remind me in 10 minutes to call mom", ["set_timer"]),
        ("タイマーはあと何分？", ["list_timers"]),
        ("cancel the timer", ["cancel_timer"]),
        ("今何時？", []),
        ("昨日は8時間寝たよ", []),
        ("I set a timer yesterday", []),
    ],
)
async def test_a_small_model_is_offered_what_the_words_ask_for(words: str, offered: list[str]) -> None:
    small = tools(Kept(), SMALL).values()
    assert [tool.spec.name for tool in small if await tool.offer(asker(words)) is not None] == offered
    assert all([await tool.offer(asker(words)) == 0.0 for tool in tools(Kept()).values()])


async def test_without_a_device_there_is_nothing_that_could_ring() -> None:
    assert await tools(Kept())["set_timer"].offer(asker("3分タイマー", device_id="")) is None


@pytest.mark.parametrize(
    ("language", "now"),
    [("ja", "今は2026年11月30日 月曜日 15時3分。"), ("en", "It is Monday, November 30, 2026, 15:03.")],
)
async def test_the_clock_speaks_as_the_prompts_clock_does(language: str, now: str) -> None:
    told = await tools(Kept())["get_time"].run({}, asker("今何時？", language))
    assert told == {
        "now": now,
        "time": "15:03",
        "date": "2026-11-30",
        "weekday": "Monday",
        "zone": "Asia/Tokyo",
    }


def turn_of(kept: Kept, words: str, call: str) -> tuple[FakeLlm, str]:
    """The model of a turn in which it makes this call, and what was said."""
    llm = FakeLlm(scripts=[[LlmToolCall(call, {}), LlmDone("tool_calls")], answer()])
    given = tuple(tools(kept, SMALL).values())
    played = play_turn(TurnRequest("desk", text=words), llm=llm, tools=given, turn=replace(TURN, started_at=NOW))
    assert played.result.outcome == "ok"
    return llm, played.result.reply


def test_a_small_model_sets_a_timer_of_the_length_and_label_that_were_said() -> None:
    kept = Kept()
    llm, said = turn_of(kept, "ラーメンのタイマーを3分でお願い", "set_timer")
    assert [(timer.duration_seconds, timer.label, timer.device_id) for timer in kept.there] == [
        (180, "ラーメン", "desk")
    ]
    first = llm.requests[0]
    assert [tool.name for tool in first.tools] == ["set_timer"]
    # It is told of the tool beside the words.
    assert '"set_timer"' in first.messages[-2].content
    assert first.messages[-1].content == "ラーメンのタイマーを3分でお願い"
    assert said == "3分たったら「ラーメン」って知らせるね。"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("タイマーをセットして", "どのくらいの長さか、何時か教えて。"),
        ("5分と10分のタイマーかけて", "タイマーは一つずつお願いね。"),
        ("7時と8時に起こして", "タイマーは一つずつお願いね。"),
        ("来週の月曜の7時に起こして", "7日以内の日と時間を教えて。"),
        ("set an alarm for 7 am next week", "Please tell me a day and a time within the next 7 days."),
    ],
)
def test_what_is_not_clear_is_asked(words: str, asked: str) -> None:
    kept = Kept()
    assert turn_of(kept, words, "set_timer")[1] == asked
    assert kept.there == []


def test_a_small_model_says_what_it_set_what_is_left_and_what_it_ended() -> None:
    kept = Kept()
    assert turn_of(kept, "タイマーはあと何分？", "list_timers")[1] == "今、動いているタイマーはないよ。"
    assert turn_of(kept, "3分のタイマーをかけて", "set_timer")[1] == "3分のタイマーをかけたよ。"
    assert turn_of(kept, "タイマーはあと何分？", "list_timers")[1] == "あと3分だよ。"
    assert turn_of(kept, "7時に起こして", "set_timer")[1] == "明日の7時に起こすね。"
    assert turn_of(kept, "タイマーを止めて", "cancel_timer")[1] == "どのタイマーのこと？3分と明日の7時があるよ。"
    assert len(kept.there) == 2
    assert turn_of(kept, "3分のタイマーを止めて", "cancel_timer")[1] == "3分のタイマーを止めたよ。"
    assert turn_of(kept, "タイマーを止めて", "cancel_timer")[1] == "明日の7時のタイマーを止めたよ。"
    assert kept.there == []
    assert turn_of(kept, "タイマーをセットして", "set_timer")[1] == "どのくらいの長さか、何時か教えて。"


async def test_a_timer_counts_from_when_it_was_said() -> None:
    for capabilities, words in ((SMALL, "10分タイマー"), (LARGE, "…")):
        kept = Kept()
        said_at = NOW - timedelta(seconds=8)
        await tools(kept, capabilities)["set_timer"].run({"minutes": 10}, replace(asker(words), asked_at=said_at))
        assert kept.there[0].due_at == said_at + timedelta(minutes=10)


@pytest.mark.parametrize("capabilities", [SMALL, LARGE])
@pytest.mark.parametrize("words", ["3分タイマー", "7時に起こして"])
async def test_a_device_that_cannot_ring_is_promised_nothing(capabilities: Any, words: str) -> None:
    kept = Kept()
    told = await tools(kept, capabilities)["set_timer"].run({"minutes": 3}, asker(words, device_id="cli"))
    assert told == {"timer_set": False, "note": CANNOT_RING}
    assert kept.there == []


def test_other_words_are_asked_as_before() -> None:
    given = tuple(tools(Kept(), SMALL).values())
    with_tools, without = FakeLlm(), FakeLlm()
    play_turn(TurnRequest("desk", text="3時間寝た"), llm=with_tools, tools=given)
    play_turn(TurnRequest("desk", text="3時間寝た"), llm=without)
    assert with_tools.requests == without.requests


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ({"seconds": 90}, 90),
        ({"minutes": 1.5}, 90),
        ({"minutes": 1, "seconds": 30}, 90),
        ({"minutes": 0, "seconds": 5}, 5),
    ],
)
async def test_a_large_model_gives_the_length(arguments: dict[str, Any], seconds: int) -> None:
    kept = Kept()
    told = await tools(kept)["set_timer"].run({**arguments, "label": "tea"}, asker("…", "en"))
    assert kept.there[0].duration_seconds == seconds
    assert told["timer_id"] == 1
    assert kept.there[0].label == "tea"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"seconds": 0},
        {"seconds": -1},
        {"seconds": "5"},
        {"seconds": True},
        {"minutes": 1e9},
        {"minutes": float("nan")},
        {"minutes": 10_080, "seconds": 604_800},
        {"minutes": -5},
        {"minutes": 5, "label": 5},
    ],
)
async def test_a_length_that_is_none_is_refused(arguments: dict[str, Any]) -> None:
    kept = Kept()
    with pytest.raises(RequestError):
        await tools(kept)["set_timer"].run(arguments, asker("…"))
    assert kept.there == []


# It is 15:03 on a Monday in Tokyo.
@pytest.mark.parametrize(
    ("words", "due", "label", "told"),
    [
        ("7時半に起こして", datetime(2026, 11, 30, 22, 30, tzinfo=UTC), "", "明日の7時半"),
        ("今日の5時に薬を飲むって教えて", datetime(2026, 11, 30, 8, 0, tzinfo=UTC), "薬を飲む", "今日の17時"),
    ],
)
def test_a_small_model_sets_an_alarm_for_the_time_that_was_said(
    words: str, due: datetime, label: str, told: str
) -> None:
    kept = Kept()
    _, said = turn_of(kept, words, "set_timer")
    assert [(timer.due_at, timer.label, timer.zone) for timer in kept.there] == [(due, label, "Asia/Tokyo")]
    assert said.startswith(f"{told}に")


@pytest.mark.parametrize(
    ("at", "due"),
    [
        ("2026-12-01T07:30", datetime(2026, 11, 30, 22, 30, tzinfo=UTC)),
        ("2026-12-01 07:30", datetime(2026, 11, 30, 22, 30, tzinfo=UTC)),
        ("07:30", datetime(2026, 11, 30, 22, 30, tzinfo=UTC)),
        ("16:00", datetime(2026, 11, 30, 7, 0, tzinfo=UTC)),
        ("2026-12-01T00:00:00Z", datetime(2026, 12, 1, tzinfo=UTC)),
    ],
)
async def test_a_large_model_gives_a_time(at: str, due: datetime) -> None:
    kept = Kept()
    told = await tools(kept)["set_timer"].run({"at": at}, asker("…", "en"))
    assert (kept.there[0].due_at, kept.there[0].zone) == (due, "Asia/Tokyo")
    assert ("AM" in told["at"]) or ("PM" in told["at"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"at": "7 o'clock"},
        {"at": 730},
        {"at": "2026-11-30T15:03"},
        {"at": "2026-12-24T07:00"},
        {"at": "0001-01-01T00:00"},
        {"at": "9999-12-31T23:59"},
        {"at": "0001-01-01T00:00+14:00"},
        {"at": "07:30", "minutes": 5},
    ],
)
async def test_a_time_that_is_none_is_refused(arguments: dict[str, Any]) -> None:
    kept = Kept()
    with pytest.raises(RequestError):
        await tools(kept)["set_timer"].run(arguments, asker("…"))
    assert kept.there == []


async def test_an_alarm_is_listed_and_cancelled_by_its_time() -> None:
    kept = Kept()
    small = tools(kept, SMALL)
    for words in ("7時半に起こして", "8時に起こして", "3分タイマー"):
        await small["set_timer"].run({}, asker(words))
    listed = (await small["list_timers"].run({}, asker("タイマーいくつ動いてる？")))["timers"]
    assert [timer.get("at") for timer in listed] == ["明日の7時半", "明日の8時", None]
    told = await small["cancel_timer"].run({}, asker("明日の7時半のアラームを消して"))
    assert told == {"cancelled": ["明日の7時半"]}
    assert len(kept.there) == 2


@pytest.mark.parametrize(
    ("now", "at", "due"),
    [
        # New York puts its clock back from 02:00 to 01:00 at 06:00 UTC, and in March forward at 07:00 UTC.
        ("2026-11-01T06:15", "01:30", "2026-11-01T06:30"),
        ("2026-11-01T06:15", "2026-11-01T01:30", "2026-11-01T06:30"),
        ("2026-11-01T05:15", "2026-11-01T01:30", "2026-11-01T05:30"),
        ("2026-11-01T06:45", "01:30", "2026-11-02T06:30"),
        ("2026-03-08T06:15", "02:30", "2026-03-08T07:30"),
    ],
)
async def test_a_time_that_the_clock_shows_twice_is_the_next_one_and_is_found_again(
    now: str, at: str, due: str
) -> None:
    kept, moment = Kept(), datetime.fromisoformat(now).replace(tzinfo=UTC)
    words = asker(f"cancel the timer at {at[-4:]} in the morning", "en")
    in_new_york = replace(words, zone=ZoneInfo("America/New_York"), asked_at=moment)
    large, small = (time_tools(kept, PERSONA, kind, lambda: moment) for kind in (LARGE, SMALL))  # type: ignore[arg-type]
    await large[1].run({"at": at}, in_new_york)
    assert kept.there[0].due_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") == due
    await large[1].run({"minutes": 90}, in_new_york)
    cancel = next(tool for tool in small if tool.spec.name == "cancel_timer")
    await cancel.run({}, in_new_york)
    assert [timer.zone for timer in kept.there] == [None]
