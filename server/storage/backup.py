"""A backup: one plain tar with a consistent copy of what must not be lost, made beside a running server.

First a manifest with the size and SHA-256 of every file, then each world's database, `server.sqlite` without its
tokens, and the persona. Vectors are left out, since they can be made again, and settings, since they may hold keys. No
byte of what was deleted is in it. Putting one back is in `restoring.py`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import errno
import hashlib
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from server.errors import StorageError
from server.storage import sqlite
from server.storage.database import SERVER_DATABASE, SESSION_DATABASE, WORLDS
from server.storage.recall_tables import WORD_TABLES
from server.storage.swap import finish_swap

VERSION = 1
MANIFEST = "manifest.json"
PERSONA = "persona.yaml"
BLOCK_BYTES = 512
LEFT_OUT = ("stackchan.toml", "index", "speech", "failed-audio", "run.json", "server.lock")
"""Of the data folder: settings (keys may stand in them), what is made again, what is kept for a time only."""

Result = TypeVar("Result")
_PIECE_BYTES = 256 * 1024
PARTIAL = "backup.partial-"


class FileEntry(BaseModel):
    """A file of the backup. `sha256`: of its content, in hex."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What is in a backup, of version 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["stackchan-backup"] = "stackchan-backup"
    version: Literal[1] = 1
    made_at: AwareDatetime
    server: str = ""
    files: list[FileEntry]


@dataclass(frozen=True, slots=True)
class Archive:
    """A backup that can be sent. `size`: of the whole tar, in bytes."""

    size: int
    _manifest: bytes
    _files: tuple[tuple[FileEntry, Path], ...]
    _made_at: float

    async def pieces(self) -> AsyncIterator[bytes]:
        """The tar from its beginning. Raises `StorageError`."""
        pieces = self._pieces()
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece

    def _pieces(self) -> Iterator[bytes]:
        yield self._header(MANIFEST, len(self._manifest)) + _padded(self._manifest)
        for entry, path in self._files:
            yield self._header(entry.name, entry.size)
            with disk_errors(path), path.open("rb") as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece
            if fill := -entry.size % BLOCK_BYTES:
                yield bytes(fill)
        yield bytes(2 * BLOCK_BYTES)

    def _header(self, name: str, size: int) -> bytes:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, int(self._made_at), 0o600
        return info.tobuf(tarfile.USTAR_FORMAT)


@asynccontextmanager
async def make_archive(
    data_dir: Path, *, persona_path: Path | None = None, server_version: str = "", now: dt.datetime
) -> AsyncIterator[Archive]:
    """Copy everything, beside a server that runs on it; the copy is there until the block ends.

    `persona_path`: the owner's own persona; None: none is put in, and who restores it has the server's. Raises
    `StorageError`: `storage_full`, `storage_failed`.
    """
    with disk_errors(data_dir):
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f"{PARTIAL}{os.getpid()}-", dir=data_dir))
    try:
        yield await in_thread(lambda: _copy(data_dir, folder, persona_path, server_version, now))
    finally:
        await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))


def clear_leftovers(data_dir: Path) -> None:
    """Remove copies that a killed process left half made, and finish a restore that was taking its place.

    At start, when nobody else has the data folder. Raises `StorageError`.
    """
    with disk_errors(data_dir):
        finish_swap(data_dir)
    for left in data_dir.glob(f"{PARTIAL}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)


def _copy(data_dir: Path, folder: Path, persona_path: Path | None, server_version: str, now: dt.datetime) -> Archive:
    files: list[tuple[FileEntry, Path]] = []
    with disk_errors(folder):
        for world in sorted((data_dir / WORLDS).glob(f"*/{SESSION_DATABASE}")):
            name = f"{WORLDS}/{world.parent.name}/{SESSION_DATABASE}"
            copy = folder / f"{world.parent.name}.{SESSION_DATABASE}"
            copy_database(world, copy)
            sqlite.scrub(copy, WORD_TABLES)
            files.append((_entry(name, copy), copy))
        # After the worlds: a tombstone is written before anything is forgotten, so none is missing for what is in them.
        copy = folder / SERVER_DATABASE
        copy_database(data_dir / SERVER_DATABASE, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.execute("DELETE FROM tokens")
        sqlite.scrub(copy, ())
        files.append((_entry(SERVER_DATABASE, copy), copy))
        if persona_path is not None:
            copy = folder / PERSONA
            shutil.copyfile(persona_path, copy)
            files.append((_entry(PERSONA, copy), copy))
    manifest = Manifest(made_at=now, server=server_version, files=[entry for entry, _ in files])
    written = manifest.model_dump_json(indent=1).encode()
    sizes = [len(written), *(entry.size for entry, _ in files)]
    total = sum(BLOCK_BYTES + size + -size % BLOCK_BYTES for size in sizes) + 2 * BLOCK_BYTES
    return Archive(total, written, tuple(files), now.timestamp())


def copy_database(source: Path, target: Path) -> None:
    """A consistent copy of a database that others may be writing to. Blocks. Raises `sqlite3.Error`, `OSError`."""
    sqlite.ensure_private_file(target)
    timeout = sqlite.BUSY_TIMEOUT_MS / 1000
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, timeout=timeout)) as reading,
        closing(sqlite3.connect(target, isolation_level=None)) as writing,
    ):
        # All in one step: one state of the database, and writers need not wait for it.
        reading.backup(writing, pages=-1)
        # One file, without a log beside it.
        writing.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the disk or SQLite says, as `StorageError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise sqlite.storage_error(error, path) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StorageError(
            f"{path} cannot be read or written: {error.strerror or error}.",
            code="storage_full" if full else "storage_failed",
            retryable=full,
            hint="Free some space; nothing is lost." if full else "Check the disk and the permissions of the folder.",
        ) from error


async def in_thread(work: Callable[[], Result]) -> Result:
    """Do it in a thread; cancelled, wait for its end all the same, since a thread cannot be stopped."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def _entry(name: str, path: Path) -> FileEntry:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileEntry(name=name, size=path.stat().st_size, sha256=digest)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK_BYTES)
