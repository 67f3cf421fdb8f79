"""Opens the two databases of a running server and hands out sessions that commit or roll back.

`server.sqlite` is never rewound; each world has its own `session.sqlite`. Knows no query: those live in one file a
domain and take the `db` that comes from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy.ext.asyncio import AsyncEngine
from sqlmodel.ext.asyncio.session import AsyncSession

from server.errors import StorageError
from server.storage import sqlite
from server.storage.ids import raise_counters
from server.storage.newest import Tree, is_newest
from server.storage.recall_tables import WORD_TABLES
from server.storage.swap import finish_swap
from server.storage.turns import highest_ids

SERVER_DATABASE = "server.sqlite"
SESSION_DATABASE = "session.sqlite"
WORLDS = "worlds"

Db = AsyncSession
"""What a query function takes. Other rooms call the type by this name: they do not know the library."""


class Database:
    """One SQLite file: many readers, one writer at a time, in the order they came."""

    def __init__(self, path: Path, engine: AsyncEngine) -> None:
        self.path = path
        self._engine = engine
        self._reading = engine.execution_options(**{sqlite.WRITES: False})
        self._write_turn = asyncio.Lock()
        self._writer: asyncio.Task[object] | None = None

    @classmethod
    async def open(cls, path: Path, tree: Tree) -> Self:
        """Create or upgrade the file, then open it. Raises `StorageError`."""
        if not await asyncio.to_thread(_prepare, path, tree):
            # Only an older database needs its history, and loading Alembic takes longer than most starts.
            from server.storage.migrate import upgrade

            await upgrade(path, tree)
        return cls(path, sqlite.open_engine(path))

    async def close(self) -> None:
        await self._engine.dispose()

    @asynccontextmanager
    async def session(self, *, write: bool = True) -> AsyncIterator[AsyncSession]:
        """One transaction: committed when the block ends, rolled back when it raises. Raises `StorageError`.

        `write=False` sees one consistent state and never waits. Keep a writing block short: it holds up all others.
        """
        if write:
            # SQLite's own waiting polls and is not fair; this queue is.
            if self._writer is not None and self._writer is asyncio.current_task():
                raise RuntimeError(f"a writing session of {self.path.name} is open in this task already")
            async with self._write_turn:
                self._writer = asyncio.current_task()
                try:
                    async with self._transaction(self._engine) as db:
                        yield db
                finally:
                    self._writer = None
        else:
            async with self._transaction(self._reading) as db:
                yield db

    async def scrub(self, word_tables: Sequence[str] = ()) -> None:
        """Leave no byte of what was deleted in the file or its log; writers wait. Raises `StorageError`.

        Reads and writes the whole file (about a second for 100 MB). Outside any writing session of this task.
        """
        async with self._write_turn:
            # A thread cannot be cancelled; the writers behind must not meet it half done.
            scrubbing = asyncio.ensure_future(asyncio.to_thread(sqlite.scrub, self.path, word_tables))
            try:
                await asyncio.shield(scrubbing)
            except asyncio.CancelledError:
                await scrubbing
                raise

    @asynccontextmanager
    async def _transaction(self, engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
        try:
            async with AsyncSession(engine, expire_on_commit=False) as db:
                yield db
                await _finish(db)
        except sqlite.DATABASE_ERRORS as error:
            # Devices read this: the file by its name, not where it lies.
            raise sqlite.storage_error(error, Path(self.path.name)) from error


class Databases:
    """The server's database and the open world's."""

    def __init__(self, server: Database, world: Database) -> None:
        self._server = server
        self._world = world

    @classmethod
    async def open(cls, data_dir: Path, world: str) -> Self:
        """Create, upgrade and open both. Folders made here are 0700, files 0600. Raises `StorageError`.

        A restore that was cut off is finished first, so the caller holds the data folder.
        Use as `async with await Databases.open(...)`, or call `close()`.
        """
        await asyncio.to_thread(_finish_restore, data_dir)
        server = await Database.open(data_dir / SERVER_DATABASE, "server")
        try:
            session = await Database.open(data_dir / WORLDS / world / SESSION_DATABASE, "session")
        except BaseException:
            await server.close()
            raise
        databases = cls(server, session)
        try:
            # A server.sqlite that was lost or is older than the world must not give out ids the world has used.
            async with databases.world(write=False) as db:
                used = await highest_ids(db)
            async with databases.server() as db:
                await raise_counters(db, used)
        except BaseException:
            await databases.close()
            raise
        return databases

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def world_folder(self) -> Path:
        """Where the open world lies."""
        return self._world.path.parent

    async def close(self) -> None:
        """Close both; safe to call twice."""
        await self._world.close()
        await self._server.close()

    @asynccontextmanager
    async def server(self, *, write: bool = True) -> AsyncIterator[AsyncSession]:
        """A transaction on `server.sqlite`; see `Database.session`."""
        async with self._server.session(write=write) as db:
            yield db

    @asynccontextmanager
    async def world(self, *, write: bool = True) -> AsyncIterator[AsyncSession]:
        """A transaction on the open world's `session.sqlite`; see `Database.session`."""
        async with self._world.session(write=write) as db:
            yield db

    async def scrub_world(self) -> None:
        """After a forgetting: leave no byte of it in the world's database. See `Database.scrub`."""
        await self._world.scrub(WORD_TABLES)


async def _finish(db: AsyncSession) -> None:
    # A commit cut in the middle by cancellation would leave nobody knowing whether it happened: it is finished first.
    commit = asyncio.ensure_future(db.commit())
    try:
        await asyncio.shield(commit)
    except asyncio.CancelledError:
        await commit
        raise


def _finish_restore(data_dir: Path) -> None:
    try:
        finish_swap(data_dir)
    except OSError as error:
        raise StorageError(
            f"A restore into {data_dir} was cut off and cannot be finished ({error}).",
            hint="Check the disk and the data folder's permissions, then start again.",
        ) from error


def _prepare(path: Path, tree: Tree) -> bool:
    """Whether it is of the newest schema by now."""
    try:
        _make_private_folders(path.parent)
        sqlite.ensure_private_file(path)
        sqlite.check_whole(path)
        return is_newest(path, tree)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be opened ({error.strerror}).", hint="Check the disk and the data folder's permissions."
        ) from error


def _make_private_folders(folder: Path) -> None:
    # A data folder that was there before may hold other things and keeps its permissions; ours inside it do not.
    for missing in reversed([folder, *folder.parents]):
        if not missing.exists():
            missing.mkdir(mode=0o700, exist_ok=True)
    if folder.parent.name == WORLDS:
        folder.parent.chmod(0o700)
        folder.chmod(0o700)
