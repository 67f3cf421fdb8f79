"""Everything only SQLite knows: pragmas, how a transaction begins, what its error codes mean, whether a file is whole.

Another database would replace this file. Knows no table and no query.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, ColumnElement, Connection, UnaryExpression, event
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.operators import custom_op

from server.errors import StackChanError, StorageError
from server.storage.sqlite_connection import OneHopConnection, connect

BUSY_TIMEOUT_MS = 10_000
QUICK_CHECK_LIMIT_BYTES = 256 * 1024 * 1024
"""Above this the start does not read the whole file; damage is then found when it is met."""

DATABASE_ERRORS = (DBAPIError, StatementError, sqlite3.Error)
"""What `storage_error` explains."""

WRITES = "stackchan_writes"
"""Execution option: True begins a transaction that may write."""

_HEADER = b"SQLite format 3\x00"
_dump_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def open_engine(path: Path) -> AsyncEngine:
    """Connections to an existing, migrated database."""
    # Connections are threads here: enough for readers beside one writer.
    return _engine(path, foreign_keys=True, pool_size=8, max_overflow=24, pool_timeout=30)


def open_migration_engine(path: Path) -> AsyncEngine:
    """One connection for migrations: foreign keys off, since changing a table means rebuilding it."""
    return _engine(path, foreign_keys=False, poolclass=NullPool)


def open_to_prepare(path: Path) -> sqlite3.Connection:
    """The same without an engine, for the start. Blocks; begins no transaction by itself. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)
    try:
        _on_connect(connection, None, foreign_keys=False)
    except BaseException:
        connection.close()
        raise
    return connection


def _engine(path: Path, *, foreign_keys: bool, **pool: Any) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        async_creator=partial(connect, path),
        json_serializer=_dump_json,
        **pool,
    )
    event.listen(engine.sync_engine, "connect", partial(_on_connect, foreign_keys=foreign_keys))
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def ensure_private_file(path: Path) -> None:
    """Create `path` empty when it is missing, and let only its owner read it; SQLite gives its side files the same."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.close(descriptor)
    path.chmod(0o600)


def check_whole(path: Path) -> None:
    """Refuse a file that is not a whole SQLite database. An empty file is a new one. Raises `StorageError`."""
    size = path.stat().st_size
    if size == 0:
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size > 0:
            # Opened as a new database, SQLite would throw the log away, and with it the newest words.
            raise damaged(path, f"it is empty, but {log.name} beside it is not")
        return
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            raise damaged(path, "it is not an SQLite database")
    if size > QUICK_CHECK_LIMIT_BYTES:
        return
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1000)
        try:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise storage_error(error, path) from error
    if found != "ok":
        raise damaged(path, found)


def check_foreign_keys(connection: Connection, path: Path) -> None:
    """Refuse a migration that left rows pointing nowhere. Raises `StorageError`."""
    refuse_lost_rows(connection.exec_driver_sql("PRAGMA foreign_key_check").first(), path)


def refuse_lost_rows(found: Sequence[Any] | None, path: Path) -> None:
    """`found`: the first row of SQLite's `foreign_key_check`. Raises `StorageError` when there is one."""
    if found is not None:
        raise damaged(path, f"a row of {found[0]} points to a missing row of {found[2]}")


def table_names(connection: Connection) -> set[str]:
    """The tables there are, without SQLite's own."""
    rows = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in rows if not name.startswith("sqlite_")}


def upsert(row: type[Any]) -> Insert:
    """An INSERT that can say what to do when the row is there already."""
    return insert(row)


def not_by_index(column: Any) -> ColumnElement[Any]:
    """The same column, which SQLite's planner does not look up in an index (its documented unary plus).

    For queries that must begin elsewhere: a word index asked row by row takes minutes instead of milliseconds.
    """
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


def scrub(path: Path, word_tables: Iterable[str]) -> None:
    """Leave no byte of what was deleted, in the file or its log. Blocks; reads and writes the whole file.

    The file must have no writer meanwhile; readers may go on. Raises `StorageError`: it can be done again later.
    """
    # secure_delete alone is not enough: moving rows between pages leaves copies of them behind (measured: 1 in 150).
    # A word index keeps deleted words until its parts are merged.
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)
        try:
            for table in word_tables:
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
            connection.execute("VACUUM")
            blocked = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise storage_error(error, path) from error
    if blocked:
        raise StorageError(
            f"The log of {path.name} is still being read.", retryable=True, hint="Try again in a moment."
        )


def damaged(path: Path, finding: str) -> StorageError:
    """The error for a file that cannot be trusted; nothing was changed in it."""
    return StorageError(
        f"{path} is damaged: {finding}.",
        hint="It was left as it is. Put a backup in its place, or move it and its -wal file away to start empty.",
    )


def storage_error(error: Exception, path: Path) -> StackChanError:
    """What a database error means, for people and for retrying."""
    cause = error.orig if isinstance(error, StatementError) else error
    if isinstance(cause, StackChanError):
        return cause
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StorageError(
            f"The disk with {path} is full.",
            code="storage_full",
            retryable=True,
            hint="Free some space; what was stored before is there. What was said now is not kept: say it again.",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageError(f"{path} is in use by another program.", retryable=True, hint="Try again in a moment.")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path, str(cause))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
        return StorageError(
            f"{path} cannot be read or written ({cause}).",
            hint="Check the disk and the permissions of the data folder.",
        )
    return StorageError(f"{path} refused: {cause}.")


def _on_connect(connection: Any, _record: Any, *, foreign_keys: bool) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    # FULL: a commit is on the disk when it returns, so an acknowledged word survives a power cut (NORMAL may lose it).
    cursor.execute("PRAGMA synchronous = FULL")
    # What was deleted is overwritten at once, where SQLite can; scrub() does the rest.
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later fails at once with "locked" when another wrote in between, and
    # busy_timeout does not help; taking the write lock at the start waits instead.
    writes = connection.get_execution_options().get(WRITES, True)
    driver: OneHopConnection = connection.connection.driver_connection  # type: ignore[assignment]
    driver.begin_with_next("BEGIN IMMEDIATE" if writes else "BEGIN")
