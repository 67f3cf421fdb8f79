"""A conversation over days with the real small models: told, found in other words, corrected, forgotten for good.

The days are lived through once, with the server stopped and started again between them; each test looks at one part.
"""

from __future__ import annotations

import asyncio
import re
import tarfile
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from server.storage.restoring import Restored, restore
from tests.models.house_over_days import House, Secret, Turn

pytestmark = pytest.mark.models

PC = Secret(("富士通", "デスクトップ", "三万", "3万", "30,000", "二万五千", "2万5千", "25,000"), "パソコンの値段")
OLD_PRICE = re.compile("三万|3万|30000")
NEW_PRICE = re.compile("二万五千|2万5千|2万5000|25000")
EVERYWHERE = {
    "search",
    "list",
    "memory",
    "export",
    "turns",
    "audit",
    "words of memories",
    "words of turns",
    "recall",
    "vectors",
    "vectors by id",
    "names to hear",
    "bytes",
}


def price(text: str) -> str:
    """As prices are compared: half-width digits, no commas between them."""
    return unicodedata.normalize("NFKC", text).replace(",", "")


@dataclass
class Days:
    """What happened."""

    turns: dict[str, Turn] = field(default_factory=dict)
    first: list[dict[str, Any]] = field(default_factory=list)
    """Memories after the first day."""
    corrected: list[dict[str, Any]] = field(default_factory=list)
    old: dict[str, Any] = field(default_factory=dict)
    new: dict[str, Any] = field(default_factory=dict)
    found: dict[str, set[str]] = field(default_factory=dict)
    """When it was looked for -> where it was found."""
    files: dict[str, list[str]] = field(default_factory=dict)
    left: list[dict[str, Any]] = field(default_factory=list)
    """All memories after the forgetting, whatever their status."""
    shown: dict[str, int] = field(default_factory=dict)
    """HTTP status of each forgotten memory."""
    backup: Path = Path()
    restored: Restored | None = None


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Days:
    folder = tmp_path_factory.mktemp("days")
    return asyncio.run(live_through(House(folder / "data"), folder / "before.tar"))


async def live_through(house: House, backup: Path) -> Days:
    days = Days(backup=backup)
    turns = days.turns
    async with house.open():
        turns["told"] = await house.say("first", "富士通の中古のデスクトップを三万円で買ったよ")
        turns["small talk"] = await house.say("first", "今日は空がきれいだね")
        await house.pass_time()
        days.first = await house.memories()

        await house.pass_time(days=3)
        turns["asked"] = await house.say("second", "この前手に入れたパソコン、いくらだったっけ")
        turns["corrected"] = await house.say("second", "違う、二万五千円だよ")
        await house.pass_time()
        days.corrected = await house.memories()
        days.old = await house.get(f"/v1/memories/{days.first[0]['memory_id']}")
        days.new = await house.get(f"/v1/memories/{days.corrected[0]['memory_id']}")

    memory_ids = [days.old["memory_id"], days.new["memory_id"]]
    async with house.open():
        await house.pass_time(days=2)
        turns["asked again"] = await house.say("third", "うちのパソコンの値段、覚えてる？")
        telling = [turn.turn_id for turn in turns.values()]
        await asyncio.to_thread(backup.write_bytes, await house.backup())
        days.found["before"] = await house.where_found(PC, memory_ids, telling)
        turns["forget"] = await house.say("third", "そのパソコンのことは忘れて")
        await house.pass_time()
        telling.append(turns["forget"].turn_id)
        days.found["after"] = await house.where_found(PC, memory_ids, telling)
        days.files["after"] = house.files_with(PC)
        days.left = await house.memories("all")
        days.shown = {one: await house.status_of(f"/v1/memories/{one}") for one in memory_ids}

        await house.pass_time(days=1)
        turns["asked after"] = await house.say("fourth", "前に買ったパソコンはいくらだった？")
        await house.pass_time()
    days.files["stopped"] = house.files_with(PC)

    days.restored = await restore(backup, house.data_dir, now=house.now)
    days.files["restored"] = house.files_with(PC)
    async with house.open():
        await house.pass_time()
        days.found["restored"] = await house.where_found(PC, memory_ids, telling)
        await house.pass_time(days=1)
        turns["asked after restoring"] = await house.say("fifth", "前に買ったパソコンはいくらだった？")
    return days


def test_small_talk_makes_one_call_of_the_model_and_no_memory(days: Days) -> None:
    turn = days.turns["small talk"]
    assert (turn.llm_calls, turn.searched, turn.tool_calls) == (1, False, None), turn
    assert [PC.is_in(one["summary"]) for one in days.first] == [True], days.first
    assert "空" not in days.first[0]["summary"]


def test_asked_in_other_words_it_answers_with_the_price_from_the_exact_words(days: Days) -> None:
    turn = days.turns["asked"]
    assert (turn.searched, turn.memory_ids, turn.source_checked) == (True, (days.first[0]["memory_id"],), True), turn
    assert OLD_PRICE.search(price(turn.reply)), turn


def test_a_correction_replaces_what_was_remembered(days: Days) -> None:
    old, new = days.first[0]["memory_id"], days.new["memory_id"]
    assert [one["memory_id"] for one in days.corrected] == [new]
    assert old != new
    assert (days.old["status"], [one["memory_id"] for one in days.old["newer"]]) == ("superseded", [new])
    assert (days.new["status"], [one["memory_id"] for one in days.new["older"]]) == ("active", [old])
    assert NEW_PRICE.search(price(days.new["summary"])), days.new


def test_the_next_session_answers_the_new_price_also_after_a_restart(days: Days) -> None:
    turn = days.turns["asked again"]
    assert (turn.searched, turn.memory_ids) == (True, (days.new["memory_id"],)), turn
    assert NEW_PRICE.search(price(turn.reply)), turn
    assert not OLD_PRICE.search(price(turn.reply)), turn


def test_forgotten_on_request_nothing_finds_it_any_more(days: Days) -> None:
    assert days.found["before"] == EVERYWHERE, "else the looking proves nothing"
    assert days.found["after"] == set(), days.files["after"]
    assert set(days.shown.values()) == {410}
    assert {(one["status"], one["topic"], one["summary"]) for one in days.left} == {("forgotten", "", "")}
    assert days.files["stopped"] == []


@pytest.mark.parametrize("asked", ["asked after", "asked after restoring"])
def test_asked_for_what_was_forgotten_it_has_nothing_of_it_to_say(days: Days, asked: str) -> None:
    turn = days.turns[asked]
    assert turn.memory_ids == (), turn
    assert not re.search(f"{OLD_PRICE.pattern}|{NEW_PRICE.pattern}", price(turn.reply)), turn
    assert not PC.is_in(turn.reply), turn


def test_a_backup_made_before_brings_nothing_of_it_back(days: Days) -> None:
    with tarfile.open(days.backup) as tar:
        (world,) = [name for name in tar.getnames() if name.endswith("session.sqlite")]
        content = tar.extractfile(world)
        assert content is not None
        assert "富士通の中古のデスクトップ".encode() in content.read(), "it was made while it was remembered"
    assert days.restored is not None
    assert days.restored.forgotten_memories == 2
    assert days.files["restored"] == []
    assert days.found["restored"] == set()
