"""Vectors follow SQL: edited, rebuilt, brought together after a kill, and done without."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.errors import StorageError
from server.memory.indexer import Indexer, index_point
from server.storage import jobs, memories
from server.storage.memory_records import MemoryChanges
from tests.memory.making import house
from tests.memory.said_and_noted import BOUGHT, summaries

pytestmark = pytest.mark.integration


async def test_an_edit_is_followed_by_the_index(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
        before = await home.index.vectors([memory.memory_id])
        await home.keeper.edit(memory.memory_id, MemoryChanges(summary="犬のダイズが家に来た。", entities=("ダイズ",)))
        home.worker.wake()
        await home.worker.idle()
        after = await home.index.vectors([memory.memory_id])
        assert float(before[memory.memory_id] @ after[memory.memory_id]) < 0.9
        assert await home.found("ダイズ") == ["犬のダイズが家に来た。"]
        await home.keeper.forget([memory.memory_id])
        with pytest.raises(StorageError):
            await home.keeper.edit(memory.memory_id, MemoryChanges(summary="x"))


async def test_a_deleted_index_is_rebuilt_with_the_same_results(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT, "猫のコムギが家に来た", "辛いものが好き")
        await home.talk("富士通のパソコン、違う、二万五千円だった")
        queries = ("パソコン", "猫", "辛いもの", "コムギと富士通")
        before = [await home.recall.search(home.asked(query)) for query in queries]
        ids = await home.index.ids()
    shutil.rmtree(tmp_path / "worlds" / "home" / "index")
    async with house(tmp_path, summaries) as home:
        assert await home.index.count() == 0
        progress: list[tuple[int, int]] = []
        assert await home.indexer.rebuild(lambda done, total: progress.append((done, total))) == len(ids) == 4
        assert progress == [(4, 4)]
        assert await home.index.ids() == ids
        after = [await home.recall.search(home.asked(query)) for query in queries]
        for one, other in zip(before, after, strict=True):
            assert [c.memory.memory_id for c in one.candidates] == [c.memory.memory_id for c in other.candidates]
            scores = [c.retrieval_score for c in one.candidates]
            assert [c.retrieval_score for c in other.candidates] == pytest.approx(scores, abs=1e-5)
        async with home.databases.world(write=False) as db:
            assert "index" not in await jobs.counts(db), "what was rebuilt waits for nothing"
        assert {one.index_state for one in await home.memories()} == {"indexed"}


async def test_after_a_kill_index_and_database_are_brought_together(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk(BOUGHT, "猫のコムギが家に来た")
        first, second = await home.memories()
        vector = (await home.index.vectors([first.memory_id]))[first.memory_id]
        await home.index.delete([first.memory_id])
        ghost = replace(second, memory_id="mem_" + "9" * 26)
        await home.index.upsert([index_point(ghost, vector)])
        assert await home.indexer.reconcile() == (1, 1)
        home.worker.wake()
        await home.worker.idle()
        assert await home.index.ids() == {first.memory_id, second.memory_id}
        assert await home.indexer.reconcile() == (0, 0)


async def test_without_an_index_memories_are_made_and_found_by_words(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        home.keeper.index = home.indexer.index = home.recall.index = None
        await home.talk("猫のコムギが家に来た")
        await home.talk("辛いものが好き")
        assert await home.found("コムギ") == ["猫のコムギが家に来た。"]
        assert {one.index_state for one in await home.memories()} == {"pending"}
        assert all("index_closed" in (one.error or "") for one in await home.memories())
        home.keeper.index = home.indexer.index = home.recall.index = home.index
        home.at += dt.timedelta(minutes=5)
        home.worker.wake()
        await home.worker.idle()
        assert {one.index_state for one in await home.memories()} == {"indexed"}


async def test_a_vector_is_not_taken_for_indexed_when_the_memory_changed_meanwhile(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.talk("猫のコムギが家に来た")
        (memory,) = await home.memories()
        await home.worker.close()
        async with home.databases.world() as db:
            await memories.queue_index(db, [memory.memory_id], now=home.at)
            job = await jobs.lease(db, owner="test", now=home.at, lease_seconds=60)
        assert job is not None
        original = home.index.upsert

        async def upsert(points: Any) -> None:
            await original(points)
            await home.keeper.forget([memory.memory_id])

        home.index.upsert = upsert  # type: ignore[method-assign]
        await Indexer(home.databases, home.index, home.embedding, clock=home.clock).index_memory(job)
        assert await home.index.ids() == set()
