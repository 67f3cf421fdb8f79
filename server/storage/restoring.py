"""Puts a backup back, offline: checked whole before anything is touched, and what is there is moved aside.

Only worlds and the persona go back in time. `server.sqlite` stays and takes in what it lacks, so that nobody who was
shut out comes back and no number is given out twice. Whatever was forgotten on either side is forgotten in what comes
back, before it takes its place. The caller holds the data folder.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ValidationError
from sqlalchemy import delete, update
from sqlmodel import col, select

from server.errors import StorageError
from server.storage import forgetting, memory_lookup, sqlite, tombstones
from server.storage.backup import (
    BLOCK_BYTES,
    MANIFEST,
    PARTIAL,
    PERSONA,
    VERSION,
    FileEntry,
    Manifest,
    clear_leftovers,
    disk_errors,
    in_thread,
)
from server.storage.database import SERVER_DATABASE, SESSION_DATABASE, WORLDS, Database, Db
from server.storage.ids import raise_counters
from server.storage.memory_records import Forgetting, Tombstone
from server.storage.recall_tables import WORD_TABLES, JobRow, RecallItemRow
from server.storage.server_tables import DeviceRow, IdCounterRow, SpeakerRow, TombstoneRow
from server.storage.sqlite import upsert

_NAME = re.compile(rf"(?:{SERVER_DATABASE}|{PERSONA}|{WORLDS}/[A-Za-z0-9._-]{{1,64}}/{SESSION_DATABASE})\Z")
_MANIFEST_BYTES_LIMIT = 1024 * 1024
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back. `moved_to`: where what was there is now, None when nothing was."""

    made_at: dt.datetime
    server: str
    """Version of the server that made the backup."""
    worlds: tuple[str, ...]
    moved_to: Path | None
    forgotten_memories: int
    """In the backup, but forgotten since or elsewhere."""
    blanked_source_turns: int


async def restore(file: Path, data_dir: Path, *, now: dt.datetime) -> Restored:
    """Put the backup `file` back into `data_dir`.

    Raises `StorageError` and changes nothing: `backup_foreign` (no backup), `backup_damaged`, `storage_newer`,
    `storage_full`, `storage_failed`.
    """
    with disk_errors(data_dir):
        stage = await in_thread(lambda: _work_folder(data_dir))
    try:
        manifest = await in_thread(lambda: _unpack(file, stage))
        worlds = tuple(sorted(entry.name.split("/")[1] for entry in manifest.files if entry.name.startswith(WORLDS)))
        stones = await _merged_tombstones(stage, data_dir, worlds)
        reached = [await _prepare_world(stage / WORLDS / world, stones, now) for world in worlds]
        with disk_errors(data_dir):
            moved_to = await in_thread(lambda: _swap(stage, data_dir, worlds, now))
    finally:
        await in_thread(lambda: shutil.rmtree(stage, ignore_errors=True))
    return Restored(
        manifest.made_at,
        manifest.server,
        worlds,
        moved_to,
        sum(len(one.memory_ids) for one in reached),
        sum(len(one.blanked_source_turn_ids) for one in reached),
    )


def _work_folder(data_dir: Path) -> Path:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    clear_leftovers(data_dir)
    return Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{os.getpid()}-", dir=data_dir))


def _unpack(file: Path, stage: Path) -> Manifest:
    """Every file of the tar into `stage`, each checked. Only names that a backup has are ever made."""
    with disk_errors(file), file.open("rb") as tar:
        first = _next_member(tar)
        if first is None or first.name != MANIFEST or first.size > _MANIFEST_BYTES_LIMIT:
            raise _foreign(file)
        manifest = _manifest(_content(tar, first.size), file)
        wanted = {entry.name: entry for entry in manifest.files}
        _check_names(manifest.files)
        needed = sum(entry.size for entry in manifest.files)
        if 2 * needed > shutil.disk_usage(stage).free:
            raise StorageError(
                f"The backup needs {2 * needed} bytes, more than are free.",
                code="storage_full",
                hint="Free some space, or restore into a folder on another disk with STACKCHAN_DATA_DIR.",
            )
        while (member := _next_member(tar)) is not None:
            entry = wanted.pop(member.name, None)
            if entry is None or entry.size != member.size:
                raise _damaged(f"{member.name[:100]!r} is not as its manifest says")
            target = stage / entry.name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _copy_out(tar, entry, target)
    if wanted:
        raise _damaged(f"{', '.join(sorted(wanted))[:200]} is missing")
    return manifest


def _next_member(tar: BinaryIO) -> tarfile.TarInfo | None:
    """The next header; None at the end. Plain files only: no links, no folders, no extensions, whatever they name."""
    block = tar.read(BLOCK_BYTES)
    if block.count(0) == BLOCK_BYTES:
        return None
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeError):
        raise _damaged("it ends too early, or is no plain tar") from None
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
        raise _damaged(f"{info.name[:100]!r} is no plain file")
    return info


def _content(tar: BinaryIO, size: int) -> bytes:
    content = tar.read(size)
    tar.read(-size % BLOCK_BYTES)
    return content


def _copy_out(tar: BinaryIO, entry: FileEntry, target: Path) -> None:
    digest, left = hashlib.sha256(), entry.size
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while left:
            piece = tar.read(min(left, _PIECE_BYTES))
            if not piece:
                raise _damaged(f"it ends within {entry.name}")
            digest.update(piece)
            out.write(piece)
            left -= len(piece)
    tar.read(-entry.size % BLOCK_BYTES)
    if digest.hexdigest() != entry.sha256:
        raise _damaged(f"{entry.name} was changed: its SHA-256 is not the manifest's")


def _manifest(content: bytes, file: Path) -> Manifest:
    class Claim(BaseModel):
        format: str
        version: int

    try:
        claim = Claim.model_validate_json(content)
    except ValidationError:
        raise _foreign(file) from None
    if claim.format != "stackchan-backup":
        raise _foreign(file)
    if claim.version > VERSION:
        raise StorageError(
            f"The backup has version {claim.version}, this server reads up to {VERSION}.",
            code="storage_newer",
            hint="Restore it with the version of the server that made it, or a newer one.",
        )
    try:
        return Manifest.model_validate_json(content)
    except ValidationError:
        raise _damaged("its manifest cannot be read") from None


def _check_names(files: Sequence[FileEntry]) -> None:
    names = [entry.name for entry in files]
    odd = [name for name in names if not _NAME.match(name) or "/." in name]
    if odd or len(set(names)) != len(names):
        raise _damaged(f"its manifest names {odd[0][:100]!r}" if odd else "its manifest names a file twice")
    if SERVER_DATABASE not in names or not any(name.startswith(f"{WORLDS}/") for name in names):
        raise _damaged("a database is missing in it")


async def _merged_tombstones(stage: Path, data_dir: Path, worlds: Sequence[str]) -> list[Tombstone]:
    """All tombstones of both sides. A server database that is here takes in what the backup's has and it has not."""
    backup = await Database.open(stage / SERVER_DATABASE, "server")
    try:
        if not (data_dir / SERVER_DATABASE).exists():
            async with backup.session(write=False) as db:
                return await tombstones.all_tombstones(db)
        foreign = await in_thread(lambda: _numbers_of_another_house(stage, data_dir, worlds))
        live = await Database.open(data_dir / SERVER_DATABASE, "server")
        try:
            async with backup.session(write=False) as old, live.session() as db:
                ours = {stone.source_turn_id for stone in await tombstones.all_tombstones(db)}
                for number in sorted(foreign & ours):
                    # It names words of the world that is moved aside; here the number is something else's.
                    wrong = delete(TombstoneRow).where(col(TombstoneRow.source_turn_id) == number)
                    await db.exec(wrong.execution_options(synchronize_session=False))
                for stone in await tombstones.all_tombstones(old):
                    await tombstones.add(db, _as_forgetting(stone), now=stone.forgotten_at)
                await _take_in(old, db)
                return await tombstones.all_tombstones(db)
        finally:
            await live.close()
    finally:
        await backup.close()


async def _take_in(old: Db, db: Db) -> None:
    """Speakers, devices and counters; what is here already stays, and counters only rise."""
    for kind in (SpeakerRow, DeviceRow):
        rows = [row.model_dump() for row in (await old.exec(select(kind))).all()]
        if rows:
            await db.exec(upsert(kind).on_conflict_do_nothing(), params=rows)
    counters = (await old.exec(select(IdCounterRow))).all()
    await raise_counters(db, {row.name: row.next_id - 1 for row in counters})


def _as_forgetting(stone: Tombstone) -> Forgetting:
    number = () if stone.source_turn_id is None else (stone.source_turn_id,)
    memory_ids = () if stone.memory_id is None else (stone.memory_id,)
    return Forgetting(memory_ids, number if stone.blanked else (), () if stone.blanked else number, ())


def _numbers_of_another_house(stage: Path, data_dir: Path, worlds: Iterable[str]) -> set[int]:
    """Numbers of source turns that mean other words here than in the backup: another computer counted them."""
    wrong: set[int] = set()
    for world in worlds:
        here = _said(data_dir / WORLDS / world / SESSION_DATABASE)
        there = _said(stage / WORLDS / world / SESSION_DATABASE)
        wrong |= {number for number in here.keys() & there.keys() if here[number] != there[number]}
    return wrong


def _said(path: Path) -> dict[int, tuple[str, str]]:
    if not path.exists():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT source_turn_id, session_id, said_at FROM source_turns")
            return {number: (session_id, said_at) for number, session_id, said_at in rows}
    except sqlite3.Error:  # a damaged database is what a backup is put back for
        return {}


async def _prepare_world(folder: Path, stones: Sequence[Tombstone], now: dt.datetime) -> Forgetting:
    """Upgrade a world that comes back, forget again in it, and queue its vectors, which are not in a backup."""
    path = folder / SESSION_DATABASE
    world = await Database.open(path, "session")
    try:
        async with world.session() as db:
            reached = await forgetting.reapply(db, stones, now=now)
            await _queue_vectors(db, now)
    finally:
        await world.close()
    with disk_errors(path):
        await in_thread(lambda: sqlite.scrub(path, WORD_TABLES))
    return reached


async def _queue_vectors(db: Db, now: dt.datetime) -> None:
    item = RecallItemRow
    missing = update(item).where(col(item.status) != "forgotten")
    missing = missing.values(index_state="pending", attempts=0, error=None)
    await db.exec(missing.execution_options(synchronize_session=False))
    new = {"kind": "index", "state": "queued", "requests": 1, "attempts": 0, "not_before": now, "created_at": now}
    after = ""
    while page := await memory_lookup.page(db, after=after):
        after = page[-1].memory_id
        jobs = [new | {"subject": memory.memory_id} for memory in page]
        await db.exec(upsert(JobRow).on_conflict_do_nothing(), params=jobs)


@dataclass
class _Moves:
    """Renames that can be taken back."""

    done: list[tuple[Path, Path]] = field(default_factory=list)

    def move(self, source: Path, target: Path) -> None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        source.rename(target)
        self.done.append((source, target))

    def undo(self) -> None:
        for source, target in reversed(self.done):
            target.rename(source)


def _swap(stage: Path, data_dir: Path, worlds: Sequence[str], now: dt.datetime) -> Path | None:
    aside = _free_name(data_dir, f"replaced-{now.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}")
    places = [Path(WORLDS) / world for world in worlds]
    if (stage / PERSONA).exists():
        places.append(Path(PERSONA))
    with closing(sqlite3.connect(stage / SERVER_DATABASE)) as connection:
        # One file, that can be moved by itself.
        connection.execute("PRAGMA journal_mode = DELETE")
    moves = _Moves()
    try:
        if not (data_dir / SERVER_DATABASE).exists():
            moves.move(stage / SERVER_DATABASE, data_dir / SERVER_DATABASE)
        for place in places:
            if os.path.lexists(data_dir / place):
                moves.move(data_dir / place, aside / place)
            moves.move(stage / place, data_dir / place)
    except OSError:
        moves.undo()
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return aside if aside.exists() else None


def _free_name(folder: Path, name: str) -> Path:
    names = (folder / (f"{name}-{number}" if number else name) for number in range(1_000))
    return next(path for path in names if not os.path.lexists(path))


def _foreign(file: Path) -> StorageError:
    return StorageError(
        f"{file.name} is no backup of this server.", code="backup_foreign", hint="Give what `stackchan backup` wrote."
    )


def _damaged(what: str) -> StorageError:
    return StorageError(
        f"The backup is damaged: {what}.", code="backup_damaged", hint="Nothing was changed. Use another backup."
    )
