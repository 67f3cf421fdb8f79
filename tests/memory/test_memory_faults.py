"""Index folders that are deleted, damaged, held or full, in a whole server: turns go on, words find, all comes back."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from server.memory.index.factory import open_index
from server.memory.index.folder import MARK
from server.memory.index.local import STORAGE, LocalStore
from tests.devices.conftest import serve as serve
from tests.memory.faults import fail_writes, only_words
from tests.memory.faults import folder as folder
from tests.memory.faults import kind as kind
from tests.memory.faults import start as start
from tests.memory.making import DIMENSIONS, WordVectors
from tests.memory.whole_server import (
    FACTS,
    LATER,
    OtherModel,
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


# While the server runs


async def test_a_folder_deleted_beneath_a_running_server_is_noticed_and_made_anew(
    start: Callable[..., Any], kind: str, folder: Path
) -> None:
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
        shutil.rmtree(folder)
        await say(live, LATER)
        assert await best(live) == list(FACTS)
        told = await problem(live)
        assert told is not None
        assert (told["code"], "taken away" in told["message"]) == ("index_damaged", True)
        assert "made anew by itself" in told["hint"]
        assert await memory_of(live)._access.try_again(), "as its housekeeping does every half minute"
        assert await problem(live) is None
        await memory_of(live).worker.idle()
        assert same(before, await found(live))
        await remember(live, "おやすみ")
        assert await vectors_agree(live)
    async with start(kind) as live:
        await memory_of(live).worker.idle()
        assert same(before, await found(live))
        assert (await get(live, "/v1/memory/status"))["index"]["points"] == 5
    assert not list(folder.parent.glob("index.damaged-*"))


async def test_a_folder_deleted_beneath_a_running_server_can_be_rebuilt_at_once(
    start: Callable[..., Any], kind: str, folder: Path
) -> None:
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
        shutil.rmtree(folder)
        assert await rebuild(live) == {"state": "done", "done": 4, "total": 4, "error": None}
        assert await problem(live) is None
        assert same(before, await found(live))
    async with start(kind) as live:
        assert same(before, await found(live))


async def test_a_folder_deleted_shortly_before_a_clean_stop_is_made_anew_at_the_next_start(
    start: Callable[..., Any], kind: str, folder: Path
) -> None:
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
        shutil.rmtree(folder)
    assert list(folder.parent.glob("index")) == [], "no mark of points that are not there"
    async with start(kind) as live:
        await memory_of(live).worker.idle()
        assert same(before, await found(live))
    assert not list(folder.parent.glob("index.damaged-*"))


@pytest.mark.parametrize("how", ["truncated", "emptied"])
async def test_a_database_cut_beneath_a_running_server_costs_nothing_and_is_made_anew(
    start: Callable[..., Any], how: str, folder: Path
) -> None:
    async with start("local") as live:
        await remember(live)
        before = await found(live)
        storage = folder / "data" / STORAGE
        os.truncate(storage, 0 if how == "emptied" else storage.stat().st_size // 3)
        await remember(live, LATER)
        assert await best(live) == list(FACTS)
        await memory_of(live)._access.try_again()
        await retried(live)
        assert same(before, await found(live))
    async with start("local") as live:
        await memory_of(live).worker.idle()
        assert await problem(live) is None
        assert same(before, await found(live))
        assert await vectors_agree(live)


async def test_a_write_that_shows_damage_has_the_index_opened_again(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start("local") as live:
        await remember(live)
        before = await found(live)
        with monkeypatch.context() as broken:
            fail_writes(broken, "local", sqlite3.SQLITE_CORRUPT, "database disk image is malformed")
            await remember(live, LATER)
            assert await best(live) == list(FACTS)
            told = await problem(live)
            assert told is not None
            assert (told["code"], "malformed" in told["message"]) == ("index_damaged", True)
        assert await memory_of(live)._access.try_again()
        await retried(live)
        assert await problem(live) is None
        assert same(before, await found(live))
        assert await vectors_agree(live)


# Between two starts


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def other_dimensions(folder: Path) -> None:
    meta = folder / "data" / "meta.json"
    content = json.loads(meta.read_text(encoding="utf-8"))
    content["collections"]["memories"]["vectors"]["size"] = 7
    meta.write_text(json.dumps(content), encoding="utf-8")


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "local: folder gone": ("local", shutil.rmtree),
    "local: mark empty": ("local", lambda folder: (folder / MARK).write_bytes(b"")),
    "local: meta.json empty": ("local", lambda folder: (folder / "data" / "meta.json").write_bytes(b"")),
    "local: SQLite truncated": ("local", lambda folder: cut(folder / "data" / STORAGE)),
    "local: wrong dimensions": ("local", other_dimensions),
    "edge: folder gone": ("edge", shutil.rmtree),
    "edge: mark truncated": ("edge", lambda folder: cut(folder / MARK)),
    "edge: segments gone": ("edge", lambda folder: shutil.rmtree(folder / "data" / "segments")),
    "edge: log truncated": ("edge", lambda folder: [cut(path) for path in (folder / "data" / "wal").iterdir()]),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_between_two_starts_is_repaired_beside_the_conversation(
    start: Callable[..., Any], damage: str, folder: Path
) -> None:
    kind, harm = DAMAGE[damage]
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
    harm(folder)
    embedding = Vectors()
    embedding.gate = asyncio.Event()
    gate = embedding.gate
    async with start(kind, embedding) as live:
        await say(live, LATER)
        assert await best(live) == list(FACTS), "by words, while no vector is made yet"
        assert await problem(live) is None
        assert (await get(live, "/v1/memory/status"))["pending"] >= 4
        gate.set()
        await memory_of(live).worker.idle()
        assert same(before, await found(live))
        await remember(live, "おやすみ")
        assert await vectors_agree(live)
    assert len(list(folder.parent.glob("index.damaged-*"))) == (0 if "gone" in damage and "folder" in damage else 1)


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


async def test_a_foreign_pickle_is_not_read_and_a_rebuild_puts_ours_in_its_place(
    start: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    async with start("local") as live:
        await remember(live)
        before = await found(live)
    with closing(sqlite3.connect(folder / "data" / STORAGE)) as connection, connection:
        connection.execute("UPDATE points SET point = ? WHERE rowid = 1", (pickle.dumps(Bomb(tmp_path / "ran")),))
    async with start("local") as live:
        await only_words(live, "index_foreign", hint="rebuild")
        assert await rebuild(live) == {"state": "done", "done": 4, "total": 4, "error": None}
        assert await problem(live) is None
        assert same(before, await found(live))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("first", "then"), [("local", "local"), ("edge", "edge"), ("local", "edge")])
async def test_vectors_of_another_model_or_kind_are_refused_explained_and_rebuilt(
    start: Callable[..., Any], first: str, then: str
) -> None:
    async with start(first) as live:
        await remember(live)
        before = await found(live)
    embedding = OtherModel() if first == then else Vectors()
    async with start(then, embedding) as live:
        told = await only_words(live, "index_mismatch", hint="ebuild")
        assert ("words" in told["message"] and "other" in told["message"]) == (first == then)
        assert not await memory_of(live)._access.try_again(), "that does not pass by itself"
        assert (await rebuild(live))["done"] == 4
        assert same(before, await found(live))
    async with start(then, embedding) as live:
        assert await problem(live) is None
        assert same(before, await found(live))


# Held by another process


def _hold(kind: Any, folder: Path, ready: Any, go: Any) -> None:
    async def hold() -> None:
        index = open_index(kind, folder, DIMENSIONS, WordVectors.fingerprint)
        await index.open()
        ready.set()
        await asyncio.to_thread(go.wait)
        await index.close()

    asyncio.run(hold())


async def test_a_folder_held_by_another_process_is_told_with_its_pid_and_taken_when_it_is_free(
    start: Callable[..., Any], kind: str, folder: Path, tmp_path: Path
) -> None:
    async with start(kind) as live:
        await remember(live)
        before = await found(live)
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(kind, folder, ready, go))
    other.start()
    try:
        assert await asyncio.to_thread(ready.wait, 120)
        async with start(kind) as live:
            told = await only_words(live, "index_locked", hint="stop that process")
            assert f"process {other.pid}" in told["message"]
            shown = await asyncio.to_thread(_command, tmp_path / "data", "memory", "status")
            assert shown.returncode == 0, shown.stderr
            assert str(other.pid) in shown.stdout + shown.stderr, "the command line asks the running server"
            refused = await rebuild(live)
            assert (refused["state"], refused["error"]["code"]) == ("failed", "index_locked")
            go.set()
            await asyncio.to_thread(other.join, 60)
            assert await memory_of(live)._access.try_again()
            assert await problem(live) is None
            assert same(before, await found(live))
    finally:
        go.set()
        await asyncio.to_thread(other.join, 60)


def _command(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STACKCHAN_DATA_DIR": str(data), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "server.cli", *arguments], env=environment, capture_output=True, text=True, timeout=120
    )


# A full disk, and an engine that fails


def test_local_names_the_failures_that_show_damage() -> None:
    store = LocalStore(DIMENSIONS)

    def failing(code: int) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError("it failed")
        error.sqlite_errorcode = code
        return error

    shown = {code for code in range(1, 30) if store.is_broken_by(failing(code))}
    assert {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY} <= shown
    assert shown.isdisjoint({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM})
    assert not store.is_broken_by(ValueError("a point that is none"))
