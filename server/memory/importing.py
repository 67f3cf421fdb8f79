"""Takes exported memory in: checked whole first, then written page by page, so that nobody waits for all of it.

All or nothing also holds when the process is killed: a file that was found right is kept, with the numbers it got,
until its last page is written, and the next start goes on with it. No import brings back what was forgotten here, also
not what is forgotten while it runs. What is written to the database is in `storage/memory_import.py`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from server.errors import RequestError, StackChanError, StorageError
from server.memory.import_plan import ImportPlan, Place, read_plan
from server.memory.keeper import Keeper
from server.memory.leases import Clock
from server.memory.transfer_lines import FILE_BYTES_LIMIT, read_memory
from server.storage.database import Databases
from server.storage.memory_import import MemoryImport, forgotten_here, take_numbers
from server.storage.memory_import_records import Imported, ImportedMemory, Numbers

_FOLDER, _LINES, _NUMBERS = "imports", "memory.jsonl", "numbers.json"
_PAGE_MEMORIES, _PAGE_EXCHANGES = 10, 20
"""A page is one transaction, for which a turn may have to wait: some hundredths of a second."""
_SHOWN_IDS = 100
_log = logging.getLogger(__name__)


class _Given(BaseModel):
    """The numbers that an import got: an import that goes on uses the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turns: dict[int, int]
    sources: dict[int, int]


class Imports:
    """The imports of one world. Those that are not done lie in its folder `imports`."""

    def __init__(self, databases: Databases, keeper: Keeper, *, clock: Clock) -> None:
        self._databases = databases
        self._keeper = keeper
        self._clock = clock
        self._running: set[Path] = set()

    async def take_in(self, pieces: AsyncIterable[bytes]) -> dict[str, Any]:
        """Take an export in, whole or not at all; what became of its memories, the first hundred ids of each kind.

        `pieces`: the file's bytes, cut anywhere. Raises `RequestError` that names the line (`import_*`), and
        `StorageError`; that of a disk which fills up while pages are written says that the rest follows.
        """
        with _disk(), self._new_folder() as folder:
            await _put_down(folder / _LINES, pieces)
            with (folder / _LINES).open("rb") as file:
                plan = await asyncio.to_thread(read_plan, file)
                async with self._databases.server() as db:
                    numbers = await take_numbers(db, turn_ids=plan.turns.keys(), source_turn_ids=plan.sources.keys())
                await asyncio.to_thread(_accept, folder, numbers)
                done = await self._write(file, plan, numbers)
            await asyncio.to_thread(_remove, folder)
        counts: dict[str, Any] = {"turns": done.turns}
        for name, ids in (
            ("imported", done.imported),
            ("already_there", done.already_there),
            ("forgotten", done.forgotten),
        ):
            counts |= {name: len(ids), f"{name}_ids": ids[:_SHOWN_IDS]}
        return counts

    async def go_on(self) -> int:
        """Finish the imports that a kill or a full disk cut off; how many memories came in. Raises nothing of them."""
        came = 0
        for folder in self._cut_off():
            self._running.add(folder)
            try:
                came += await self._finish(folder)
            except (StackChanError, OSError) as error:
                _log.error("an import that was cut off could not be finished: %s", _what(error))
            finally:
                self._running.discard(folder)
        return came

    async def _finish(self, folder: Path) -> int:
        given = await asyncio.to_thread(_given, folder)
        done = Imported()
        if given is not None:
            with (folder / _LINES).open("rb") as file:
                plan = await asyncio.to_thread(read_plan, file)
                done = await self._write(file, plan, Numbers(given.turns, given.sources))
            _log.warning("an import that was cut off is finished: %d memories came in", len(done.imported))
        await asyncio.to_thread(_remove, folder)
        return len(done.imported)

    async def _write(self, file: BinaryIO, plan: ImportPlan, numbers: Numbers) -> Imported:
        writing = MemoryImport(numbers, plan.versions, now=self._clock())
        try:
            async with self._databases.world() as db:
                await writing.make_channels(db, plan.channels)
            for places in _pages(plan.in_order()):
                page = await asyncio.to_thread(_read, file, places)
                # A forgetting sees all of a page or none of it, and a page all of a forgetting.
                async with self._keeper.undisturbed():
                    async with self._databases.server(write=False) as server_db:
                        forgotten = await forgotten_here(server_db, page, plan.versions)
                    async with self._databases.world() as db:
                        await writing.write(db, page, forgotten)
        except StorageError as error:
            raise StorageError(
                f"{error.message} The import has stopped; part of it is in.",
                code=error.code,
                retryable=error.retryable,
                hint="Put that right: what is missing then comes in by itself, at the latest with the next start.",
            ) from error
        return writing.done

    @contextmanager
    def _new_folder(self) -> Iterator[Path]:
        """A folder of this import's own; what was not accepted is removed."""
        parent = self._databases.world_folder / _FOLDER
        parent.mkdir(mode=0o700, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent))
        self._running.add(folder)
        try:
            yield folder
        finally:
            self._running.discard(folder)
            if folder.exists() and not (folder / _NUMBERS).exists():
                shutil.rmtree(folder, ignore_errors=True)

    def _cut_off(self) -> list[Path]:
        parent = self._databases.world_folder / _FOLDER
        return sorted(set(parent.iterdir()) - self._running) if parent.is_dir() else []


async def _put_down(target: Path, pieces: AsyncIterable[bytes]) -> None:
    size = 0
    with _created(target) as file:
        async for piece in pieces:
            size += len(piece)
            if size > FILE_BYTES_LIMIT:
                raise RequestError(
                    f"The file is larger than {FILE_BYTES_LIMIT} bytes.",
                    code="import_too_large",
                    hint="Nothing was imported. Is it really an exported memory?",
                )
            await asyncio.to_thread(file.write, piece)


def _created(target: Path) -> BinaryIO:
    return open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _accept(folder: Path, numbers: Numbers) -> None:
    """From here on all of it comes in, whatever happens to the process."""
    given = _Given(turns=dict(numbers.turns), sources=dict(numbers.sources))
    partial = folder / f"{_NUMBERS}.partial"
    partial.write_text(given.model_dump_json(), encoding="ascii")
    for path in (folder / _LINES, partial):
        _sync(path)
    partial.rename(folder / _NUMBERS)
    for path in (folder, folder.parent):
        _sync(path)


def _given(folder: Path) -> _Given | None:
    """None: it was never accepted, or is done."""
    try:
        return _Given.model_validate_json((folder / _NUMBERS).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise StorageError(f"{folder.name}/{_NUMBERS} of an import cannot be read.") from None


def _remove(folder: Path) -> None:
    (folder / _NUMBERS).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _pages(places: Sequence[Place]) -> Iterator[list[Place]]:
    page: list[Place] = []
    for place in places:
        exchanges = sum(one.exchanges for one in page) + place.exchanges
        if page and (len(page) >= _PAGE_MEMORIES or exchanges > _PAGE_EXCHANGES):
            yield page
            page = []
        page.append(place)
    if page:
        yield page


def _read(file: BinaryIO, places: Sequence[Place]) -> list[ImportedMemory]:
    return [read_memory(file, place.number, place.start) for place in places]


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StorageError(
            f"The file could not be put down while it came ({error.strerror}).",
            code="storage_full" if full else "storage_failed",
            retryable=full,
            hint="Free some space; nothing was imported.",
        ) from None


def _what(error: StackChanError | OSError) -> str:
    return error.code if isinstance(error, StackChanError) else type(error).__name__
