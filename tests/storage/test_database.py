"""Opening, permissions, transactions, and what damage and full disks are answered with."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from server.errors import StorageError
from server.storage import sqlite
from server.storage.database import Databases
from server.storage.devices import ensure_device, get_device
from tests.storage.house import NOW, make_session, make_turn

pytestmark = pytest.mark.integration


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def open_and_close(data_dir: Path) -> None:
    await (await Databases.open(data_dir, "home")).close()


async def test_folders_and_files_are_the_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        async with await Databases.open(tmp_path / "deep" / "data", "home") as databases:
            await make_session(databases)
            modes = {path.name: mode(path) for path in (tmp_path / "deep").rglob("*")}
    finally:
        os.umask(old)
    sqlite_files = {f"{name}.sqlite{side}" for name in ("server", "session") for side in ("", "-wal", "-shm")}
    assert modes == dict.fromkeys(sqlite_files, 0o600) | dict.fromkeys(("data", "worlds", "home"), 0o700)
    assert mode(tmp_path / "deep") == 0o700


async def test_files_that_others_could_read_are_closed_to_them(tmp_path: Path) -> None:
    await open_and_close(tmp_path)
    (tmp_path / "server.sqlite").chmod(0o644)
    (tmp_path / "worlds" / "home").chmod(0o755)
    await open_and_close(tmp_path)
    assert mode(tmp_path / "server.sqlite") == 0o600
    assert mode(tmp_path / "worlds" / "home") == 0o700


async def test_data_folder_that_was_there_keeps_its_permissions(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    await open_and_close(tmp_path)
    assert mode(tmp_path) == 0o755


async def test_folder_name_with_signs_of_an_address(tmp_path: Path) -> None:
    folder = tmp_path / "my data?mode=ro#x%20家"
    await open_and_close(folder)
    assert (folder / "server.sqlite").stat().st_size > 0


async def test_connections_are_set_up_as_promised(databases: Databases) -> None:
    for write in (True, False):
        async with databases.world(write=write) as db:
            connection = await db.connection()
            found = {
                name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


async def test_block_that_raises_is_rolled_back(databases: Databases) -> None:
    async def write_and_fail() -> None:
        async with databases.server() as db:
            await ensure_device(db, "desk", now=NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write_and_fail()
    async with databases.server(write=False) as db:
        assert await get_device(db, "desk") is None


async def test_world_keeps_its_data_and_worlds_share_none(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        session_id = await make_session(databases)
    async with await Databases.open(tmp_path, "play") as databases, databases.world(write=False) as db:
        assert (await db.connection()).engine is not None
        assert (await (await db.connection()).execute(text("SELECT count(*) FROM sessions"))).scalar_one() == 0
    async with await Databases.open(tmp_path, "home") as databases, databases.world(write=False) as db:
        ids = (await (await db.connection()).execute(text("SELECT session_id FROM sessions"))).scalars().all()
    assert ids == [session_id]


async def test_two_worlds_open_at_the_same_time(tmp_path: Path) -> None:
    opened = await asyncio.gather(*(Databases.open(tmp_path / name, "home") for name in "abcd"))
    for databases in opened:
        await make_session(databases)
        await databases.close()


async def test_reader_does_not_wait_for_the_writer_and_sees_what_was_committed(databases: Databases) -> None:
    async with databases.server() as writing:
        await ensure_device(writing, "desk", now=NOW)
        async with asyncio.timeout(5), databases.server(write=False) as reading:
            assert await get_device(reading, "desk") is None
    async with databases.server(write=False) as reading:
        assert await get_device(reading, "desk") is not None


async def test_read_and_write_by_many_tasks_loses_nothing(databases: Databases) -> None:
    async with databases.server() as db:
        await ensure_device(db, "count", now=NOW, name="0")

    async def add_one() -> None:
        async with databases.server() as db:
            connection = await db.connection()
            before = int((await connection.execute(text("SELECT name FROM devices"))).scalar_one())
            await asyncio.sleep(0)
            await connection.execute(text("UPDATE devices SET name = :name"), {"name": str(before + 1)})

    await asyncio.gather(*(add_one() for _ in range(40)))
    async with databases.server(write=False) as db:
        device = await get_device(db, "count")
    assert device is not None
    assert device.name == "40"


async def test_writing_inside_writing_is_a_mistake_that_says_so(databases: Databases) -> None:
    async with databases.server():
        with pytest.raises(RuntimeError, match="open in this task already"):
            async with databases.server():
                pass
    async with databases.server() as db:
        await ensure_device(db, "desk", now=NOW)


async def test_cancelled_writers_leave_no_half_and_no_lock(databases: Databases) -> None:
    session_id = await make_session(databases)
    for steps in range(60):
        task = asyncio.create_task(make_turn(databases, steps + 1, session_id))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(10):
        await make_turn(databases, 1000, session_id)


async def test_full_disk(databases: Databases) -> None:
    session_id = await make_session(databases)

    async def write_more_than_fits() -> None:
        async with databases.world() as db:
            connection = await db.connection()
            pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
            await connection.execute(text(f"PRAGMA max_page_count = {pages}"))
            change = text("UPDATE sessions SET label = :label WHERE session_id = :id")
            await connection.execute(change, {"label": "x" * 10**6, "id": session_id})

    with pytest.raises(StorageError) as caught:
        await write_more_than_fits()
    assert caught.value.code == "storage_full"
    assert caught.value.retryable
    assert "session.sqlite" in caught.value.message


async def test_file_locked_by_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 20)
    async with await Databases.open(tmp_path, "home") as databases:
        with closing(sqlite3.connect(tmp_path / "server.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageError) as caught:
                async with databases.server() as db:
                    await ensure_device(db, "desk", now=NOW)
            assert caught.value.retryable
            assert "in use by another program" in caught.value.message
            other.execute("ROLLBACK")
        async with databases.server() as db:
            await ensure_device(db, "desk", now=NOW)


async def refused(data_dir: Path) -> StorageError:
    with pytest.raises(StorageError) as caught:
        await Databases.open(data_dir, "home")
    return caught.value


async def test_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "server.sqlite"
    path.write_bytes(b"my diary, not a database" * 100)
    error = await refused(tmp_path)
    assert error.code == "storage_failed"
    assert f"{path} is damaged: it is not an SQLite database." in error.message
    assert "Put a backup in its place" in str(error)
    assert path.read_bytes() == b"my diary, not a database" * 100


@pytest.mark.parametrize("damage", ["overwritten", "cut"])
async def test_damaged_database_is_noticed_at_start_and_left(tmp_path: Path, damage: str) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        session_id = await make_session(databases)
        for turn_id in range(1, 30):
            await make_turn(databases, turn_id, session_id)
    path = tmp_path / "worlds" / "home" / "session.sqlite"
    whole = path.read_bytes()
    broken = whole[:8192] + b"\xff" * 8192 + whole[16384:] if damage == "overwritten" else whole[:20_000]
    path.write_bytes(broken)
    error = await refused(tmp_path)
    assert error.code == "storage_failed"
    assert f"{path} is damaged" in error.message
    assert path.read_bytes() == broken


async def test_database_of_another_program_is_left(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "server.sqlite")) as other:
        other.execute("CREATE TABLE recipes (name)")
        other.commit()
    assert "is a database of another program" in (await refused(tmp_path)).message
    with closing(sqlite3.connect(tmp_path / "server.sqlite")) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]


async def test_exchanged_files_are_noticed(tmp_path: Path) -> None:
    await open_and_close(tmp_path)
    session = tmp_path / "worlds" / "home" / "session.sqlite"
    (tmp_path / "server.sqlite").unlink()
    session.rename(tmp_path / "server.sqlite")
    assert "is not a server database (session_" in (await refused(tmp_path)).message


async def test_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    await open_and_close(tmp_path)
    with closing(sqlite3.connect(tmp_path / "server.sqlite")) as other:
        other.execute("UPDATE alembic_version SET version_num = 'server_9999'")
        other.commit()
    error = await refused(tmp_path)
    assert error.code == "storage_newer"
    assert "newer version of the server (schema server_9999)" in error.message


async def test_data_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    assert "cannot be opened" in (await refused(tmp_path / "data")).message
