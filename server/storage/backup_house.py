"""Whose house a backup is of: numbers mean something in one house only.

Reads both sides as they are, also of older versions; changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from server.errors import StorageError
from server.storage.backup import disk_errors
from server.storage.database import SERVER_DATABASE, SESSION_DATABASE, WORLDS


def takes_over_house(stage: Path, data_dir: Path, worlds: Sequence[str]) -> bool:
    """Whether the data folder becomes the house of the backup in `stage`; False: it is that house. Blocks.

    Raises `StorageError` (`backup_of_another_house`).
    """
    here = {path.parent.name: path for path in (data_dir / WORLDS).glob(f"*/{SESSION_DATABASE}")}
    spoken = {world: _said(path) for world, path in here.items()}
    if not (data_dir / SERVER_DATABASE).exists():
        # Lost, perhaps. Worlds of the same name are moved aside; in others its tombstones might blank anything.
        if all(said == {} for world, said in spoken.items() if world not in worlds):
            return True
        raise _of_another_house("the data folder does not say whose it is")
    house = _house_of(data_dir / SERVER_DATABASE)
    if house is None or house != _house_of(stage / SERVER_DATABASE):
        if all(said == {} for said in spoken.values()) and not _has_tombstones(data_dir / SERVER_DATABASE):
            return True
        raise _of_another_house("it was made in another house, or before backups said in which")
    for world in worlds:
        there = _said(stage / WORLDS / world / SESSION_DATABASE) or {}
        for said in spoken.values():
            if said is not None and any(said[number] != there[number] for number in said.keys() & there.keys()):
                raise _of_another_house("another computer has gone on with this house since")
    return False


def _house_of(path: Path) -> str | None:
    """None: made by a version that did not write it down yet."""
    with disk_errors(path), closing(_opened(path)) as connection:
        if not _has_table(connection, "house"):
            return None
        row = connection.execute("SELECT house_id FROM house").fetchone()
        return None if row is None else str(row[0])


def _has_tombstones(path: Path) -> bool:
    with disk_errors(path), closing(_opened(path)) as connection:
        return _has_table(connection, "tombstones") and (
            connection.execute("SELECT 1 FROM tombstones LIMIT 1").fetchone() is not None
        )


def _said(path: Path) -> Mapping[int, tuple[str, str]] | None:
    """Session and time of each source turn; None when it cannot be read."""
    try:
        with closing(_opened(path)) as connection:
            if not _has_table(connection, "source_turns"):
                return {}
            rows = connection.execute("SELECT source_turn_id, session_id, said_at FROM source_turns")
            return {number: (session_id, said_at) for number, session_id, said_at in rows}
    except sqlite3.Error:  # a damaged database is what a backup is put back for
        return None


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
    return found.fetchone() is not None


def _of_another_house(why: str) -> StorageError:
    return StorageError(
        f"The backup is of another house: {why}.",
        code="backup_of_another_house",
        hint="Nothing was changed. Restore it into an empty folder, with STACKCHAN_DATA_DIR.",
    )
