"""Forgetting: nothing finds it, no byte of it is in any file, and no restore brings it back."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from server.errors import StorageError
from server.storage import forgetting, jobs, memories, memory_lookup, segments, sources, tombstones, word_index
from server.storage.database import Databases
from server.storage.memory_browse import words_of_turns
from server.storage.memory_records import Forgetting, MemoryChanges
from server.storage.turns import get_trace, get_turn
from server.storage.words import tokens
from tests.storage.house import NOW
from tests.storage.remembered import EVERYONE, SAID_TO_ALL, exchange, new_memory, remember

pytestmark = pytest.mark.integration
SECRETS = ("ひみつ基地", "xylophone", "12345678", "つくばね")


def name(number: int) -> str:
    return new_memory(number).memory_id


def files_with(folder: Path, secrets: tuple[str, ...] = SECRETS) -> list[str]:
    """Which files hold a secret: as it was said, as the word index keeps it, or one of its own pairs."""
    forms = {*secrets, *(" ".join(tokens(secret)) for secret in secrets), "基地", "くば"}
    found = []
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        found += [f"{path.name}: {form}" for form in sorted(forms) if form.encode() in content]
    return found


async def forget(databases: Databases, *numbers: int, also_source: bool = True) -> Forgetting:
    """The whole order of it."""
    async with databases.world(write=False) as db:
        reached = await forgetting.reach(db, [name(number) for number in numbers], also_source=also_source)
    async with databases.server() as db:
        await tombstones.add(db, reached, now=NOW)
    async with databases.world() as db:
        await forgetting.forget(db, reached, now=NOW)
    await databases.scrub_world()
    return reached


async def house_with_secrets(databases: Databases) -> None:
    """Turn 1 told it, 2 corrected it, 3 recalled it, 4 is about something else; memory 2 superseded memory 1."""
    await exchange(databases, 1, "ひみつ基地は12345678円", "xylophoneだね", trace={"heard": "ひみつ基地"})
    await exchange(databases, 2, "ひみつ基地はつくばね", "つくばねかあ")
    recalled = [{"name": "search_memory", "result": [{"memory_id": name(2), "summary": "xylophone"}]}]
    await exchange(databases, 3, "どこだっけ", "つくばねのひみつ基地だよ", tool_calls=recalled)
    await exchange(databases, 4, "きょうの天気は晴れ", "いいね")
    await remember(databases, 1, "ひみつ基地 12345678 xylophone", entities=("ひみつ基地",), source_turn_ids=(10, 11))
    await remember(databases, 2, "ひみつ基地はつくばね xylophone", entities=("つくばね",), source_turn_ids=(20,))
    await remember(databases, 4, "晴れていた。", entities=(), source_turn_ids=(40,))
    async with databases.world() as db:
        await memories.update_memory(db, name(1), MemoryChanges(topic="つくばね"), now=NOW)
        await memories.supersede(db, name(1), name(2), now=NOW)


async def test_no_byte_is_left_in_any_file(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        await house_with_secrets(databases)
        for number in range(100, 160):
            # Pages split while the secret lies among other rows.
            await remember(databases, number, f"{number}回目の散歩。" * 20)
        held = files_with(tmp_path)
        assert {"つくばね", "つく くば ばね", "基地", "xylophone"} <= {found.partition(": ")[2] for found in held}
        await forget(databases, 2)
        assert files_with(tmp_path) == [], "while the server runs"
    assert files_with(tmp_path) == [], "after it stopped"
    async with await Databases.open(tmp_path, "home") as databases, databases.world(write=False) as db:
        assert len(await memory_lookup.page(db, limit=999)) == 61, "all else is still there"
        assert len(await word_index.search_memories(db, "159回目", EVERYONE, limit=1)) == 1


async def test_forgetting_reaches_older_versions_sources_and_recalls(databases: Databases) -> None:
    await house_with_secrets(databases)
    reached = await forget(databases, 2)
    assert reached == Forgetting(
        memory_ids=(name(2), name(1)),
        blanked_source_turn_ids=(10, 11, 20, 21, 30, 31),
        hidden_source_turn_ids=(),
        turn_ids=(1, 2, 3),
    )
    async with databases.world(write=False) as db:
        for query in ("ひみつ基地", "xylophone", "12345678", "つくばね", "どこだっけ"):
            assert await word_index.search_memories(db, query, EVERYONE, limit=9) == []
            assert await word_index.search_source_turns(db, query, SAID_TO_ALL, limit=9) == []
        assert [memory.memory_id for memory in await memory_lookup.page(db)] == [name(4)]
        assert await memory_lookup.narrow(db, EVERYONE) == [name(4)]
        assert await memory_lookup.of_source_turns(db, [10, 20, 40]) == {40: (name(4),)}
        read = await sources.read_source_turns(db, [10, 11, 20, 31, 40], SAID_TO_ALL)
        assert [turn.text for turn in read] == ["きょうの天気は晴れ"]
        one, turn = await memories.get(db, name(1)), await get_turn(db, 1)
        assert [(said.text, said.tool_calls) for said in await words_of_turns(db, [3])] == [("", None), ("", None)]
        assert await get_trace(db, 1) is None
        assert await memory_lookup.entities_near(db, [name(1), name(2)]) == []
        waiting = await jobs.counts(db)
        counted = await memory_lookup.counts(db)
        assert await jobs.find(db, "unindex", name(1)) is not None
    assert one is not None
    assert (one.status, one.topic, one.summary, one.entities, one.superseded_by) == ("forgotten", "", "", (), name(2))
    assert one.source_turn_ids == (10, 11)
    assert turn is not None
    assert (turn.transcript, turn.reply, turn.memory, turn.status) == ("", "", None, "done")
    assert waiting == {
        "ingest": {"queued": 1},
        "index": {"queued": 1},
        "unindex": {"queued": 2},
        "scrub": {"queued": 1},
    }
    assert counted.memories == {"active": 1, "forgotten": 2}
    assert counted.index_states == {"pending": 1}


async def test_without_the_source_the_log_stays_but_is_found_no_more(databases: Databases) -> None:
    session_id = await exchange(databases, 1, "富士通のPCとタマの話")
    await exchange(databases, 2, "富士通はもういい")
    await remember(databases, 1, source_turn_ids=(10, 20))
    await remember(databases, 2, "タマという猫がいる。", source_turn_ids=(10,))
    reached = await forget(databases, 1, also_source=False)
    assert reached == Forgetting((name(1),), (), (20,), ())
    async with databases.world() as db:
        assert [turn.text for turn in await words_of_turns(db, [2])] == ["富士通はもういい", "うん。"]
        found = await word_index.search_source_turns(db, "富士通", SAID_TO_ALL, limit=9)
        assert [hit.source_turn_id for hit in found] == [10], "another memory needs it"
        assert [one.turn_id for one in await segments.open_exchanges(db, session_id)] == [1], "made into nothing again"


async def test_words_left_in_the_log_are_not_read_beside_others(databases: Databases) -> None:
    await exchange(databases, 1, "富士通のPCを買った")
    await exchange(databases, 2, "暗証番号は九八七六")
    await remember(databases, 1, source_turn_ids=(10, 11))
    await remember(databases, 2, source_turn_ids=(20, 21))
    reached = await forget(databases, 2, also_source=False)
    assert reached.hidden_source_turn_ids == (20, 21)
    async with databases.world(write=False) as db:
        read = await sources.read_source_turns(db, [10], SAID_TO_ALL, around=5)
        assert [turn.source_turn_id for turn in read] == [10, 11]
        assert await sources.read_source_turns(db, [20, 21], SAID_TO_ALL, around=5) == []
        assert [turn.text for turn in await words_of_turns(db, [2])] == ["暗証番号は九八七六", "うん。"], "in the log"


async def test_the_request_itself_can_be_blanked_too(databases: Databases) -> None:
    await house_with_secrets(databases)
    async with databases.world() as db:
        reached = await forgetting.reach(db, ["mem_none"], also_source=True, also_turn_ids=[4])
        assert reached == Forgetting((), (40, 41), (), (4,))
        await forgetting.forget(db, reached, now=NOW)
    async with databases.world(write=False) as db:
        assert await word_index.search_source_turns(db, "天気", SAID_TO_ALL, limit=9) == []


async def test_forgetting_twice_changes_nothing(databases: Databases) -> None:
    await house_with_secrets(databases)
    reached = await forget(databases, 2)
    async with databases.world(write=False) as db:
        before = await memories.get(db, name(1))
    async with databases.world() as db:
        await forgetting.forget(db, reached, now=NOW)
    async with databases.world(write=False) as db:
        assert await memories.get(db, name(1)) == before


async def test_forgotten_memory_is_not_changed_any_more(databases: Databases) -> None:
    await house_with_secrets(databases)
    async with databases.world() as db:
        job = await jobs.lease(db, owner="boot/1", now=NOW, lease_seconds=60, kinds=["index"])
    assert job is not None
    assert job.subject == name(1)
    await forget(databases, 2)
    async with databases.world() as db:
        assert not await jobs.done(db, job), "whoever makes its vector has lost the job"
        assert not await memories.mark_indexed(db, name(1), 3)
        assert not await memories.mark_index_failed(db, name(1), 3, "no", gave_up=True)
        assert await memories.queue_index(db, [name(1)], now=NOW) == 0
    for change in (
        lambda db: memories.update_memory(db, name(1), MemoryChanges(summary="xylophone"), now=NOW),
        lambda db: memories.merge_sources(db, name(1), [40], now=NOW),
        lambda db: memories.supersede(db, name(4), name(1), now=NOW),
    ):
        with pytest.raises(StorageError, match="forgotten"):
            async with databases.world() as db:
                await change(db)


async def test_older_copy_of_the_world_forgets_again(tmp_path: Path) -> None:
    session = tmp_path / "worlds" / "home" / "session.sqlite"
    async with await Databases.open(tmp_path, "home") as databases:
        await house_with_secrets(databases)
        await databases.scrub_world()
        shutil.copy(session, tmp_path / "older")
        await forget(databases, 2)
    (tmp_path / "older").replace(session)
    assert files_with(tmp_path) != []
    async with await Databases.open(tmp_path, "home") as databases:
        async with databases.server(write=False) as db:
            stones = await tombstones.all_tombstones(db)
        async with databases.world() as db:
            again = await forgetting.reapply(db, stones, now=NOW)
            assert sorted(again.memory_ids) == [name(1), name(2)]
            assert again.turn_ids == (1, 2, 3)
            assert await forgetting.reapply(db, stones, now=NOW) == Forgetting((), (), (), ())
        await databases.scrub_world()
        assert files_with(tmp_path) == []


async def test_hidden_turns_stay_hidden_in_an_older_copy(tmp_path: Path) -> None:
    session = tmp_path / "worlds" / "home" / "session.sqlite"
    async with await Databases.open(tmp_path, "home") as databases:
        session_id = await exchange(databases, 1, "富士通のPC")
        await databases.scrub_world()
        shutil.copy(session, tmp_path / "older")
        await remember(databases, 1, source_turn_ids=(10,))
        await forget(databases, 1, also_source=False)
    (tmp_path / "older").replace(session)
    async with await Databases.open(tmp_path, "home") as databases:
        async with databases.server(write=False) as db:
            stones = await tombstones.all_tombstones(db)
        async with databases.world() as db:
            await forgetting.reapply(db, stones, now=NOW)
            assert await word_index.search_source_turns(db, "富士通", SAID_TO_ALL, limit=9) == []
            assert await segments.open_exchanges(db, session_id) == []
            assert [turn.text for turn in await words_of_turns(db, [1])] == ["富士通のPC", "うん。"]


async def test_scrubbing_waits_for_writers_and_they_for_it(databases: Databases) -> None:
    await house_with_secrets(databases)
    await asyncio.gather(databases.scrub_world(), *(remember(databases, number) for number in range(10, 20)))
    async with databases.world(write=False) as db:
        assert len(await memory_lookup.page(db)) == 13
