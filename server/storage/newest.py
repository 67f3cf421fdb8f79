"""The newest schema, at once: a new database is made as the tables declare it, and one that is up to date stays.

Only a database of an older version goes through the history (`migrate.py`): an ordinary start does not even load
Alembic, nor does the first one take the way through every schema there ever was. A test holds both ways together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Literal

from sqlalchemy import MetaData, create_mock_engine

from server.storage import recall_tables as recall_tables  # so that its tables are among the others
from server.storage import sqlite
from server.storage.server_tables import ServerTable
from server.storage.session_tables import SessionTable

Tree = Literal["server", "session"]

MIGRATIONS = Path(__file__).parent / "migrations"
_TABLES: Mapping[Tree, MetaData] = {"server": ServerTable.metadata, "session": SessionTable.metadata}
_FIRST_ROWS: Mapping[Tree, tuple[str, ...]] = {
    "server": (
        "INSERT INTO id_counters (name, next_id) VALUES ('turn', 1), ('source_turn', 1)",
        "INSERT INTO house (house_id) VALUES (lower(hex(randomblob(16))))",
    ),
    "session": (),
}
# As Alembic makes it.
_VERSION_TABLE = (
    "CREATE TABLE alembic_version"
    " (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def newest_revision(tree: Tree) -> str:
    """The revision of the newest schema. The files of a tree are named by their revisions, which are numbered."""
    newest = max(path.stem for path in (MIGRATIONS / tree / "versions").glob(f"{tree}_*.py"))
    return "_".join(newest.split("_")[:2])


def is_newest(path: Path, tree: Tree) -> bool:
    """Whether the database at `path` has the newest schema; an empty file is made one that has. Blocks.

    False: `migrate.upgrade` has to see to it. All or nothing, as there. Raises `StorageError`.
    """
    try:
        with closing(sqlite.open_to_prepare(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                _make(connection, tree)
            elif "alembic_version" not in tables or _revisions(connection) != [newest_revision(tree)]:
                return False
            sqlite.refuse_lost_rows(connection.execute("PRAGMA foreign_key_check").fetchone(), path)
            connection.execute("COMMIT")
            return True
    except sqlite3.Error as error:
        raise sqlite.storage_error(error, path) from error


def _revisions(connection: sqlite3.Connection) -> list[str]:
    return [revision for (revision,) in connection.execute("SELECT version_num FROM alembic_version")]


def _make(connection: sqlite3.Connection, tree: Tree) -> None:
    for statement in (*_statements(tree), *_FIRST_ROWS[tree], _VERSION_TABLE):
        connection.execute(statement)
    connection.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (newest_revision(tree),))


@cache
def _statements(tree: Tree) -> tuple[str, ...]:
    """The SQL that makes the tables, their indices and the word indexes."""

    def made() -> Iterator[str]:
        elements: list[object] = []
        engine = create_mock_engine("sqlite://", lambda element, *_: elements.append(element))
        _TABLES[tree].create_all(engine, checkfirst=False)
        for element in elements:
            yield str(element.compile(dialect=engine.dialect))  # type: ignore[attr-defined]

    return tuple(made())
