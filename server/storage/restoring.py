"""Puts a backup back, offline: checked whole before anything is touched, and what is there is moved aside.

Only worlds and the persona go back in time. `server.sqlite` takes in what it lacks, in a copy, so that nobody who was
shut out comes back and no number is given out twice. Whatever was forgotten on either side is forgotten in what comes
back. All of it takes its place at once, as the last step. Numbers mean something in one house only, so a backup of
another house goes into a folder where nothing was said yet. The caller holds the data folder.
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
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ValidationError
from sqlalchemy import update
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
    copy_database,
    disk_errors,
    in_thread,
)
from server.storage.database import SERVER_DATABASE, SESSION_DATABASE, WORLDS, Database, Db
from server.storage.ids import raise_counters
from server.storage.memory_records import Forgetting, Tombstone
from server.storage.recall_tables import WORD_TABLES, JobRow, RecallItemRow
from server.storage.server_tables import DeviceRow, HouseRow, IdCounterRow, SpeakerRow
from server.storage.sqlite import upsert
from server.storage.swap import PLAN, swap

_NAME = re.compile(rf"(?:{SERVER_DATABASE}|{PERSONA}|{WORLDS}/[A-Za-z0-9._-]{{1,64}}/{SESSION_DATABASE})\Z")
_MANIFEST_BYTES_LIMIT = 1024 * 1024
_PIECE_BYTES = 1024 * 1024
_MERGED = "merged.sqlite"


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

    Raises `StorageError` and changes nothing: `backup_foreign` (no backup), `backup_of_another_house`,
    `backup_damaged`, `storage_newer`, `storage_full`, `storage_failed`. A process that is killed has changed nothing,
    or all of it once the data folder is opened again.
    """
    with disk_errors(data_dir):
        stage = await in_thread(lambda: _work_folder(data_dir))
    try:
        manifest = await in_thread(lambda: _unpack(file, stage))
        worlds = tuple(sorted(entry.name.split("/")[1] for entry in manifest.files if entry.name.startswith(WORLDS)))
        takes_over = await in_thread(lambda: _takes_over(stage, data_dir, worlds))
        stones = await _merge_server(stage, data_dir, takes_over=takes_over)
        reached = [await _prepare_world(stage / WORLDS / world, stones, now) for world in worlds]
        with disk_errors(data_dir):
            moved_to = await in_thread(lambda: _put_in_place(stage, data_dir, worlds, now))
    finally:
        await in_thread(lambda: _clear_away(stage, data_dir))
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


def _clear_away(stage: Path, data_dir: Path) -> None:
    if not (data_dir / PLAN).exists():  # else the next start finishes what is in it
        shutil.rmtree(stage, ignore_errors=True)


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


def _takes_over(stage: Path, data_dir: Path, worlds: Sequence[str]) -> bool:
    """Whether the data folder becomes the backup's house; False: it is that house. Raises `StorageError`."""
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


async def _merge_server(stage: Path, data_dir: Path, *, takes_over: bool) -> list[Tombstone]:
    """Leave in `stage` the server database that is to take its place. Returns all tombstones, of both sides."""
    backup = await Database.open(stage / SERVER_DATABASE, "server")
    try:
        live = data_dir / SERVER_DATABASE
        if not live.exists():
            async with backup.session(write=False) as db:
                return await tombstones.all_tombstones(db)
        merged = stage / _MERGED
        with disk_errors(live):
            await in_thread(lambda: copy_database(live, merged))
        ours = await Database.open(merged, "server")
        try:
            async with backup.session(write=False) as old, ours.session() as db:
                for stone in await tombstones.all_tombstones(old):
                    await tombstones.add(db, _as_forgetting(stone), now=stone.forgotten_at)
                await _take_in(old, db)
                if takes_over:
                    house = (await old.exec(select(HouseRow))).first()
                    if house is None:
                        raise _damaged("it does not say whose it is")
                    await db.exec(update(HouseRow).values(house_id=house.house_id))
                found = await tombstones.all_tombstones(db)
        finally:
            await ours.close()
    finally:
        await backup.close()
    with disk_errors(stage):
        await in_thread(lambda: merged.replace(_one_file(merged, stage / SERVER_DATABASE)))
    return found


def _one_file(merged: Path, target: Path) -> Path:
    """Both without a log beside them, so that the one can be renamed over the other."""
    _without_log(merged)
    _without_log(target)
    return target


def _without_log(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("PRAGMA journal_mode = DELETE").fetchone() != ("delete",):
            raise sqlite3.OperationalError("database is locked")


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


def _put_in_place(stage: Path, data_dir: Path, worlds: Sequence[str], now: dt.datetime) -> Path | None:
    aside = _free_name(data_dir, f"replaced-{now.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}")
    places = [Path(WORLDS) / world for world in worlds]
    if (stage / PERSONA).exists():
        places.append(Path(PERSONA))
    for path in (stage / SERVER_DATABASE, data_dir / SERVER_DATABASE):
        if path.exists():
            # One file, that can be moved by itself: another's log beside it would be taken for its own.
            _without_log(path)
    swap(data_dir, stage, aside, [*places, Path(SERVER_DATABASE)])
    if not aside.exists():
        return None
    # Nothing of it is lost, and the keys' hashes in it have no use.
    (aside / SERVER_DATABASE).unlink(missing_ok=True)
    if any(aside.iterdir()):
        return aside
    aside.rmdir()
    return None


def _free_name(folder: Path, name: str) -> Path:
    names = (folder / (f"{name}-{number}" if number else name) for number in range(1_000))
    return next(path for path in names if not os.path.lexists(path))


def _foreign(file: Path) -> StorageError:
    return StorageError(
        f"{file.name} is no backup of this server.", code="backup_foreign", hint="Give what `stackchan backup` wrote."
    )


def _of_another_house(why: str) -> StorageError:
    return StorageError(
        f"The backup is of another house: {why}.",
        code="backup_of_another_house",
        hint="Nothing was changed. Restore it into an empty folder, with STACKCHAN_DATA_DIR.",
    )


def _damaged(what: str) -> StorageError:
    return StorageError(
        f"The backup is damaged: {what}.", code="backup_damaged", hint="Nothing was changed. Use another backup."
    )
