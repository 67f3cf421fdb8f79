"""Timers ring at their time on the device that set them; a stop, an absence or a defect loses none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from server.errors import RequestError, StorageError, TtsError
from server.pipeline import timers as module
from server.pipeline.timer_speech import due_text, length_text, ringing_text
from server.pipeline.timers import MOST_TIMERS, Timers
from server.storage.database import Databases
from server.storage.devices import ensure_device
from server.storage.records import Timer

pytestmark = pytest.mark.integration

NOON = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


class Desk:
    """A connected device: what it was told, and what became of it."""

    def __init__(self, *outcomes: Any, attention: bool = False) -> None:
        self.heard: list[tuple[str, str]] = []
        self.outcomes = list(outcomes)
        self.attention = attention
        self.rang = asyncio.Event()

    async def announce(self, text: str, language: str) -> Any:
        self.heard.append((text, language))
        self.rang.set()
        outcome = self.outcomes.pop(0) if self.outcomes else "played"
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def attended(self, seconds: float) -> bool:
        assert seconds == module.PAUSE_SECONDS
        return self.attention


class House:
    def __init__(self, databases: Databases) -> None:
        self.databases = databases
        self.now = NOON
        self.devices: dict[str, Desk] = {}
        self.timers = self.anew()

    def anew(self) -> Timers:
        return Timers(self.databases, self.devices.get, clock=lambda: self.now)  # type: ignore[arg-type]

    def pass_by(self, seconds: float) -> None:
        """Time passes; the next look at the clock sees it."""
        self.now += timedelta(seconds=seconds)
        self.timers._changed.set()

    async def until(self, true: Callable[[], bool]) -> None:
        for _ in range(1000):
            if true():
                return
            await asyncio.sleep(0.005)
        pytest.fail("it did not happen")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with await Databases.open(tmp_path, "home") as databases:
        async with databases.server() as db:
            for name in ("desk", "kitchen"):
                await ensure_device(db, name, now=NOON)
        made = House(databases)
        await made.timers.start()
        yield made
        await made.timers.close()


async def test_it_rings_at_its_time_three_times_and_is_gone(house: House) -> None:
    desk = house.devices["desk"] = Desk()
    await house.timers.set("desk", 180, "ラーメン", "ja")
    house.pass_by(179)
    await asyncio.sleep(0.02)
    assert desk.heard == []
    house.pass_by(1)
    await house.until(lambda: not house.timers.of("desk"))
    assert desk.heard == [("ラーメンの時間だよ。3分たったよ。", "ja")] * 3
    again = house.anew()
    await again.start()
    assert again.of("desk") == ()
    await again.close()


@pytest.mark.parametrize(("desk_of", "times"), [(lambda: Desk("attended"), 1), (lambda: Desk(attention=True), 1)])
async def test_it_rings_no_more_when_somebody_answers(house: House, desk_of: Callable[[], Desk], times: int) -> None:
    desk = house.devices["desk"] = desk_of()
    await house.timers.set("desk", 10, "", "en")
    house.pass_by(10)
    await house.until(lambda: not house.timers.of("desk"))
    assert desk.heard == [("Your 10 seconds are over.", "en")] * times


async def test_without_its_device_it_waits_for_the_next_connection_and_says_how_late_it_is(house: House) -> None:
    other = house.devices["kitchen"] = Desk()
    await house.timers.set("desk", 60, "", "ja")
    house.pass_by(60 + 12 * 60)
    await asyncio.sleep(0.02)
    desk = house.devices["desk"] = Desk("attended")
    house.timers.device_came("desk")
    await house.until(lambda: bool(desk.heard))
    assert desk.heard == [("1分のタイマーは、12分前に終わってたよ。", "ja")]
    assert other.heard == []


async def test_what_was_missed_does_not_run_and_is_told_once_within_a_week(house: House) -> None:
    for _ in range(module.MOST_TIMERS):
        await house.timers.set("desk", 60, "", "en")
    house.pass_by(60 + module.MISSED_SECONDS - 1)
    assert len(house.timers.of("desk")) == module.MOST_TIMERS
    house.pass_by(1)
    assert house.timers.of("desk") == ()
    late = await house.timers.set("desk", 60, "", "en")
    assert house.timers.of("desk") == (late,)
    await house.timers.close()
    house.now += timedelta(seconds=module.LONGEST_SECONDS)
    house.timers = house.anew()
    await house.timers.start()
    assert list(house.timers._waiting) == [late.timer_id]


async def test_it_counts_from_when_it_was_said_and_rings_at_once_when_that_has_passed(house: House) -> None:
    desk = house.devices["desk"] = Desk("attended")
    said_at = house.now - timedelta(seconds=7)
    kept = await house.timers.set("desk", 10, "", "en", said_at=said_at)
    assert kept.due_at - house.now == timedelta(seconds=3)
    assert desk.heard == []
    await house.timers.set("desk", 5, "", "en", said_at=said_at)
    await house.until(lambda: bool(desk.heard))
    assert desk.heard == [("Your 5 seconds are over.", "en")]


async def test_a_device_rings_that_holds_a_connection_or_held_one_within_a_day(house: House) -> None:
    assert not house.timers.can_ring("desk")
    house.devices["desk"] = Desk()
    assert house.timers.can_ring("desk")
    house.timers.device_came("desk")
    del house.devices["desk"]
    assert house.timers.can_ring("desk")
    assert not house.timers.can_ring("kitchen")
    house.now += module.CAME_LATELY + timedelta(seconds=1)
    assert not house.timers.can_ring("desk")


async def test_a_restart_keeps_what_runs_and_what_was_missed(house: House) -> None:
    await house.timers.set("desk", 60, "eggs", "en")
    await house.timers.set("desk", 3600, "", "en")
    await house.timers.close()
    house.now += timedelta(minutes=6)
    desk = house.devices["desk"] = Desk("attended", "attended")
    house.timers = house.anew()
    await house.timers.start()
    await house.until(lambda: bool(desk.heard))
    assert len(house.timers.of("desk")) == 1
    assert desk.heard == [("Your timer for eggs was over 5 minutes ago.", "en")]
    house.pass_by(3600)
    await house.until(lambda: len(desk.heard) == 2)
    await house.until(lambda: not house.timers._waiting)


async def test_a_time_of_the_clock_is_kept_to_the_minute_over_a_restart(house: House) -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    house.now = NOON + timedelta(seconds=20.5)
    morning = datetime(2026, 12, 1, 7, 30, tzinfo=tokyo)
    set_now = await house.timers.set("desk", morning, "", "ja")
    await house.timers.close()
    house.timers = house.anew()
    await house.timers.start()
    (kept,) = house.timers.of("desk")
    assert (kept.due_at, kept.zone) == (morning, "Asia/Tokyo")
    assert kept == set_now
    desk = house.devices["desk"] = Desk("attended")
    house.pass_by((morning - house.now).total_seconds())
    await house.until(lambda: not house.timers.of("desk"))
    assert desk.heard == [("時間だよ。7時半だよ。", "ja")]
    with pytest.raises(RequestError):
        await house.timers.set("desk", house.now - timedelta(hours=1), "", "ja")


async def test_a_device_that_goes_while_it_rings_hears_it_when_it_is_back(house: House) -> None:
    desk = house.devices["desk"] = Desk("gone")
    await house.timers.set("desk", 60, "", "ja")
    house.pass_by(60)
    await desk.rang.wait()
    del house.devices["desk"]
    await asyncio.sleep(0.02)
    assert len(house.timers.of("desk")) == 1
    back = house.devices["desk"] = Desk("attended")
    house.timers.device_came("desk")
    await house.until(lambda: not house.timers.of("desk"))
    assert back.heard == [("タイマーの時間だよ。1分たったよ。", "ja")]


async def test_a_device_that_goes_between_two_rings_has_not_heard_it_and_the_next_connection_rings_at_once(
    house: House,
) -> None:
    class Leaving(Desk):
        async def attended(self, seconds: float) -> bool:
            back = Desk("attended", "attended")
            house.devices["desk"] = back
            house.timers.device_came("desk")
            return False

    left = house.devices["desk"] = Leaving()
    await house.timers.set("desk", 60, "お茶", "ja")
    await house.timers.set("desk", 60, "卵", "ja")
    house.pass_by(60)
    await house.until(lambda: not house.timers.of("desk"))
    assert [text[:1] for text, _ in left.heard] == ["お"]
    assert [text[:1] for text, _ in house.devices["desk"].heard] == ["お", "卵"]


async def test_what_was_heard_or_cancelled_is_over_though_nothing_can_be_deleted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True

    async def remove(db: Any, timer_ids: tuple[int, ...]) -> None:
        if full:
            raise StorageError("The disk is full.", code="storage_full")
        await removes(db, timer_ids)

    removes = module.timers.remove_timers
    monkeypatch.setattr(module.timers, "remove_timers", remove)
    monkeypatch.setattr(module, "_AFTER_FAILURE_SECONDS", 0.0)
    desk = house.devices["desk"] = Desk()
    await house.timers.set("desk", 60, "", "en")
    cancelled = await house.timers.set("desk", 60, "", "ja")
    with pytest.raises(StorageError):
        await house.timers.cancel("desk", (cancelled.timer_id,))
    house.pass_by(60)
    await house.until(lambda: not house.timers.of("desk"))
    await asyncio.sleep(0.05)
    assert desk.heard == [("Your 1 minute are over.", "en")] * module.MOST_RINGS
    full = False
    await house.timers.set("desk", 60, "", "en")
    house.pass_by(60)
    await house.until(lambda: not house.timers.of("desk"))
    again = house.anew()
    await house.until(lambda: not house.timers._over)
    await again.start()
    assert not again._waiting
    await again.close()


async def test_a_voice_that_fails_is_asked_again_later_or_when_the_device_comes(house: House) -> None:
    desk = house.devices["desk"] = Desk(TtsError("no voice"), ValueError("a defect"), "attended")
    await house.timers.set("desk", 60, "", "ja")
    house.pass_by(60)
    for times in (1, 2):
        await house.until(lambda times=times: len(desk.heard) == times)  # type: ignore[misc]
        await asyncio.sleep(0.05)
        assert len(desk.heard) == times  # it is not asked without end
        house.timers.device_came("desk")
    await house.until(lambda: not house.timers.of("desk"))
    assert len(desk.heard) == 3


async def test_a_cancelled_timer_does_not_ring_and_those_of_other_devices_stay(house: House) -> None:
    desk = house.devices["desk"] = Desk("attended")
    first = await house.timers.set("desk", 60, "", "ja")
    second = await house.timers.set("kitchen", 60, "", "ja")
    assert await house.timers.cancel("desk", (second.timer_id,)) == ()
    assert await house.timers.cancel("desk", (first.timer_id,)) == (first,)
    house.pass_by(61)
    await asyncio.sleep(0.02)
    assert desk.heard == []
    assert house.timers.of("kitchen") == (second,)


async def test_two_at_once_are_said_one_after_another(house: House) -> None:
    desk = house.devices["desk"] = Desk("attended", "attended")
    await house.timers.set("desk", 60, "一つ目", "ja")
    await house.timers.set("desk", 60, "二つ目", "ja")
    house.pass_by(60)
    await house.until(lambda: not house.timers.of("desk"))
    assert [text[:3] for text, _ in desk.heard] == ["一つ目", "二つ目"]


async def test_lengths_and_numbers_are_bounded(house: House) -> None:
    for seconds in (0, -5, 8 * 86_400):
        with pytest.raises(RequestError):
            await house.timers.set("desk", seconds, "", "ja")
    for _ in range(MOST_TIMERS):
        await house.timers.set("desk", 60, "あ" * 500, "ja")
    assert {len(timer.label) for timer in house.timers.of("desk")} == {60}
    with pytest.raises(RequestError):
        await house.timers.set("desk", 60, "", "ja")
    await house.timers.set("kitchen", 60, "", "ja")


@pytest.mark.parametrize(
    ("seconds", "japanese", "english"),
    [
        (1, "1秒", "1 second"),
        (60, "1分", "1 minute"),
        (90, "1分30秒", "1 minute 30 seconds"),
        (5400, "1時間30分", "1 hour 30 minutes"),
        (3605, "1時間", "1 hour"),
        (86_400 * 2, "2日", "2 days"),
        (0.2, "1秒", "1 second"),
    ],
)
def test_lengths_are_said_as_people_do(seconds: float, japanese: str, english: str) -> None:
    assert (length_text(seconds, "ja"), length_text(seconds, "en")) == (japanese, english)


@pytest.mark.parametrize(
    ("label", "language", "late", "said"),
    [
        ("", "ja", 0, "タイマーの時間だよ。5分たったよ。"),
        ("薬", "ja", 59, "薬の時間だよ。5分たったよ。"),
        ("薬", "ja", 7200, "薬のタイマーは、2時間前に終わってたよ。"),
        ("", "en", 0, "Your 5 minutes are over."),
        ("call mom", "en", 0, "Time for your timer: call mom. It has been 5 minutes."),
        ("", "en", 61, "Your timer was over 1 minute ago."),
    ],
)
def test_what_is_said(label: str, language: str, late: float, said: str) -> None:
    timer = Timer(1, "desk", label, language, 300, NOON, NOON + timedelta(seconds=300))
    assert ringing_text(timer, timer.due_at + timedelta(seconds=late)) == said


@pytest.mark.parametrize(
    ("label", "language", "late", "said"),
    [
        ("", "ja", 0, "時間だよ。7時半だよ。"),
        ("薬", "ja", 0, "薬の時間だよ。7時半だよ。"),
        ("", "ja", 600, "7時半の時間は、10分前だったよ。"),
        ("", "en", 0, "It is 7:30 AM. Time for your alarm."),
        ("call mom", "en", 0, "Time for your alarm: call mom. It is 7:30 AM."),
        ("", "en", 600, "Your alarm was 10 minutes ago, at 7:30 AM."),
    ],
)
def test_what_is_said_at_a_time_of_the_clock(label: str, language: str, late: float, said: str) -> None:
    due = datetime(2026, 11, 30, 22, 30, tzinfo=UTC)
    timer = Timer(1, "desk", label, language, 3000, NOON, due, "Asia/Tokyo")
    assert ringing_text(timer, due + timedelta(seconds=late)) == said


@pytest.mark.parametrize(
    ("days", "japanese", "english"),
    [
        (0, "今日の19時", "7:00 PM today"),
        (1, "明日の19時", "7:00 PM tomorrow"),
        (2, "明後日の19時", "7:00 PM on Wednesday"),
        (4, "金曜日の19時", "7:00 PM on Friday"),
    ],
)
def test_the_day_is_said_as_people_do(days: int, japanese: str, english: str) -> None:
    due = datetime(2026, 11, 30, 10, 0, tzinfo=UTC) + timedelta(days=days)
    for language, said in (("ja", japanese), ("en", english)):
        timer = Timer(1, "desk", "", language, 3000, NOON, due, "Asia/Tokyo")
        assert due_text(timer, NOON) == said
