"""Restoring: all of it or nothing, whatever stops it, and never the numbers of another house."""

from __future__ import annotations

import asyncio
import errno
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from server.errors import StorageError
from server.storage import swap
from server.storage.backup import clear_leftovers
from server.storage.database import Databases
from server.storage.restoring import Restored, restore
from tests.storage.backed_up import (
    LATER,
    OURS,
    THEIRS,
    forget,
    forgotten_in_the_backup,
    house_of,
    names,
    remembered_after_a_start,
    rows_of,
    saved,
    sql,
    tell,
    with_database,
)
from tests.storage.house import NOW

pytestmark = pytest.mark.integration


async def refused(file: Path, data_dir: Path) -> str:
    before = rows_of(data_dir), names(data_dir)
    with pytest.raises(StorageError) as caught:
        await restore(file, data_dir, now=NOW)
    assert (rows_of(data_dir), names(data_dir)) == before
    return caught.value.code


@pytest.fixture
async def houses(tmp_path: Path) -> tuple[Path, Path]:
    """Our folder, and the backup of another house that has forgotten what has our number."""
    await tell(tmp_path / "theirs", 1, THEIRS)
    await forget(tmp_path / "theirs", 1)
    await tell(tmp_path / "theirs", 2, LATER)
    await tell(tmp_path / "ours", 1, OURS)
    return tmp_path / "ours", await saved(tmp_path / "theirs", tmp_path / "theirs.tar")


# Another house


async def test_a_backup_of_another_house_is_refused_and_blanks_nothing(houses: tuple[Path, Path]) -> None:
    ours, theirs = houses
    shutil.copytree(ours / "worlds" / "home", ours / "worlds" / "lab")
    assert await refused(theirs, ours) == "backup_of_another_house"
    assert await remembered_after_a_start(ours) == [OURS]
    assert await remembered_after_a_start(ours, "lab") == [OURS]


async def test_a_backup_of_another_house_does_not_bring_forgotten_words_back(
    tmp_path: Path, houses: tuple[Path, Path]
) -> None:
    ours, theirs = houses
    early = await saved(ours, tmp_path / "early.tar")
    await forget(ours, 1)
    assert await refused(theirs, ours) == "backup_of_another_house"
    await restore(early, ours, now=NOW)
    assert await remembered_after_a_start(ours) == []
    assert OURS.encode() not in (ours / "worlds" / "home" / "session.sqlite").read_bytes()


@pytest.mark.parametrize("started", [False, True])
async def test_a_folder_where_nothing_was_said_becomes_that_house(
    tmp_path: Path, houses: tuple[Path, Path], started: bool
) -> None:
    _, theirs = houses
    if started:
        async with await Databases.open(tmp_path / "new", "home"):
            pass
    await restore(theirs, tmp_path / "new", now=NOW)
    assert house_of(tmp_path / "new") == house_of(tmp_path / "theirs")
    assert rows_of(tmp_path / "new")["tombstones"] == rows_of(tmp_path / "theirs")["tombstones"]
    assert await remembered_after_a_start(tmp_path / "new") == [LATER]
    await restore(theirs, tmp_path / "new", now=NOW)
    assert await remembered_after_a_start(tmp_path / "new") == [LATER]


async def test_a_house_that_forgot_all_it_had_is_no_empty_one(tmp_path: Path, houses: tuple[Path, Path]) -> None:
    ours, theirs = houses
    await forget(ours, 1)
    shutil.rmtree(ours / "worlds")
    assert await refused(theirs, ours) == "backup_of_another_house"


async def test_a_house_that_went_on_on_two_computers_is_two_houses(tmp_path: Path, houses: tuple[Path, Path]) -> None:
    ours, _ = houses
    shutil.copytree(ours, tmp_path / "copy")
    await tell(tmp_path / "copy", 2, THEIRS)
    other_time = sql("UPDATE source_turns SET said_at = '2026-12-24 18:00:00.000000' WHERE source_turn_id = 20")
    other_time(tmp_path / "copy" / "worlds" / "home" / "session.sqlite")
    await tell(ours, 2, LATER)
    assert house_of(tmp_path / "copy") == house_of(ours)
    assert await refused(await saved(tmp_path / "copy", tmp_path / "copy.tar"), ours) == "backup_of_another_house"
    assert await remembered_after_a_start(ours) == [OURS, LATER]


async def test_a_backup_that_does_not_say_its_house_needs_an_empty_folder(
    tmp_path: Path, houses: tuple[Path, Path]
) -> None:
    ours, _ = houses
    old = sql("DROP TABLE timers", "DROP TABLE house", "UPDATE alembic_version SET version_num = 'server_0002'")
    file = with_database(await saved(ours, tmp_path / "a.tar"), "server.sqlite", old, tmp_path / "old.tar")
    assert await refused(file, ours) == "backup_of_another_house"
    await restore(file, tmp_path / "new", now=NOW)
    assert await remembered_after_a_start(tmp_path / "new") == [OURS]
    assert len(rows_of(tmp_path / "new")["house"]) == 1


@pytest.mark.parametrize("other_world", [False, True])
async def test_without_a_server_database_only_what_is_moved_aside_is_replaced(
    tmp_path: Path, houses: tuple[Path, Path], other_world: bool
) -> None:
    ours, _ = houses
    file = await saved(ours, tmp_path / "a.tar")
    if other_world:
        shutil.copytree(ours / "worlds" / "home", ours / "worlds" / "lab")
    house = house_of(ours)
    (ours / "server.sqlite").unlink()
    if other_world:
        with pytest.raises(StorageError) as caught:
            await restore(file, ours, now=NOW)
        assert caught.value.code == "backup_of_another_house"
    else:
        await restore(file, ours, now=NOW)
        assert house_of(ours) == house
        assert await remembered_after_a_start(ours) == [OURS]


# Refused or cut off


NEWER = sql("UPDATE alembic_version SET version_num = '9999_future'")
WRONG: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("newer world", "worlds/home/session.sqlite", NEWER, "storage_newer"),
    ("newer server", "server.sqlite", NEWER, "storage_newer"),
    ("no database", "worlds/home/session.sqlite", lambda f: f.write_bytes(b"none" * 999), "storage_failed"),
]


@pytest.mark.parametrize(("name", "change", "code"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
async def test_a_refused_backup_leaves_the_server_database_as_it_was(
    tmp_path: Path, name: str, change: Callable[[Path], object], code: str
) -> None:
    ours = tmp_path / "ours"
    await tell(ours, 1, OURS)
    await tell(ours, 2, LATER)
    shutil.copytree(ours, tmp_path / "copy")
    await forget(tmp_path / "copy", 1)
    file = with_database(await saved(tmp_path / "copy", tmp_path / "a.tar"), name, change, tmp_path / "bad.tar")
    assert await refused(file, ours) == code
    assert await remembered_after_a_start(ours) == [OURS, LATER]


class KilledError(BaseException):
    """Nothing is cleaned up after it."""


async def cut_off(
    file: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch, *, moves: int, error: BaseException
) -> Restored | None:
    move, done = swap._move, 0

    def stopping(folder: Path, step: swap.Step) -> None:
        nonlocal done
        if done == moves:
            raise error
        done += 1
        move(folder, step)

    with monkeypatch.context() as patched:
        patched.setattr(swap, "_move", stopping)
        try:
            return await restore(file, data_dir, now=NOW)
        except (KilledError, StorageError):
            return None


@pytest.mark.parametrize("opened_by", ["a start", "a command"])
@pytest.mark.parametrize("moves", range(4))
async def test_killed_while_it_takes_its_place_it_is_finished_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int, opened_by: str
) -> None:
    ours, file = await forgotten_in_the_backup(tmp_path)
    assert await cut_off(file, ours, monkeypatch, moves=moves, error=KilledError()) is None
    assert swap.PLAN in names(ours)
    if opened_by == "a start":
        await asyncio.to_thread(clear_leftovers, ours)
    assert await remembered_after_a_start(ours) == [LATER]
    assert names(ours) == ["replaced-20261130T120000Z", "server.sqlite", "worlds"]
    assert rows_of(ours)["tombstones"] == rows_of(tmp_path / "copy")["tombstones"]
    with closing(sqlite3.connect(ours / "replaced-20261130T120000Z" / "worlds" / "home" / "session.sqlite")) as aside:
        assert (OURS,) in aside.execute("SELECT text FROM source_turns").fetchall()


@pytest.mark.parametrize("moves", range(4))
async def test_a_rename_that_fails_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    ours, file = await forgotten_in_the_backup(tmp_path)
    before = rows_of(ours)
    full = OSError(errno.ENOSPC, "No space left on device")
    assert await cut_off(file, ours, monkeypatch, moves=moves, error=full) is None
    assert (rows_of(ours), names(ours)) == (before, ["server.sqlite", "worlds"])
    assert await remembered_after_a_start(ours) == [OURS]


async def test_a_plan_whose_files_are_gone_moves_nothing(tmp_path: Path) -> None:
    await tell(tmp_path, 1, OURS)
    step = swap.Step(source="worlds/home", target="replaced-x/worlds/home", aside=True)
    plan = swap.Plan(stage="backup.partial-1-x", steps=[step])
    (tmp_path / swap.PLAN).write_text(plan.model_dump_json(), encoding="utf-8")
    assert await remembered_after_a_start(tmp_path) == [OURS]
    assert names(tmp_path) == ["server.sqlite", "worlds"]


async def test_a_plan_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    await tell(tmp_path, 1, OURS)
    (tmp_path / swap.PLAN).write_bytes(b"{")
    with pytest.raises(StorageError, match="a restore was cut off here"):
        await Databases.open(tmp_path, "home")
