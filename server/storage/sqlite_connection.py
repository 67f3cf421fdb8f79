"""A driver connection that goes to its thread once for each statement: begin, execute, fetch and close together.

The one it extends goes there four times, and between two threads each way costs more than most of our statements. All
rows are fetched at once; there are no cursors that stay open. Knows SQLite's driver; no table, query or SQLAlchemy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

T = TypeVar("T")


async def connect(path: Path) -> OneHopConnection:
    """Open an existing file. Begins no transaction by itself: `begin_with_next` does. Raises `sqlite3.Error`."""
    connection = OneHopConnection(path)
    await connection
    return connection


class OneHopConnection(aiosqlite.Connection):
    """One connection and its thread. For one task at a time."""

    def __init__(self, path: Path) -> None:
        # isolation_level None: the driver begins nothing by itself. A pool ends connections from any thread.
        super().__init__(lambda: sqlite3.connect(path, isolation_level=None, check_same_thread=False), 64)
        self._thread.daemon = True  # a process that is to end waits for no idle connection
        self._begin: str | None = None
        self._sent = 0
        self._done = 0

    def begin_with_next(self, begin: str) -> None:
        """Begin a transaction (`BEGIN`, `BEGIN IMMEDIATE`) right before the next statement, in the same step."""
        self._begin = begin

    def cursor(self) -> Cursor:  # type: ignore[override]  # used as `async with` by the library, like the one it replaces
        return Cursor(self)

    async def commit(self) -> None:
        if self._in_transaction():
            await self.hop(self._conn.commit)

    async def rollback(self) -> None:
        if self._in_transaction():
            await self.hop(self._conn.rollback)

    async def statement(self, run: Callable[[sqlite3.Cursor], object]) -> Result:
        """Run one statement on a new cursor, after the begin that waits for it."""
        begin, self._begin = self._begin, None
        connection = self._conn

        def work() -> Result:
            if begin is not None:
                connection.execute(begin).close()
            cursor = connection.cursor()
            try:
                run(cursor)
                rows = cursor.fetchall() if cursor.description else []
                return Result(cursor.description, cursor.rowcount, cursor.lastrowid, rows)
            finally:
                cursor.close()

        return await self.hop(work)

    async def hop(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread. Who is cancelled meanwhile leaves it running."""

        def counted() -> T:
            try:
                return work()
            finally:
                self._done += 1

        self._sent += 1
        result: T = await self._execute(counted)  # type: ignore[no-untyped-call]
        return result

    def _in_transaction(self) -> bool:
        self._begin = None
        # What a cancelled caller left behind may still begin one.
        return self._sent != self._done or self.in_transaction


class Result:
    """What a statement gave."""

    __slots__ = ("description", "lastrowid", "rowcount", "rows")

    def __init__(
        self, description: Any = None, rowcount: int = -1, lastrowid: int | None = None, rows: Any = ()
    ) -> None:
        self.description = description
        self.rowcount = rowcount
        self.lastrowid = lastrowid
        self.rows: Sequence[Any] = rows


class Cursor:
    """As SQLAlchemy uses one: execute once, fetch everything, close."""

    __slots__ = ("_connection", "_result", "arraysize")

    def __init__(self, connection: OneHopConnection) -> None:
        self._connection = connection
        self._result = Result()
        self.arraysize = 1

    @property
    def description(self) -> Any:
        return self._result.description

    @property
    def rowcount(self) -> int:
        return self._result.rowcount

    @property
    def lastrowid(self) -> int | None:
        return self._result.lastrowid

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> Self:
        self._result = await self._connection.statement(lambda cursor: cursor.execute(sql, parameters))
        return self

    async def executemany(self, sql: str, parameters: Iterable[Any]) -> Self:
        self._result = await self._connection.statement(lambda cursor: cursor.executemany(sql, parameters))
        return self

    async def fetchall(self) -> Sequence[Any]:
        return self._result.rows

    async def close(self) -> None:
        """Nothing is open."""
