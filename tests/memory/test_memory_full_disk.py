"""Long-term memory in a whole server when the disk is full, or the embedding model fails: words find, work waits."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.memory.index.folder import IndexFolder
from tests.devices.conftest import serve as serve
from tests.memory.faults import fail_writes, only_words
from tests.memory.faults import folder as folder
from tests.memory.faults import kind as kind
from tests.memory.faults import start as start
from tests.memory.whole_server import (
    BROKEN,
    FACTS,
    LATER,
    Vectors,
    best,
    found,
    get,
    memory_of,
    problem,
    rebuild,
    remember,
    retried,
    same,
    say,
    vectors_agree,
)

pytestmark = pytest.mark.integration


async def test_a_full_disk_while_indexing_leaves_work_that_is_done_when_there_is_room(
    start: Callable[..., Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
        with monkeypatch.context() as full:
            fail_writes(full, kind, sqlite3.SQLITE_FULL, "database or disk is full")
            await remember(live, LATER)
            assert await best(live) == list(FACTS)
            assert same(before, await found(live)), "what is indexed is searched as before"
            status = await get(live, "/v1/memory/status")
            assert status["memories"]["active"] == 5
            assert status["index"]["states"]["pending"] == 1
            assert not await memory_of(live)._access.try_again(), "a full disk is no damage"
        await retried(live)
        assert (await get(live, "/v1/memory/status"))["index"]["points"] == 5
        assert await vectors_agree(live)
    async with start(kind) as live:
        assert same(before, await found(live))
        assert await vectors_agree(live)


async def test_a_full_disk_at_the_start_leaves_words_until_there_is_room(
    start: Callable[..., Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
    with monkeypatch.context() as full:
        write_mark = IndexFolder.write_mark

        def no_room(self: IndexFolder, *arguments: Any, **named: Any) -> None:
            raise self.failed(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

        full.setattr(IndexFolder, "write_mark", no_room)
        async with start(kind) as live:
            await only_words(live, "index_failed", hint="Check the disk")
            assert not await memory_of(live)._access.try_again()
            full.setattr(IndexFolder, "write_mark", write_mark)
            assert await memory_of(live)._access.try_again()
            assert same(before, await found(live))


async def test_edge_is_not_opened_nor_written_where_its_mapped_files_would_find_no_room(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system ends a process that writes into a mapped file for which the disk has no room."""
    room = "server.memory.index.edge.ROOM_BYTES"
    async with start("edge") as live:
        await remember(live)
        before = await found(live)
        with monkeypatch.context() as full:
            full.setattr(room, 2**62)
            await remember(live, LATER)
            assert await best(live) == list(FACTS)
            assert same(before, await found(live)), "what is indexed is searched as before"
            assert (await get(live, "/v1/memory/status"))["index"]["states"]["pending"] == 1
            assert not await memory_of(live)._access.try_again(), "a full disk is no damage"
        await retried(live)
        assert await vectors_agree(live)
        before = await found(live)
    with monkeypatch.context() as full:
        full.setattr(room, 2**62)
        async with start("edge") as live:
            await only_words(live, "index_unavailable", hint="Make room")
            full.undo()
            assert await memory_of(live)._access.try_again()
            assert same(before, await found(live))
            assert await vectors_agree(live)


async def test_a_full_disk_in_the_middle_of_a_rebuild_is_got_over(
    start: Callable[..., Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
        with monkeypatch.context() as full:
            create = "server.memory.index.edge.EdgeStore.create" if kind == "edge" else None

            def no_room(self: object, data: Path) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            full.setattr(create or "server.memory.index.local.LocalStore.create", no_room)
            ended = await rebuild(live)
            assert (ended["state"], ended["error"]["code"]) == ("failed", "index_failed")
            await say(live, "おはよう")
            assert await best(live) == list(FACTS)
            assert await problem(live) is not None
        assert await memory_of(live)._access.try_again()
        await retried(live)
        assert await problem(live) is None
        assert same(before, await found(live))
        assert await vectors_agree(live)


async def test_an_embedding_engine_that_fails_for_a_while_leaves_words_and_work(start: Callable[..., Any]) -> None:
    embedding = Vectors()
    async with start("local", embedding) as live:
        await remember(live)
        before = await found(live)
        embedding.error = BROKEN
        await remember(live, LATER)
        assert await best(live) == list(FACTS)
        searched = (await get(live, "/v1/memories", query="盆栽の松"))["searched"]
        assert searched["words_only"] == "embedding_failed"
        said = await get(live, "/v1/memories", query="盆栽の松の枝")
        assert [one["text"] for one in said["not_yet_taken_in"]] == [LATER], "found, though nothing is made of it yet"
        ended = await rebuild(live)
        assert (ended["state"], ended["error"]["code"]) == ("failed", "embedding_failed")
        assert await best(live) == list(FACTS), "also when a rebuild was begun and failed"
        embedding.error = None
        assert (await rebuild(live))["state"] == "done"
        assert same(before, await found(live))
        await retried(live)
        assert (await get(live, "/v1/memory/status"))["memories"]["active"] == 5
        assert await vectors_agree(live)
