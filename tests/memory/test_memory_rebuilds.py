"""While vectors are made anew: searches, turns, edits and forgetting go on, and what comes of it is what was said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from server.storage import jobs, memory_lookup
from tests.devices.conftest import LiveServer, eventually
from tests.devices.conftest import serve as serve
from tests.memory.faults import kind as kind
from tests.memory.faults import start as start
from tests.memory.home import Home
from tests.memory.whole_server import (
    FACTS,
    LATER,
    Vectors,
    best,
    found,
    get,
    memory_of,
    remember,
    retried,
    same,
    say,
    vectors_agree,
)

pytestmark = pytest.mark.integration


async def held_rebuild(live: LiveServer, embedding: Vectors) -> asyncio.Event:
    """A rebuild that has read what it will write, and waits for vectors; set the event to let it go on."""
    embedding.gate = gate = asyncio.Event()
    embedding.waiting = False
    # Its jobs would take the gate.
    memory_of(live).worker.leave(["index"])
    assert (await live.client.post("/v1/memory/rebuild")).status_code == 202
    await eventually(lambda: embedding.waiting)
    memory_of(live).worker.take_up({"index": memory_of(live).indexer.index_memory})
    return gate


async def test_during_a_rebuild_people_talk_search_edit_and_forget(start: Callable[..., Any], kind: str) -> None:
    embedding = Vectors()
    async with start(kind, embedding) as live:
        await remember(live)
        before = await found(live)
        assert await best(live) == list(FACTS)
        pc, cat, camera, tomatoes = (hits[0][0] for hits in before.values())
        gate = await held_rebuild(live, embedding)
        refused = await live.client.post("/v1/memory/rebuild")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "rebuild_running")
        assert await best(live) == list(FACTS), "words find, whatever vectors there are"
        assert (await get(live, "/v1/memory/rebuild"))["state"] == "running"
        await say(live, LATER)
        edited = await live.client.patch(f"/v1/memories/{cat}", json={"summary": "猫のミケは薬が嫌いだ"})
        assert edited.status_code == 200
        forgotten = (await live.client.delete(f"/v1/memories/{camera}")).json()
        assert (forgotten["forgotten"], forgotten["still_found"]) == ([camera], [])
        # The edit is indexed before the rebuild writes what it read before it.
        await memory_of(live).worker.idle()
        gate.set()
        await memory_of(live).owner.rebuilding.wait()
        assert (await get(live, "/v1/memory/rebuild"))["state"] == "done"
        await memory_of(live).worker.idle()
        assert await vectors_agree(live), "of what is said now, and none of what was forgotten"
        after = await found(live)
        assert camera not in {found_id for hits in after.values() for found_id, _ in hits}
        unchanged = {pc, tomatoes}
        for question, hits in before.items():
            was = {one: score for one, score in hits if one in unchanged}
            now = {one: score for one, score in after[question] if one in unchanged}
            assert was.keys() == now.keys()
            assert all(abs((was[one] or 0) - (now[one] or 0)) < 1e-5 for one in was)
        await remember(live, "おやすみ")
        assert await vectors_agree(live)


async def test_a_stop_in_the_middle_of_a_rebuild_leaves_the_rest_to_the_next_start(
    start: Callable[..., Any], kind: str
) -> None:
    embedding = Vectors()
    async with start(kind, embedding) as live:
        await remember(live)
        before = await found(live)
        await held_rebuild(live, embedding)
    async with start(kind) as live:
        assert await best(live) == list(FACTS)
        await retried(live)
        assert same(before, await found(live))
        assert await vectors_agree(live)


async def test_an_index_whose_points_are_not_those_of_the_memories_is_compared_after_a_clean_end(tmp_path: Any) -> None:
    home = Home(tmp_path)
    async with home.open() as memory:
        await home.remember_the_pc()
        index = memory.indexer.index
        assert index is not None
        await index.delete(await index.ids())
    async with home.open() as memory:
        await memory.worker.idle()
        assert (await home.search())["candidates"][0]["retrieval_score"] > 0.5


async def test_work_that_is_left_while_it_is_leased_goes_back_in_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    lease = jobs.lease
    async with home.open() as memory:
        await home.remember_the_pc()
        (memory_id,) = [one.memory_id for one in await _page(home)]

        async def lease_and_leave(*arguments: Any, **named: Any) -> Any:
            job = await lease(*arguments, **named)
            if job is not None and job.kind == "index":
                monkeypatch.setattr(jobs, "lease", lease)
                memory.worker.leave(["index"])
            return job

        monkeypatch.setattr(jobs, "lease", lease_and_leave)
        async with home.databases.world() as db:
            await jobs.enqueue(db, "index", memory_id, now=home.at)
        memory.worker.wake()
        await memory.worker.idle()
        async with home.databases.world(write=False) as db:
            waiting = await jobs.find(db, "index", memory_id)
        assert waiting is not None
        assert (waiting.state, waiting.attempts) == ("queued", 0)
        memory.worker.take_up({"index": memory.indexer.index_memory})
        await memory.worker.idle()
        async with home.databases.world(write=False) as db:
            assert await jobs.find(db, "index", memory_id) is None


async def _page(home: Home) -> Any:
    async with home.databases.world(write=False) as db:
        return await memory_lookup.page(db)
