"""Forgetting reaches what a turn was shown of a memory before it was one, what tools gave back, and what retells it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from server.memory.asking import Asker
from server.storage import memory_browse, memory_lookup, segments, turns
from tests.memory.home import PC, Home, capabilities
from tests.memory.making import note

pytestmark = pytest.mark.integration

BOUGHT = "富士通のパソコンを三万円で買ったよ"
COLUMNS = (
    ("source_turns", "text"),
    ("source_turns", "tool_calls"),
    ("turns", "transcript"),
    ("turns", "reply"),
    ("turns", "memory"),
    ("recall_items", "summary"),
)


async def left(home: Home, words: str) -> list[tuple[str, str]]:
    """Where in the world's database these words are, as they are or as JSON writes them."""
    found = []
    async with home.databases.world(write=False) as db:
        for name, column in COLUMNS:
            query = text(f"SELECT count(*) FROM {name} WHERE instr(cast({column} AS text), :w) > 0")
            forms = {words, json.dumps(words)[1:-1]}
            counts = [(await (await db.connection()).execute(query, {"w": form})).scalar_one() for form in forms]
            found += [(name, column)] if any(counts) else []
    return found


async def memory_id(home: Home, summary: str = PC) -> str:
    async with home.databases.world(write=False) as db:
        (found,) = [one.memory_id for one in await memory_lookup.page(db) if one.summary == summary]
    return found


def called(name: str, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": {"query": "富士通"}, "result": dict(result)}]


async def end(home: Home, asker: Asker) -> None:
    home.at += dt.timedelta(minutes=11)
    await home.memory.session_ended(asker.session_id)
    await home.memory.worker.idle()


async def finds_nothing(home: Home) -> bool:
    found = await home.search("富士通、三万円")
    return found["candidates"] == [] and "said" not in found


@pytest.mark.parametrize("small", [True, False])
async def test_words_found_before_they_were_a_memory(tmp_path: Path, small: bool) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        first = await home.say(BOUGHT)
        await memory.turn_ended(first)
        found = await home.search(small=small)
        assert [one["text"] for one in found["said"]] == [BOUGHT]
        assert "memory_id" not in json.dumps(found)
        await end(home, first)
        asking = await home.say(
            "前のあれ、いくらだった？", "三万円の富士通だよ", tool_calls=called("search_memory", found)
        )
        await memory.turn_ended(asking)
        # And who was shown that answer in turn, without a number in their own.
        shown = await home.search("三万円の富士通", small=small)
        # A small model is shown what was said, not what it answered itself.
        assert ("三万円の富士通だよ" in json.dumps(shown, ensure_ascii=False)) is not small
        await end(home, asking)
        last = await home.say("なんて言ってた？", "そのことだね", tool_calls=called("search_memory", shown))
        answer = await memory.owner.forget(await memory_id(home))
        assert answer["still_found"] == []
        assert answer["blanked_turns"] == 3
        await memory.worker.idle()
        assert await left(home, "三万円") == []
        assert await left(home, "そのことだね") == []
        assert await finds_nothing(home)
        assert last.turn_id in home.told[-1].turn_ids, "the copies elsewhere are told of it"


async def test_words_read_around_another_memory(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.summarizer.summaries = lambda said, request: [
        note(PC, "富士通", "パソコン", about=[place]) if "富士通" in one else note(f"{one}。", "コムギ", about=[place])
        for place, one in enumerate(said, start=1)
    ]
    async with home.open() as memory:
        cat = await home.say("猫のコムギが家に来た")
        await home.say(BOUGHT)
        await memory.turn_ended(cat)
        await end(home, cat)
        read = memory.tools_for(capabilities(small=False))[1]
        around = dict(
            await read.run(
                {"memory_id": await memory_id(home, "猫のコムギが家に来た。"), "around": 3}, home.asker("猫は？")
            )
        )
        assert BOUGHT in [one["text"] for one in around["turns"]]
        asking = await home.say(
            "猫のことは？", "そのとき買い物もしたね", tool_calls=called("read_memory_source", around)
        )
        await memory.turn_ended(asking)
        answer = await memory.owner.forget(await memory_id(home))
        assert answer["still_found"] == []
        assert await left(home, "三万円") == []
        assert await home.stored() == ["猫のコムギが家に来た。"]


async def test_with_the_words_kept_what_tools_gave_back_goes_and_answers_are_found_no_more(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        await home.remember_the_pc()
        found = await home.search()
        asking = await home.say("前のあれ、いくら？", "富士通の三万円だね", tool_calls=called("search_memory", found))
        await memory.turn_ended(asking)
        assert PC in json.dumps(found, ensure_ascii=False)
        answer = await memory.owner.forget(await memory_id(home), also_source=False)
        await memory.worker.idle()
        assert (answer["blanked_turns"], answer["still_found"]) == (0, [])
        assert await left(home, PC) == []
        assert await left(home, BOUGHT) == [("source_turns", "text"), ("turns", "transcript")], "as was asked for"
        assert await finds_nothing(home)
        async with home.databases.world(write=False) as db:
            query = text("SELECT tool_calls FROM source_turns WHERE tool_calls IS NOT NULL")
            (stored,) = (await (await db.connection()).execute(query)).scalars()
        shown = [{"memory_id": home.told[-1].memory_ids[0]}]
        calls = [{"name": "search_memory", "arguments": {}, "result": {"note": "forgotten", "shown": shown}}]
        assert json.loads(stored) == calls, "that a tool was called stays: the answer is nobody's own words"
        # What is still there goes when it is asked for later.
        again = await memory.owner.forget(home.told[-1].memory_ids[0])
        assert again["still_found"] == []
        assert await left(home, "三万円") == []


@pytest.mark.parametrize("also_source", [True, False])
async def test_what_the_robot_says_again_in_the_same_talk(tmp_path: Path, also_source: bool) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        first = await home.say(BOUGHT)
        await memory.turn_ended(first)
        await memory.turn_ended(await home.say("きょうは寒いね", "ほんとだね"))
        await memory.turn_ended(await home.say("いくらって言ったっけ", "富士通のは30,000円だよ"))
        await end(home, first)
        later = await home.say("またね", "またあした")
        answer = await memory.owner.forget(await memory_id(home), also_source=also_source)
        assert answer["still_found"] == []
        assert await finds_nothing(home)
        if also_source:
            assert await left(home, "30,000円") == []
            assert await left(home, "ほんとだね") != [], "what tells nothing of it stays"
        assert later.turn_id not in home.told[-1].turn_ids


async def test_what_is_said_of_it_elsewhere_is_told_as_still_found(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        await home.remember_the_pc()
        home.summarizer.summaries = lambda said, request: []
        other = await home.say("富士通に3万円は高かったかな", "どうだろうね")
        await memory.turn_ended(other)
        await end(home, other)
        answer = await memory.owner.forget(await memory_id(home))
        (said,) = (await home.search("富士通"))["said"]
        assert "3万円" in said["text"], "so it is"
        assert answer["still_found"] == [f"source turn {said['source_turn_id']}"]


async def test_another_memory_that_says_it_is_told_as_still_found(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        await home.remember_the_pc()
        summary = "保証と修理と配送の話をした。富士通には全部で三万円を払った。"
        home.summarizer.summaries = lambda said, request: [note(summary, "富士通", "保証")]
        other = await home.say("保証と修理と配送の話だけど、富士通には全部で三万円を払った")
        await memory.turn_ended(other)
        await end(home, other)
        answer = await memory.owner.forget(await memory_id(home))
        assert await memory_id(home, summary) in answer["still_found"]


@pytest.mark.parametrize(
    ("told", "stays"),
    [
        ("自転車を四万円で買ったんだ", True),
        ("I have a recital on Friday", True),
        ("富士通のあれ、いくらだったっけ", False),
        ("そのパソコン、まだ動くかな", False),
    ],
)
async def test_what_was_told_beside_it_stays_and_is_remembered(tmp_path: Path, told: str, stays: bool) -> None:
    """A search for nothing had shown the robot what is forgotten later; what the user told in that turn is another
    matter, unless its words are in it. What the robot answered goes in any case."""
    home = Home(tmp_path)
    async with home.open() as memory:
        first = await home.say(BOUGHT)
        await memory.turn_ended(first)
        await end(home, first)
        found = await home.search()
        assert found["candidates"]
        beside = await home.say(told, "三万円の話だね", tool_calls=called("search_memory", found))
        await memory.turn_ended(beside)
        answer = await memory.owner.forget(await memory_id(home))
        assert answer["still_found"] == []
        await memory.worker.idle()
        assert await left(home, "三万円") == []
        assert bool(await left(home, told)) is stays
        async with home.databases.world(write=False) as db:
            said = {turn.role: turn.text for turn in await memory_browse.words_of_turns(db, [beside.turn_id])}
            stored = await turns.get_turn(db, beside.turn_id)
        assert said == {"user": told if stays else "", "robot": ""}
        assert stored is not None
        assert (stored.transcript, stored.reply) == (told if stays else "", "")
        await end(home, beside)
        async with home.databases.world(write=False) as db:
            taken_in = [one.turn_id for one in await segments.open_exchanges(db, beside.session_id)] == []
            kept = [one.result for one in await segments.segments_of(db, beside.session_id)]
        assert taken_in
        assert ("forgotten" in kept) is not stays
    # Also at the next start nothing more goes, and nothing comes back.
    async with home.open():
        assert bool(await left(home, told)) is stays
        assert await left(home, "三万円") == []
