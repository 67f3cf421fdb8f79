"""What the backends with a folder of their own share: one thread, the folder's life, and what damage leads to.

The library behind it is a `Store`, which blocks and knows its own files only. Every call runs on one thread: Qdrant's
local mode loses points when two use it, and the embedded engine gains nothing from more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from server.engines.base import EmbeddingFingerprint
from server.errors import IndexDamaged, MemoryIndexError
from server.events import Samples
from server.memory.index.base import (
    EVERYTHING,
    IndexFilter,
    IndexHit,
    IndexPoint,
    OpenReport,
    StoredPoint,
    checked_limit,
    checked_points,
    closed,
    invalid,
    point_ids,
    unit_vector,
)
from server.memory.index.folder import IndexFolder, Mark

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

_log = logging.getLogger(__name__)


class Store(Protocol):
    """A library's points in a folder. Blocks; called from one thread at a time."""

    backend: str
    takes_filters: bool
    write_batch: int
    """Points of one `write`: searches take their turn between two of them."""

    def create(self, data: Path) -> None:
        """Begin in an empty folder."""

    def load(self, data: Path) -> None:
        """Read what is there. Raises `IndexDamaged` for what cannot be read."""

    def close(self) -> None:
        """Safe to call twice and before `create` or `load`."""

    def write(self, points: Sequence[StoredPoint]) -> None: ...

    def remove(self, points: dict[str, str]) -> None:
        """`points`: {point id: memory id}."""

    def settle(self) -> None:
        """Bring what was written to the disk."""

    def is_broken_by(self, error: BaseException) -> bool:
        """Whether a call that failed so shows damage, not what passes, as a full disk does."""

    def rank(self, vector: Samples, limit: int, only: Collection[str] | None, where: IndexFilter) -> list[IndexHit]: ...

    def count(self) -> int: ...

    def ids(self) -> set[str]: ...

    def vectors(self, points: dict[str, str]) -> dict[str, Samples]: ...


class EmbeddedIndex:
    """Implements `MemoryIndex` over a `Store`."""

    def __init__(self, path: Path, fingerprint: EmbeddingFingerprint, store: Store) -> None:
        self.backend = store.backend
        self.fingerprint = fingerprint
        self.takes_filters = store.takes_filters
        self._store = store
        self._folder = IndexFolder(path, store.backend, fingerprint)
        self._executor: ThreadPoolExecutor | None = None
        self._damage = ""

    async def open(self, *, discard: bool = False) -> OpenReport:
        """As `MemoryIndex.open`; a second one is refused (`index_invalid`)."""
        if self._executor is not None:
            raise invalid("it is open already")
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"index-{self.backend}")
        try:
            return await self._call(self._open, discard)
        except BaseException:
            await self._stop()
            raise

    async def close(self) -> None:
        await self._stop()

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        ready = await self._call(checked_points, points, self.fingerprint.dimensions)
        await self._call(self._refuse_damaged)
        for start in range(0, len(ready), self._store.write_batch):
            await self._call(self._store.write, ready[start : start + self._store.write_batch])
        if ready:
            await self._call(self._store.settle)

    async def delete(self, memory_ids: Collection[str]) -> None:
        points = point_ids(memory_ids)
        if points:
            await self._call(self._store.remove, points)
            await self._call(self._store.settle)

    async def search(
        self, vector: Samples, *, limit: int, only: Collection[str] | None = None, where: IndexFilter = EVERYTHING
    ) -> list[IndexHit]:
        if where and not self.takes_filters:
            raise invalid(f"the backend {self.backend} takes the ids that SQL allowed, and no filter")
        where.dates()
        query = unit_vector(vector, self.fingerprint.dimensions)
        return await self._call(self._store.rank, query, checked_limit(limit), only, where)

    async def count(self) -> int:
        return await self._call(self._count)

    async def ids(self) -> set[str]:
        return await self._call(self._store.ids)

    async def vectors(self, memory_ids: Collection[str]) -> dict[str, Samples]:
        return await self._call(self._store.vectors, point_ids(memory_ids))

    async def drop(self) -> None:
        await self._call(self._begin)

    async def optimize(self) -> bool:
        return False

    # --- on the thread ---

    def _open(self, discard: bool) -> OpenReport:
        self._folder.hold()
        damage, moved_to = "", None
        try:
            mark = self._folder.inspect()
            if mark is not None and mark.made and not discard:
                self._folder.check(mark)
                return self._load(mark)
        except IndexDamaged as error:
            damage = error.message
            with suppress(Exception):  # whatever it says, the folder is moved away next
                self._store.close()
            moved_to = str(self._folder.move_aside())
            _log.warning("The memory index was damaged (%s); it is now %s and is made anew.", damage, moved_to)
        self._begin()
        return OpenReport(0, rebuild_needed=True, reason=damage or "it is new", moved_to=moved_to)

    def _load(self, mark: Mark) -> OpenReport:
        self._folder.finish_exchange()
        if not self._folder.data.is_dir():
            raise IndexDamaged(f"{self._folder.data} is missing")
        try:
            self._store.load(self._folder.data)
            points = self._store.count()
        except (MemoryIndexError, MemoryError, ImportError):
            raise
        except BaseException as error:
            if not is_library_failure(error):
                raise
            raise IndexDamaged(f"it cannot be read ({type(error).__name__}: {error})") from error
        if mark.points not in (None, points):
            raise IndexDamaged(f"it holds {points} points, and held {mark.points}")
        self._folder.write_mark(None)
        self._opened()
        return OpenReport(points, ended_cleanly=mark.points is not None)

    def _begin(self) -> None:
        try:
            self._store.close()
        except BaseException as error:
            # What it could not write is removed next.
            if not is_library_failure(error):
                raise
        self._folder.begin()
        self._store.create(self._folder.data)
        self._folder.write_mark(None)
        self._opened()

    def _opened(self) -> None:
        self._damage = ""
        self._folder.remember()

    def _refuse_damaged(self) -> None:
        damage = self._damage
        if not damage and not self._folder.is_here():
            damage = "its folder was taken away or replaced while it was open"
        if damage:
            raise IndexDamaged(
                f"The memory index {self._folder.path} cannot be used: {damage}.",
                hint="It is made anew by itself within a minute; until then words are searched. If this comes again, "
                "check the disk.",
            )

    def _count(self) -> int:
        points = self._store.count()
        self._refuse_damaged()
        return points

    def _end(self) -> None:
        try:
            points = None
            with suppress(MemoryIndexError):  # not open, or damaged meanwhile: the mark keeps saying so
                points = self._guarded(self._count)
            self._guarded(self._store.close)
            if points is not None:
                self._folder.write_mark(points)
        finally:
            self._folder.release()

    def _guarded(self, work: Callable[[], Result]) -> Result:
        """Call the library; whatever it raises becomes a `MemoryIndexError`, once, here."""
        try:
            return work()
        except MemoryIndexError:
            raise
        except ImportError as error:
            raise MemoryIndexError(
                f"The index backend {self.backend} needs a library that is not installed: {error}",
                hint="Install the server again with its dependencies, or choose another memory.index_kind.",
            ) from error
        except BaseException as error:
            if not is_library_failure(error):
                raise
            failure = self._folder.failed(error)
            if self._store.is_broken_by(error):
                self._damage = failure.message
            raise failure from error

    # --- the thread ---

    async def _call(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run on the thread. A caller that is cancelled takes back only what has not begun."""
        if self._executor is None:
            raise closed()
        work = self._executor.submit(self._guarded, partial(function, *args, **kwargs))
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise closed() from None  # close() took the work back, nobody cancelled the caller

    async def _stop(self) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        ending = executor.submit(self._end)
        await asyncio.to_thread(executor.shutdown, wait=True)
        ending.result()


def is_library_failure(error: BaseException) -> bool:
    """Whether a library failed: any `Exception`, and a panic of the embedded engine, which is only a BaseException."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
