"""The driver connection: one step to its thread for each statement, and nothing left open behind a cancelled one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from server.storage import sqlite_connection
from server.storage.sqlite_connection import OneHopConnection

pytestmark = pytest.mark.integration


class CountedConnection(OneHopConnection):
    steps = 0

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        self.steps += 1
        return await super()._execute(fn, *args, **kwargs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "words.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT UNIQUE)")
    return path


@pytest.fixture
async def connection(path: Path) -> AsyncIterator[CountedConnection]:
    async with CountedConnection(path) as opened:
        yield opened


async def run(connection: OneHopConnection, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
    cursor = connection.cursor()
    await cursor.execute(sql, parameters)
    return list(await cursor.fetchall())


async def words(path: Path) -> list[str]:
    other = await sqlite_connection.connect(path)
    try:
        return [word for (word,) in await run(other, "SELECT word FROM words ORDER BY id")]
    finally:
        await other.close()


async def test_begin_statement_and_its_rows_are_one_step(connection: CountedConnection, path: Path) -> None:
    connection.begin_with_next("BEGIN IMMEDIATE")
    assert (connection.steps, connection.in_transaction) == (0, False)
    found = await run(connection, "INSERT INTO words (word) VALUES ('猫'), ('𠮷') RETURNING id")
    assert found == [(1,), (2,)]
    assert (connection.steps, connection.in_transaction) == (1, True)
    assert await run(connection, "SELECT word FROM words WHERE id > ?", (0,)) == [("猫",), ("𠮷",)]
    assert connection.steps == 2
    assert await words(path) == []
    await connection.commit()
    assert (connection.steps, connection.in_transaction) == (3, False)
    assert await words(path) == ["猫", "𠮷"]


async def test_ending_a_transaction_that_never_began_takes_no_step(connection: CountedConnection) -> None:
    connection.begin_with_next("BEGIN IMMEDIATE")
    await connection.commit()
    await connection.rollback()
    assert connection.steps == 0
    await run(connection, "SELECT 1")
    assert not connection.in_transaction, "the begin was for the transaction before"


async def test_cursor_tells_what_changed(connection: CountedConnection) -> None:
    cursor = connection.cursor()
    await cursor.executemany("INSERT INTO words (word) VALUES (?)", [("a",), ("b",), ("c",)])
    assert cursor.rowcount == 3
    await cursor.execute("SELECT id, word FROM words")
    assert [column[0] for column in cursor.description] == ["id", "word"]
    await cursor.execute("INSERT INTO words (word) VALUES ('d')")
    assert (cursor.lastrowid, cursor.rowcount, cursor.description) == (4, 1, None)
    assert await cursor.fetchall() == []


async def test_statement_that_fails_leaves_the_transaction_to_be_rolled_back(
    connection: CountedConnection, path: Path
) -> None:
    connection.begin_with_next("BEGIN IMMEDIATE")
    await run(connection, "INSERT INTO words (word) VALUES ('once')")
    with pytest.raises(sqlite3.IntegrityError):
        await run(connection, "INSERT INTO words (word) VALUES ('once')")
    assert connection.in_transaction
    await connection.rollback()
    assert not connection.in_transaction
    assert await words(path) == []


async def test_begin_behind_a_cancelled_caller_is_rolled_back_too(connection: CountedConnection, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # what the cancelled caller waits for
        connection.begin_with_next("BEGIN IMMEDIATE")
        slow = asyncio.create_task(run(connection, "INSERT INTO words (word) VALUES ('late')"))
        await asyncio.sleep(0)
        assert connection.steps == 1
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert slow.cancelled()
        undone = asyncio.create_task(connection.rollback())
        await asyncio.sleep(0)
        other.rollback()
        await undone
    assert await run(connection, "SELECT count(*) FROM words") == [(0,)]
    assert not connection.in_transaction
    assert await words(path) == []
