"""Memories on real files: stored whole or not at all, changed with their words and names, narrowed by SQL."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.errors import NotFoundError, StorageError
from server.storage import jobs, memories, memory_lookup, segments, sources, word_index
from server.storage.database import Databases
from server.storage.memory_records import MemoryChanges, MemoryFilter
from tests.storage.house import NOW, make_session, make_turn
from tests.storage.remembered import EVERYONE, SAID_TO_ALL, exchange, new_memory, remember

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
LATER = NOW + dt.timedelta(days=2)


def name(number: int) -> str:
    return new_memory(number).memory_id


async def index_all(databases: Databases) -> None:
    """As the worker does it."""
    async with databases.world() as db:
        for memory in await memory_lookup.pending_index(db, 100):
            assert await memories.mark_indexed(db, memory.memory_id, memory.revision)
            await jobs.cancel(db, ["index"], memory.memory_id)


async def test_memory_comes_back_as_it_was_stored(databases: Databases) -> None:
    await exchange(databases, 1, "富士通のPCを買った", speaker_id="mika")
    stored = await remember(
        databases,
        1,
        " 富士通のPCを30,000円で買った。\0 ",
        entities=("富士通", " 富 士通", "RTX 3050", "rtx3050", " "),
        speakers=("mika", "ken", "mika"),
        source_turn_ids=(11, 10, 11),
        visibility="private",
        importance=5,
    )
    async with databases.world(write=False) as db:
        assert await memories.get(db, name(1)) == stored
        assert await memories.get(db, "mem_none") is None
        waiting = await jobs.find(db, "index", name(1))
    assert (stored.summary, stored.entities) == ("富士通のPCを30,000円で買った。", ("富士通", "RTX 3050"))
    assert (stored.speakers, stored.source_turn_ids) == (("mika", "ken"), (10, 11))
    assert (stored.status, stored.superseded_by, stored.index_state, stored.revision) == ("active", None, "pending", 1)
    assert (stored.occurred_at, stored.created_at, stored.updated_at) == (NOW, NOW, NOW)
    assert waiting is not None
    assert waiting.state == "queued"


def test_new_ids_are_different_and_marked() -> None:
    one, two = memories.new_memory_id(), memories.new_memory_id()
    assert one != two
    assert one.startswith("mem_")
    assert len(one) == 30


@pytest.mark.parametrize(
    "changes",
    [
        {"source_turn_ids": (10, 999)},
        {"channel_id": "nowhere"},
        {"importance": 6},
        {"memory_type": "pool"},
        {"visibility": "public"},
        {"summary": "  "},
        {"occurred_at": dt.datetime(2026, 1, 1)},
        {"memory_id": new_memory(1).memory_id},
    ],
)
async def test_memory_that_cannot_be_stored_leaves_nothing(databases: Databases, changes: dict[str, Any]) -> None:
    await exchange(databases, 1, "猫")
    await remember(databases, 1, "京都へ行った。")
    with pytest.raises(StorageError):
        await remember(databases, 2, **({"summary": "黒猫を飼っている。"} | changes))
    async with databases.world(write=False) as db:
        assert [memory.memory_id for memory in await memory_lookup.page(db)] == [name(1)]
        assert await word_index.search_memories(db, "黒猫", EVERYONE, limit=9) == []
        assert (await jobs.counts(db))["index"] == {"queued": 1}
        assert await memory_lookup.of_source_turns(db, [10]) == {}


async def test_many_come_in_the_order_asked_for(databases: Databases) -> None:
    await make_session(databases)
    for number in range(4):
        await remember(databases, number)
    asked = [name(3), "mem_none", name(0), name(3)] + [f"x{number}" for number in range(1_200)] + [name(2)]
    async with databases.world(write=False) as db:
        assert [memory.memory_id for memory in await memories.get_many(db, asked)] == [name(3), name(0), name(2)]
        assert await memories.get_many(db, []) == []


async def test_edit_changes_what_is_given_and_asks_for_a_new_vector(databases: Databases) -> None:
    await make_session(databases)
    await remember(databases, 1)
    await index_all(databases)
    async with databases.world() as db:
        changes = MemoryChanges(summary="富士通のPCを25,000円で買った。", importance=4, occurred_at=LATER)
        edited = await memories.update_memory(db, name(1), changes, now=LATER)
        assert await jobs.counts(db) == {"index": {"queued": 1}}
        with pytest.raises(NotFoundError):
            await memories.update_memory(db, "mem_none", changes, now=LATER)
        with pytest.raises(StorageError):
            await memories.update_memory(db, name(1), MemoryChanges(summary=" "), now=LATER)
    assert (edited.topic, edited.entities, edited.importance) == ("買い物", ("富士通",), 4)
    assert (edited.occurred_at, edited.updated_at, edited.created_at) == (LATER, LATER, NOW)
    assert (edited.revision, edited.index_state) == (2, "pending")


async def test_correction_keeps_the_old_memory_as_history(databases: Databases) -> None:
    await make_session(databases)
    await remember(databases, 1, "PCは30,000円だった。")
    await remember(databases, 2, "PCは25,000円だった。")
    await index_all(databases)
    async with databases.world() as db:
        old = await memories.supersede(db, name(1), name(2), now=LATER)
        assert (old.status, old.superseded_by, old.revision) == ("superseded", name(2), 2)
        assert await jobs.counts(db) == {"index": {"queued": 1}}, "the index must learn the new status"
        for wrong in ((name(1), name(2)), (name(2), name(2)), (name(2), name(1))):
            with pytest.raises(StorageError):
                await memories.supersede(db, *wrong, now=LATER)
        with pytest.raises(NotFoundError):
            await memories.supersede(db, name(2), "mem_none", now=LATER)
        history = replace(EVERYONE, statuses=("active", "superseded"))
        assert await memory_lookup.narrow(db, EVERYONE) == [name(2)]
        assert sorted(await memory_lookup.narrow(db, history)) == [name(1), name(2)]
        assert [hit.memory_id for hit in await word_index.search_memories(db, "PC", EVERYONE, limit=9)] == [name(2)]


async def test_repeated_words_add_their_sources_and_speakers(databases: Databases) -> None:
    await exchange(databases, 1, "富士通のPCを買った")
    await exchange(databases, 2, "PCは富士通だよ")
    await remember(databases, 1, source_turn_ids=(10,), speakers=("mika",))
    await index_all(databases)
    async with databases.world() as db:
        merged = await memories.merge_sources(db, name(1), [20, 10], now=LATER)
        assert (merged.source_turn_ids, merged.revision, merged.index_state) == ((10, 20), 1, "indexed")
        merged = await memories.merge_sources(db, name(1), [21], now=LATER, speakers=("ken", "mika"))
        assert (merged.source_turn_ids, merged.speakers, merged.revision) == ((10, 20, 21), ("mika", "ken"), 2)
        assert await memory_lookup.of_source_turns(db, [10, 11, 20, 21]) == {turn: (name(1),) for turn in (10, 20, 21)}


async def test_vector_of_an_older_text_does_not_count(databases: Databases) -> None:
    await make_session(databases)
    await remember(databases, 1)
    async with databases.world() as db:
        await memories.update_memory(db, name(1), MemoryChanges(topic="PC"), now=NOW)
        assert not await memories.mark_indexed(db, name(1), 1)
        assert await memories.mark_index_failed(db, name(1), 2, "away", gave_up=False)
        assert [(m.attempts, m.error) for m in await memory_lookup.pending_index(db, 9)] == [(1, "away")]
        assert await memories.mark_index_failed(db, name(1), 2, "away", gave_up=True)
        assert await memory_lookup.pending_index(db, 9) == []
        assert (await memory_lookup.counts(db)).index_states == {"failed": 1}
        assert await memories.queue_index(db, [name(1), "mem_none"], now=NOW) == 1
        assert await memories.mark_indexed(db, name(1), 2)
        stored = await memories.get(db, name(1))
    assert stored is not None
    assert (stored.index_state, stored.attempts, stored.error) == ("indexed", 0, None)


async def test_pages_hold_every_memory_once(databases: Databases) -> None:
    await make_session(databases)
    for number in range(7):
        await remember(databases, number)
    seen: list[str] = []
    async with databases.world(write=False) as db:
        while found := await memory_lookup.page(db, after=seen[-1] if seen else "", limit=3):
            assert len(found) <= 3
            seen += [memory.memory_id for memory in found]
    assert seen == [name(number) for number in range(7)]


NARROWED: list[tuple[dict[str, Any], set[int]]] = [
    ({}, {1, 2, 3}),
    ({"speaker_id": "mika"}, {1, 2, 3, 4}),
    ({"speaker_id": "ken"}, {1, 2, 3}),
    ({"persona_id": "another"}, {5}),
    ({"memory_type": "fact"}, {2}),
    ({"entity_keys": ("富士通",)}, {1, 3}),
    ({"entity_keys": ("富士通", "タマ")}, {1, 2, 3}),
    ({"entity_keys": ("富士通", "富士通")}, {1, 3}),
    ({"entity_keys": ("富士通",), "speaker_id": "mika"}, {1, 3, 4}),
    ({"entity_keys": ("富士",)}, set()),
    ({"occurred_from": LATER}, {2}),
    ({"occurred_before": LATER}, {1, 3}),
    ({"occurred_from": NOW, "occurred_before": LATER, "entity_keys": ("タマ",)}, {3}),
    ({"channel_id": "stackchan:study"}, {3}),
    ({"statuses": ("superseded",)}, set()),
    ({"entity_keys": ("' OR 1=1 --",)}, set()),
]


@pytest.mark.parametrize(("changes", "numbers"), NARROWED)
async def test_narrowing(databases: Databases, changes: dict[str, Any], numbers: set[int]) -> None:
    await make_session(databases)
    await make_session(databases, channel_id="stackchan:study")
    await remember(databases, 1)
    await remember(databases, 2, entities=("ﾀﾏ",), memory_type="fact", occurred_at=LATER)
    await remember(databases, 3, entities=("タ マ", "富士通"), channel_id="stackchan:study")
    await remember(databases, 4, visibility="private", speakers=("mika", "mother"))
    await remember(databases, 5, persona_id="another")
    wanted: MemoryFilter = replace(EVERYONE, **changes)
    async with databases.world(write=False) as db:
        assert set(await memory_lookup.narrow(db, wanted)) == {name(number) for number in numbers}
        found = await word_index.search_memories(db, "富士通のPC", wanted, limit=99)
        assert {hit.memory_id for hit in found} == {name(number) for number in numbers}


async def test_names_nearest_first_each_once(databases: Databases) -> None:
    await make_session(databases)
    await remember(databases, 1, entities=("タマ", "京都"))
    await remember(databases, 2, entities=("ﾀﾏ", "Fujitsu", "CoreS3"))
    async with databases.world(write=False) as db:
        assert await memory_lookup.entities_near(db, [name(2), name(1)]) == ["ﾀﾏ", "Fujitsu", "CoreS3", "京都"]
        assert await memory_lookup.entities_near(db, [name(1), name(2)], limit=3) == ["タマ", "京都", "Fujitsu"]


async def test_memories_that_share_names(databases: Databases) -> None:
    await make_session(databases)
    await remember(databases, 1, entities=("富士通", "京都"))
    await remember(databases, 2, entities=("富士通",), occurred_at=LATER)
    await remember(databases, 3, entities=("富士通",))
    await remember(databases, 4, entities=("タマ",))
    wanted = replace(EVERYONE, entity_keys=("富士通", "京都"))
    async with databases.world(write=False) as db:
        found = await memory_lookup.sharing_entities(db, wanted, limit=9)
        assert [memory.memory_id for memory in found] == [name(1), name(2), name(3)]
        found = await memory_lookup.sharing_entities(db, wanted, limit=1, leave_out=[name(1)])
        assert [memory.memory_id for memory in found] == [name(2)]
        assert await memory_lookup.sharing_entities(db, EVERYONE, limit=9) == []


async def test_turns_bring_up_the_memories_they_belong_to(databases: Databases) -> None:
    await exchange(databases, 1, "富士通のPCとタマの話")
    await remember(databases, 1, source_turn_ids=(10,))
    await remember(databases, 2, source_turn_ids=(10, 11), occurred_at=LATER, memory_type="fact")
    async with databases.world(write=False) as db:
        assert await memory_lookup.of_source_turns(db, [11, 10, 99]) == {10: (name(2), name(1)), 11: (name(2),)}
        facts = replace(EVERYONE, memory_type="fact")
        within = await memory_lookup.of_source_turns_within(db, [10, 11, 99], facts)
        assert within == {10: {name(2): True, name(1): False}, 11: {name(2): True}}
        assert list(within[10]) == [name(2), name(1)]


async def test_standing_is_what_the_memories_themselves_say(databases: Databases) -> None:
    await make_session(databases)
    for number, changes in enumerate(({}, {"speakers": ("mika", "ren")}, {"occurred_at": LATER}), start=1):
        await remember(databases, number, **changes)
    async with databases.world() as db:
        await memories.supersede(db, name(1), name(2), now=NOW)
    async with databases.world(write=False) as db:
        standing = await memory_lookup.standing(db, [name(3), name(1), name(2), name(1), name(9)])
        there = await memories.get_many(db, [name(1), name(2), name(3)])
    assert standing == {one.memory_id: (one.status, one.occurred_at, one.speakers) for one in there}
    assert [standing[name(n)].status for n in (1, 2, 3)] == ["superseded", "active", "active"]


async def test_source_turns_are_read_with_those_around_them(databases: Databases) -> None:
    for turn_id in (1, 2, 3):
        await exchange(databases, turn_id, f"発話{turn_id}", f"返事{turn_id}")
    await exchange(databases, 4, "内緒", channel_id="stackchan:bedroom", private=True, speaker_id="mika")
    async with databases.world(write=False) as db:

        async def read(*turns: int, around: int = 0, speaker_id: str | None = None) -> list[int]:
            wanted = replace(SAID_TO_ALL, speaker_id=speaker_id)
            return [turn.source_turn_id for turn in await sources.read_source_turns(db, turns, wanted, around=around)]

        assert await read(30, 10) == [10, 30]
        assert await read(20, around=1) == [11, 20, 21]
        assert await read(10, around=2) == [10, 11, 20]
        assert await read(40, 41, 99) == []
        assert await read(40, speaker_id="mika", around=9) == [40, 41]


async def test_exchange_is_taken_in_once(databases: Databases) -> None:
    session_id = await exchange(databases, 1, "発話1")
    await exchange(databases, 2, "発話2", "返事2")
    await make_turn(databases, 3, session_id)
    async with databases.world() as db:
        found = await segments.open_exchanges(db, session_id)
        assert [(one.turn_id, one.user.text, one.robot and one.robot.text) for one in found] == [
            (1, "発話1", "うん。"),
            (2, "発話2", "返事2"),
        ]
        assert await segments.sessions_with_open_exchanges(db) == [session_id]
        closed = await segments.close_segment(db, session_id, [1], "filler", now=NOW)
        for again in ([1, 2], [99], []):
            with pytest.raises(StorageError):
                await segments.close_segment(db, session_id, again, "memories", now=NOW)
        assert [one.turn_id for one in await segments.open_exchanges(db, session_id)] == [2]
        second = await segments.close_segment(db, session_id, [2], "memories", now=LATER)
        assert await segments.segments_of(db, session_id) == [closed, second]
        assert await segments.sessions_with_open_exchanges(db) == []
        counted = await memory_lookup.counts(db)
    assert counted.segments == {"filler": 1, "memories": 1}
    assert (counted.exchanges, counted.source_turns, counted.memories) == (2, 4, {})
    assert counted.jobs == {"ingest": {"queued": 1}}


# Stores memories, each with its segment, until it is killed.
KEEPER = """
import asyncio, sys
from pathlib import Path
from server.storage import jobs, memories, segments
from server.storage.database import Databases
from tests.storage.house import NOW
from tests.storage.remembered import exchange, new_memory

async def main():
    databases = await Databases.open(Path(sys.argv[1]), "home")
    for number in range(1, 100_000):
        session_id = await exchange(databases, number, f"発話{number}")
        async with databases.world() as db:
            turns = (number * 10, number * 10 + 1)
            new = new_memory(number, f"要約{number}xyz", source_turn_ids=turns, speakers=("a",))
            await memories.add(db, new, now=NOW)
            await segments.close_segment(db, session_id, [number], "memories", now=NOW)
            await jobs.cancel(db, ["ingest"], session_id)
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("delay_ms", [0, 3, 7])
async def test_killed_keeper_leaves_no_half_memory(tmp_path: Path, delay_ms: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KEEPER, str(tmp_path), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    async with asyncio.timeout(60):
        assert process.stdout is not None
        for _ in range(4):
            await process.stdout.readline()
        await asyncio.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGKILL)
        rest = (await process.stdout.read()).decode().split("\n")[:-1]
        assert await process.wait() == -signal.SIGKILL
    acknowledged = max([4, *(int(line) for line in rest)])
    async with await Databases.open(tmp_path, "home") as databases, databases.world(write=False) as db:
        kept = await memory_lookup.page(db)
        assert len(kept) in (acknowledged, acknowledged + 1)
        for number, memory in enumerate(kept, 1):
            assert (memory.memory_id, memory.source_turn_ids) == (name(number), (number * 10, number * 10 + 1))
            assert [
                hit.memory_id for hit in await word_index.search_memories(db, f"{number}xyz", EVERYONE, limit=1)
            ] == [name(number)]
            assert await jobs.find(db, "index", name(number)) is not None
        assert len(await memory_lookup.narrow(db, replace(EVERYONE, entity_keys=("富士通",)))) == len(kept)
        for session_id in await segments.sessions_with_open_exchanges(db):
            waiting = await segments.open_exchanges(db, session_id)
            assert [one.turn_id for one in waiting] == [len(kept) + 1]
            assert await jobs.find(db, "ingest", session_id) is not None
