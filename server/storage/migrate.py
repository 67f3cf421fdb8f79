"""Brings an older database up to the newest schema, by Alembic revisions, in one transaction.

Two trees: `migrations/server` and `migrations/session`. Revisions are given their `op`: Alembic's own is one per
process, and two worlds may be opened at the same time. Knows no table.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from server.errors import StorageError
from server.storage import sqlite
from server.storage.newest import MIGRATIONS, Tree


def script_directory(tree: Tree) -> ScriptDirectory:
    """The revisions of one tree."""
    folder = MIGRATIONS / tree
    return ScriptDirectory(folder, version_locations=[folder / "versions"])


async def upgrade(path: Path, tree: Tree, revision: str = "head") -> None:
    """Upgrade the database at `path`, which exists (an empty file is a new database).

    All or nothing: killed in between, the file is as before. Raises `StorageError`: `storage_newer` when a newer
    version of the server wrote it, else damaged or not ours.
    """
    engine = sqlite.open_migration_engine(path)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_upgrade, path, tree, revision)
    except sqlite.DATABASE_ERRORS as error:
        raise sqlite.storage_error(error, path) from error
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, path: Path, tree: Tree, revision: str) -> None:
    script = script_directory(tree)

    def steps(heads: Any, _context: MigrationContext) -> Iterable[MigrationStep]:
        _check_origin(connection, path, tree, script, heads)
        missing = list(script.iterate_revisions(revision, heads, implicit_base=True))
        return [MigrationStep.upgrade_from_script(script.revision_map, found) for found in reversed(missing)]

    context = MigrationContext.configure(connection, opts={"script": script, "fn": steps, "transactional_ddl": True})
    context.run_migrations(op=Operations(context))
    sqlite.check_foreign_keys(connection, path)


def _check_origin(
    connection: Connection, path: Path, tree: Tree, script: ScriptDirectory, heads: Iterable[str]
) -> None:
    known = {revision.revision for revision in script.walk_revisions()}
    if not tuple(heads) and sqlite.table_names(connection) - {"alembic_version"}:
        raise StorageError(
            f"{path} is a database of another program.",
            hint="It was left as it is. Move it away, or use another folder.",
        )
    for head in heads:
        if head not in known and head.startswith(tuple(f"{other}_" for other in get_args(Tree) if other != tree)):
            raise StorageError(f"{path} is not a {tree} database ({head}).", hint="Were two files exchanged?")
        if head not in known:
            raise StorageError(
                f"{path} was written by a newer version of the server (schema {head}).",
                code="storage_newer",
                hint="Install that version again, or put back a backup made with this one.",
            )
