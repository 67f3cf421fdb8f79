"""Memory out of one house and into another: an export that streams, an import that is all or nothing.

Forgotten memories are in no export, and no import brings back what was forgotten here. Knows what a file means; how
its lines look is in `transfer_lines.py`, what is written to the database in `storage/memory_import.py`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import errno
import itertools
import json
import re
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from server.errors import RequestError, StorageError
from server.memory.keeper import Keeper
from server.memory.leases import Clock
from server.memory.transfer_lines import (
    FILE_BYTES_LIMIT,
    VERSION,
    Channel,
    End,
    Header,
    Line,
    MemoryLine,
    TurnLine,
    Words,
    read_lines,
    refused,
    written,
)
from server.storage import memory_browse, memory_lookup
from server.storage.database import Databases, Db
from server.storage.memory_browse import WholeTurn
from server.storage.memory_import import MemoryImport, take_numbers
from server.storage.memory_import_records import ImportedChannel, ImportedMemory
from server.storage.memory_records import Memory
from server.storage.records import SourceTurn

_PAGE = 100
_SHOWN_IDS = 100
_MEMORY_ID = re.compile(r"mem_[0-9A-HJKMNP-TV-Z]{26}")


async def export_lines(databases: Databases, *, now: dt.datetime, server_version: str = "") -> AsyncIterator[bytes]:
    """The lines of an export, a page of memories at a time.

    What is forgotten meanwhile is not in the pages that follow. Raises `StorageError`; the last line is missing then.
    """
    async with databases.world(write=False) as db:
        channels = await memory_browse.all_channels(db)
    yield written(Header(version=VERSION, exported_at=now, server=server_version))
    for channel in channels:
        yield written(
            Line(
                channel=Channel(
                    channel_id=channel.channel_id,
                    kind=channel.kind,
                    private=channel.private,
                    parent_channel_id=channel.parent_channel_id,
                    created_at=channel.created_at,
                )
            )
        )
    after, count = "", 0
    while True:
        async with databases.world(write=False) as db:
            page = await memory_lookup.page(db, after=after, limit=_PAGE)
            lines = await _lines(db, page)
        if not page:
            break
        yield b"".join(lines)
        after = page[-1].memory_id
        count += len(page)
    yield written(Line(end=End(memories=count)))


async def import_lines(
    databases: Databases, keeper: Keeper, pieces: AsyncIterable[bytes], *, clock: Clock
) -> dict[str, Any]:
    """Take an export in, whole or not at all; what became of its memories, with the first hundred ids of each kind.

    `pieces`: the file's bytes, cut anywhere. Raises `RequestError` that names the line (`import_*`), `StorageError`.
    """
    with _spool() as file:
        size = 0
        async for piece in pieces:
            size += len(piece)
            if size > FILE_BYTES_LIMIT:
                raise RequestError(
                    f"The file is larger than {FILE_BYTES_LIMIT} bytes.",
                    code="import_too_large",
                    hint="Nothing was imported. Is it really an exported memory?",
                )
            await asyncio.to_thread(_append, file, piece)
        plan = await asyncio.to_thread(_plan, file)
        async with databases.server() as db:
            numbers = await take_numbers(
                db, turn_ids=plan.turns.keys(), source_turn_ids=plan.sources.keys(), memory_ids=plan.memories.keys()
            )
        file.seek(0)
        memories = (read for _, read in read_lines(file) if isinstance(read, ImportedMemory))
        async with databases.world() as db:
            writing = MemoryImport(db, numbers, plan.versions, now=clock())
            await writing.begin(plan.memories.keys(), plan.channels)
            while batch := await asyncio.to_thread(_next, memories):
                await writing.write(batch)
            done = await writing.finish()
    # What was forgotten while this was written.
    await keeper.reapply()
    counts: dict[str, Any] = {"turns": done.turns}
    for name, ids in (
        ("imported", done.imported),
        ("already_there", done.already_there),
        ("forgotten", done.forgotten),
    ):
        counts |= {name: len(ids), f"{name}_ids": ids[:_SHOWN_IDS]}
    return counts


@dataclass
class _Plan:
    """What the whole file holds, by its own numbers."""

    channels: list[ImportedChannel] = field(default_factory=list)
    memories: dict[str, int] = field(default_factory=dict)
    """Ids and their lines."""
    versions: dict[str, str] = field(default_factory=dict)
    turns: dict[int, str] = field(default_factory=dict)
    sources: dict[int, tuple[int, str]] = field(default_factory=dict)

    def add(self, number: int, memory: ImportedMemory) -> None:
        """Raises `RequestError` for what cannot stand beside an earlier line."""
        if memory.memory_id in self.memories:
            first = self.memories[memory.memory_id]
            raise refused(number, f"{memory.memory_id} stands in line {first} already", "import_duplicate")
        self.memories[memory.memory_id] = number
        if memory.superseded_by is not None:
            self.versions[memory.memory_id] = memory.superseded_by
        for turn in memory.turns:
            if self.turns.setdefault(turn.turn_id, turn.session_id) != turn.session_id:
                raise refused(number, f"turn {turn.turn_id} is of another session before", "import_line_invalid")
            for said in turn.said:
                whose = (turn.turn_id, said.role)
                if self.sources.setdefault(said.source_turn_id, whose) != whose:
                    what = f"source turn {said.source_turn_id} is of another turn before"
                    raise refused(number, what, "import_line_invalid")

    def check(self) -> None:
        """Raises `RequestError` when memories have replaced each other in a circle."""
        ends: set[str] = set()
        for start in self.versions:
            walked: dict[str, None] = {}
            here: str | None = start
            while here is not None and here not in ends:
                if here in walked:
                    raise refused(self.memories[here], f"{here} has replaced itself", "import_line_invalid")
                walked[here] = None
                here = self.versions.get(here)
            ends |= walked.keys()


def _plan(file: BinaryIO) -> _Plan:
    file.seek(0)
    plan = _Plan()
    for number, read in read_lines(file):
        if isinstance(read, ImportedMemory):
            plan.add(number, read)
        else:
            plan.channels.append(read)
    plan.check()
    return plan


def _next(memories: Iterator[ImportedMemory]) -> list[ImportedMemory]:
    return list(itertools.islice(memories, _PAGE))


@contextmanager
def _spool() -> Iterator[BinaryIO]:
    """A file without a name, gone with the process however it ends."""
    try:
        with tempfile.TemporaryFile() as file:
            yield file
    except OSError as error:
        raise _disk(error) from None


def _append(file: BinaryIO, piece: bytes) -> None:
    try:
        file.write(piece)
    except OSError as error:
        raise _disk(error) from None


def _disk(error: OSError) -> StorageError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        f"The file could not be put down while it came ({error.strerror}).",
        code="storage_full" if full else "storage_failed",
        retryable=full,
        hint="Free some space; nothing was imported.",
    )


async def _lines(db: Db, page: Sequence[Memory]) -> list[bytes]:
    said = await memory_browse.exact_words(db, [number for memory in page for number in memory.source_turn_ids])
    words = {turn.source_turn_id: turn for turn in said}
    turns = await memory_browse.whole_turns(db, [turn.turn_id for turn in said])
    lines = []
    for memory in page:
        of_turns: dict[int, list[SourceTurn]] = {}
        for number in memory.source_turn_ids:
            of_turns.setdefault(words[number].turn_id, []).append(words[number])
        exchanges = [_turn_line(turns[turn_id], of_turn) for turn_id, of_turn in of_turns.items()]
        lines.append(written(Line(memory=_memory_line(memory, exchanges))))
    return lines


def _memory_line(memory: Memory, turns: list[TurnLine]) -> MemoryLine:
    values = {name: getattr(memory, name) for name in MemoryLine.model_fields if name != "turns"}
    values |= {"entities": list(memory.entities), "speakers": list(memory.speakers), "turns": turns}
    # Stored text was checked when it was stored.
    return MemoryLine.model_construct(**values)


def _turn_line(whole: WholeTurn, said: Sequence[SourceTurn]) -> TurnLine:
    turn = whole.turn
    same = set(TurnLine.model_fields) - {"recalled", "said"}
    recalled = _MEMORY_ID.findall(json.dumps([turn.memory, whole.tool_calls]))
    words = [
        Words.model_construct(**{name: getattr(one, name) for name in Words.model_fields} | {"text": one.text or None})
        for one in said
    ]
    return TurnLine.model_construct(
        **{name: getattr(turn, name) for name in same},
        recalled=list(dict.fromkeys(recalled)) if any(one.text for one in said) else [],
        said=words,
    )
