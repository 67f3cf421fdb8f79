"""Brings a database file up to the newest schema, by Alembic revisions, in one transaction.

Two trees: `migrations/server` and `migrations/session`. Blocking: callers on an event loop run it in a thread. Knows no
table.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from server.errors import StorageError
from server.storage import sqlite

Tree = Literal["server", "session"]

_MIGRATIONS = Path(__file__).parent / "migrations"
# Alembic's `op` and `context` are one per process, so two upgrades may never interleave.
_one_at_a_time = threading.Lock()


def alembic_config(tree: Tree) -> Config:
    """Alembic's configuration for one tree."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS / tree).replace("%", "%%"))
    return config


def upgrade(path: Path, tree: Tree, revision: str = "head") -> None:
    """Upgrade the database at `path`, which exists (an empty file is a new database).

    All or nothing: killed in between, the file is as before. Raises `StorageError`: `storage_newer` when a newer
    version of the server wrote it, else damaged or not ours.
    """
    config = alembic_config(tree)
    engine = sqlite.open_migration_engine(path)
    try:
        with _one_at_a_time, engine.begin() as connection:
            _check_origin(connection, path, tree, ScriptDirectory.from_config(config))
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            sqlite.check_foreign_keys(connection, path)
    except Exception as error:
        if sqlite.is_database_error(error):
            raise sqlite.storage_error(error, path) from error
        raise
    finally:
        engine.dispose()


def _check_origin(connection: Connection, path: Path, tree: Tree, script: ScriptDirectory) -> None:
    known = {revision.revision for revision in script.walk_revisions()}
    heads = MigrationContext.configure(connection).get_current_heads()
    if not heads and sqlite.table_names(connection) - {"alembic_version"}:
        raise StorageError(
            f"{path} is a database of another program.",
            hint="It was left as it is. Move it away, or use another folder.",
        )
    for head in heads:
        if not head.startswith(f"{tree}_"):
            raise StorageError(f"{path} is not a {tree} database ({head}).", hint="Were two files exchanged?")
        if head not in known:
            raise StorageError(
                f"{path} was written by a newer version of the server (schema {head}).",
                code="storage_newer",
                hint="Install that version again, or put back a backup made with this one.",
            )
