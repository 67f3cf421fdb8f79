"""Forgetting: nothing finds it, no file holds it, and nothing brings it back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from server.errors import NotFoundError, StorageError
from server.storage import forgetting, jobs, segments, tombstones, word_index
from server.storage.memory_records import MemoryFilter, SourceFilter
from tests.memory.making import PERSONA, house
from tests.memory.said_and_noted import BOUGHT, files_with, summaries, summary_of

pytestmark = pytest.mark.integration


async def test_forgetting_leaves_nothing_to_find(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT)
        await home.talk("富士通のパソコン、違う、二万五千円だった")
        await home.talk("猫のコムギが家に来た")
        newest = next(one for one in await home.memories() if "25,000" in one.summary)
        told: list[object] = []

        async def copies(reached: object) -> None:
            told.append(reached)

        home.keeper._on_forgotten = (copies,)
        session_id = await home.open_session()
        request = await home.say(session_id, "そのパソコンのことは忘れて")
        forgotten = await home.keeper.forget([newest.memory_id], also_turn_ids=[request])
        await home.worker.idle()
        assert forgotten.still_found == ()
        assert len(forgotten.reached.memory_ids) == 2, "the older price too"
        assert told == [forgotten.reached]
        assert summary_of(await home.memories()) == ["猫のコムギが家に来た。"]
        everyone = MemoryFilter(PERSONA, None, statuses=("active", "superseded", "forgotten"))
        async with home.databases.world(write=False) as db:
            for words in ("富士通", "パソコン", "25,000円", "三万円", "忘れて"):
                assert await word_index.search_memories(db, words, everyone, limit=9) == []
                assert await word_index.search_source_turns(db, words, SourceFilter(PERSONA, None), limit=9) == []
            assert await jobs.counts(db) == {}
        assert len(await home.index.ids()) == 1
        assert await home.found("富士通のパソコン") == ["猫のコムギが家に来た。"]
        # Nothing is made of the blanked words again.
        requests = len(home.summarizer.requests)
        await home.end(session_id)
        assert len(home.summarizer.requests) == requests
        assert files_with(tmp_path, "富士通", "25,000", "二万五千") == [], "while the server runs"
    assert files_with(tmp_path, "富士通", "25,000", "二万五千") == [], "after it stopped"


async def test_a_turn_alone_can_be_forgotten_as_the_request_itself_when_it_has_ended(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        calls = [{"name": "forget_memory", "arguments": {"query": "富士通のパソコン"}}]
        turn_id = await home.say(session_id, "富士通のパソコンのことは忘れて", "忘れたよ", tool_calls=calls)
        forgotten = await home.keeper.forget([], also_turn_ids=[turn_id])
        await home.worker.idle()
        assert forgotten.still_found == ()
        assert files_with(tmp_path, "富士通") == []


async def test_forgetting_what_is_not_there_is_told(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        with pytest.raises(NotFoundError):
            await home.keeper.forget(["mem_" + "0" * 26])


async def test_what_comes_back_is_forgotten_again(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
    backup = tmp_path / "backup"
    shutil.copytree(tmp_path / "worlds", backup)
    async with house(tmp_path, summaries) as home:
        await home.keeper.forget([memory.memory_id])
        await home.worker.idle()
    shutil.rmtree(tmp_path / "worlds")
    shutil.copytree(backup, tmp_path / "worlds")
    async with house(tmp_path, summaries) as home:
        assert len(await home.index.ids()) == 1, "the copy brought it back"
        reached = await home.keeper.reapply()
        await home.worker.idle()
        assert reached.memory_ids == (memory.memory_id,)
        assert await home.memories() == []
        assert await home.index.ids() == set()
        assert await home.found("コムギ") == []
        assert (await home.keeper.reapply()).memory_ids == ()


async def test_a_kill_in_the_middle_of_forgetting_is_made_good_at_start(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
        async with home.databases.world(write=False) as db:
            reached = await forgetting.reach(db, [memory.memory_id], also_source=True)
        async with home.databases.server() as server_db:
            await tombstones.add(server_db, reached, now=home.at)
    async with house(tmp_path, summaries) as home:
        assert len(await home.memories()) == 1
        await home.keeper.reapply()
        await home.worker.idle()
        assert await home.memories() == []
        assert await home.index.ids() == set()
        assert files_with(tmp_path, "コムギ") == []


async def test_a_copy_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()

        async def fails(reached: object) -> None:
            raise StorageError("no disk")

        home.keeper._on_forgotten = (fails,)
        assert (await home.keeper.forget([memory.memory_id])).still_found == ("copy: storage_failed",)
        assert await home.memories() == []


async def test_words_forgotten_while_a_memory_is_made_of_them_make_none(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        turn_id = await home.say(session_id, "猫のコムギが家に来た")

        original = home.keeper._neighbours.judge

        async def judge(proposals: Any) -> Any:
            judged = await original(proposals)
            async with home.databases.world() as db:
                reached = await forgetting.reach(db, [], also_source=True, also_turn_ids=[turn_id])
                await forgetting.forget(db, reached, now=home.at)
            return judged

        home.keeper._neighbours.judge = judge  # type: ignore[method-assign]
        await home.end(session_id)
        assert await home.memories() == []
        async with home.databases.world(write=False) as db:
            assert [one.result for one in await segments.segments_of(db, session_id)] == ["forgotten"]
