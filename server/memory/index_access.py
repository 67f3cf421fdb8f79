"""Whether the vector index can be used: opens it, survives that it cannot be opened, tries again, makes it anew.

While there is no index, words alone find, and vectors wait in their jobs. Whoever uses the index is told by a function
whenever that changes. Knows no backend, and no search.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from server.config_sections import LOCAL_MEMORIES
from server.errors import BusyError, IndexMismatch, MemoryIndexError
from server.memory.index.base import MemoryIndex
from server.memory.index.folder import remove_moved_aside, remove_unused
from server.memory.indexer import Indexer, Progress

MakeIndex = Callable[[], MemoryIndex]
"""A closed index."""
UseIndex = Callable[[MemoryIndex | None], None]
"""Takes the open index, or that there is none."""

_LASTING = frozenset({"index_mismatch", "index_foreign", "index_invalid", "index_unauthorized"})
"""Problems that only the owner can end."""
_log = logging.getLogger(__name__)


class IndexAccess:
    """Owns the index. `problem`: why it cannot be used now; None when it can. `folder`: of an index on this machine,
    which is another backend's or model's when the index in use is not in it.
    """

    def __init__(self, make: MakeIndex, indexer: Indexer, use: UseIndex, folder: Path) -> None:
        self.problem: MemoryIndexError | None = None
        self._make = make
        self._folder = folder
        self._indexer = indexer
        self._use = use
        self._index: MemoryIndex | None = None
        self._changing = asyncio.Lock()
        self._rebuilding = False

    async def open(self) -> bool:
        """Open the index if it is not open; False when it cannot be used, for which `problem` says why. Never raises
        a `MemoryIndexError`.
        """
        async with self._changing:
            if self._index is not None:
                return True
            index = self._make()
            try:
                report = await index.open()
            except MemoryIndexError as error:
                self._tell(error)
                return False
            self._take(index)
        try:
            complete = False
            if report.rebuild_needed:
                queued = await self._indexer.queue_all()
                if queued:
                    _log.warning("the memory index is made anew (%s): %d memories wait", report.reason, queued)
            elif not report.ended_cleanly or not await self._indexer.agrees_with(report.points):
                queued, removed = await self._indexer.reconcile()
                if not report.ended_cleanly or queued or removed:
                    why = "differs from the memories" if report.ended_cleanly else "was not closed"
                    _log.warning("the memory index %s: %d memories wait, %d were removed", why, queued, removed)
                complete = not queued
            else:
                complete = True
            if complete:
                await self._drop_old()
        except MemoryIndexError as error:
            # It is open and can be searched; what is missing in it is seen at the next start.
            _log.error("the memory index could not be compared with the memories: %s", error.code)
        if index.backend == "local" and report.points > LOCAL_MEMORIES:
            _log.warning(
                "%d memories are many for the index kind local, which reads all vectors into memory at each start and "
                "rebuild: set memory.index_kind to edge, then run: stackchan memory rebuild",
                report.points,
            )
        return True

    async def try_again(self) -> bool:
        """Open after all, when what kept it from being opened may have passed; make anew one that was damaged while it
        was open. True when it is open now and was not before.
        """
        if self._index is not None:
            await self._close_damaged(self._index)
        lasts = self.problem is not None and self.problem.code in _LASTING
        if self._index is None and self.problem is not None and not lasts and await self.open():
            _log.info("the memory index can be used again")
            return True
        return False

    async def _close_damaged(self, index: MemoryIndex) -> None:
        try:
            await index.count()
            return
        except MemoryIndexError as error:
            # What only failed now is tried again by whoever asks.
            if error.code not in ("index_damaged", "index_closed"):
                return
            problem = error
        async with self._changing:
            if self._index is index and not self._rebuilding:
                self._tell(problem)
                await self._close()

    async def rebuild(self, progress: Progress | None = None) -> int:
        """Make every vector anew, also with another model or backend than before; how many.

        Raises `BusyError` while another one runs, `MemoryIndexError`, `EmbeddingError`; what is not written then waits
        in its job, and the next one begins from the start.
        """
        if self._rebuilding:
            raise BusyError("The memory index is being rebuilt.", code="rebuild_running", hint="Wait for its end.")
        self._rebuilding = True
        try:
            async with self._changing:
                if self._index is None:
                    index = self._make()
                    await index.open(discard=True)
                    self._take(index)
            count = await self._indexer.rebuild(progress)
            await self._drop_old()
            return count
        finally:
            self._rebuilding = False

    async def forget_old(self) -> None:
        """Something was forgotten: leave no index out of which it cannot be taken, whether damaged and moved aside or
        another backend's or model's. Raises `OSError`.
        """
        await self.forget_moved_aside()
        if self._is_elsewhere() or (self._index is None and isinstance(self.problem, IndexMismatch)):
            await self._remove_folder("what was forgotten may be in it")

    async def forget_moved_aside(self) -> None:
        """The same for damaged ones only. Raises `OSError`."""
        removed = await asyncio.to_thread(remove_moved_aside, self._folder)
        if removed:
            _log.warning("%d damaged memory indexes were removed: what was forgotten may be in them", removed)

    async def _drop_old(self) -> None:
        """The index is complete: the one before it, on this machine, is of no use any more."""
        if not self._is_elsewhere():
            return
        try:
            await self._remove_folder("the vectors are on the Qdrant server now")
        except OSError as error:
            _log.error("the old memory index could not be removed", exc_info=error)

    def _is_elsewhere(self) -> bool:
        return (self._index or self._make()).backend == "server"

    async def _remove_folder(self, why: str) -> None:
        if await asyncio.to_thread(remove_unused, self._folder):
            _log.warning("the old memory index %s was removed: %s", self._folder.name, why)

    async def optimize(self) -> None:
        """Do what makes later searches faster. Safe to call at any time; raises nothing of the index."""
        if self._index is None or self._rebuilding:
            return
        try:
            await self._index.optimize()
        except MemoryIndexError as error:
            _log.warning("the memory index could not be made faster: %s", error.code)

    async def close(self) -> None:
        """Close it; safe to call twice and before `open`."""
        async with self._changing:
            await self._close()

    async def _close(self) -> None:
        index, self._index = self._index, None
        if index is None:
            return
        self._use(None)
        try:
            await index.close()
        except MemoryIndexError as error:
            _log.error("the memory index was not closed well: %s", error)

    def _take(self, index: MemoryIndex) -> None:
        self._index, self.problem = index, None
        self._use(index)

    def _tell(self, error: MemoryIndexError) -> None:
        if self.problem is None or self.problem.code != error.code:
            _log.error("memories are found by words only: %s", error)
        self.problem = error
