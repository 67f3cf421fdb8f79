"""A conversation over days with the real small models: told, found in other words, corrected, forgotten for good.

The days are lived through once, with the server stopped and started again between them; each test looks at one part.
"""

from __future__ import annotations

import asyncio
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from server.memory.numbers import quantities
from server.storage.restoring import Restored, restore
from tests.models.house_over_days import House, Turn
from tests.models.stories import STORIES, Story

pytestmark = pytest.mark.models

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


@dataclass
class Days:
    """What happened in a story."""

    story: Story
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


@pytest.fixture(scope="module", params=STORIES, ids=[story.name for story in STORIES])
def days(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Days:
    folder = tmp_path_factory.mktemp("days")
    return asyncio.run(live_through(request.param, House(folder / "data"), folder / "before.tar"))


async def live_through(story: Story, house: House, backup: Path) -> Days:
    days = Days(story, backup=backup)
    turns = days.turns
    async with house.open():
        turns["told"] = await house.say("first", story.told)
        turns["small talk"] = await house.say("first", story.small_talk)
        await house.pass_time()
        days.first = await house.memories()

        await house.pass_time(days=3)
        turns["asked"] = await house.say("second", story.asked)
        turns["corrected"] = await house.say("second", story.corrected)
        await house.pass_time()
        days.corrected = await house.memories()
        days.old = await house.get(f"/v1/memories/{days.first[0]['memory_id']}")
        days.new = await house.get(f"/v1/memories/{days.corrected[0]['memory_id']}")

    memory_ids = [days.old["memory_id"], days.new["memory_id"]]
    async with house.open():
        await house.pass_time(days=2)
        turns["asked again"] = await house.say("third", story.asked_again)
        telling = [turn.turn_id for turn in turns.values()]
        await asyncio.to_thread(backup.write_bytes, await house.backup())
        days.found["before"] = await house.where_found(story.secret, memory_ids, telling)
        turns["forget"] = await house.say("third", story.forget)
        await house.pass_time()
        telling.append(turns["forget"].turn_id)
        days.found["after"] = await house.where_found(story.secret, memory_ids, telling)
        days.files["after"] = house.files_with(story.secret)
        days.left = await house.memories("all")
        days.shown = {one: await house.status_of(f"/v1/memories/{one}") for one in memory_ids}

        await house.pass_time(days=1)
        turns["asked after"] = await house.say("fourth", story.asked_after)
        await house.pass_time()
    days.files["stopped"] = house.files_with(story.secret)

    days.restored = await restore(backup, house.data_dir, now=house.now)
    days.files["restored"] = house.files_with(story.secret)
    async with house.open():
        await house.pass_time()
        days.found["restored"] = await house.where_found(story.secret, memory_ids, telling)
        await house.pass_time(days=1)
        turns["asked after restoring"] = await house.say("fifth", story.asked_after)
    return days


def test_small_talk_makes_one_call_of_the_model_and_no_memory(days: Days) -> None:
    turn = days.turns["small talk"]
    assert (turn.llm_calls, turn.searched, turn.tool_calls) == (1, False, None), turn
    assert [days.story.says_old(one["summary"]) for one in days.first] == [True], days.first
    assert days.story.small_talk.rstrip("。.？?") not in days.first[0]["summary"]


def test_asked_in_other_words_it_answers_with_it_from_the_exact_words(days: Days) -> None:
    turn = days.turns["asked"]
    assert (turn.searched, turn.memory_ids, turn.source_checked) == (True, (days.first[0]["memory_id"],), True), turn
    assert days.story.says_old(turn.reply), turn


def test_a_correction_replaces_what_was_remembered(days: Days) -> None:
    old, new = days.first[0]["memory_id"], days.new["memory_id"]
    assert [one["memory_id"] for one in days.corrected] == [new]
    assert old != new
    assert (days.old["status"], [one["memory_id"] for one in days.old["newer"]]) == ("superseded", [new])
    assert (days.new["status"], [one["memory_id"] for one in days.new["older"]]) == ("active", [old])
    assert days.story.says_new(days.new["summary"]), days.new


def test_the_next_session_answers_what_it_was_corrected_to_also_after_a_restart(days: Days) -> None:
    turn = days.turns["asked again"]
    assert (turn.searched, turn.memory_ids) == (True, (days.new["memory_id"],)), turn
    assert days.story.says_new(turn.reply), turn
    assert not days.story.says_old(turn.reply), turn


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
    assert not days.story.says_old(turn.reply), turn
    assert not days.story.says_new(turn.reply), turn
    assert not days.story.secret.is_in(turn.reply), turn
    assert not quantities(turn.reply), turn


def test_a_backup_made_before_brings_nothing_of_it_back(days: Days) -> None:
    with tarfile.open(days.backup) as tar:
        (world,) = [name for name in tar.getnames() if name.endswith("session.sqlite")]
        content = tar.extractfile(world)
        assert content is not None
        assert days.story.told.rstrip(".").encode() in content.read(), "it was made while it was remembered"
    assert days.restored is not None
    assert days.restored.forgotten_memories == 2
    assert days.files["restored"] == []
    assert days.found["restored"] == set()
