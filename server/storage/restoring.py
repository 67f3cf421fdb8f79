"""Puts a backup back, offline: checked whole before anything is touched, and what is there is moved aside.

Only worlds and the persona go back in time. `server.sqlite` takes in what it lacks, in a copy, so that nobody who was
shut out comes back and no number is given out twice. Whatever was forgotten on either side is forgotten in what comes
back. All of it takes its place at once, as the last step. Numbers mean something in one house only, so a backup of
another house goes into a folder where nothing was said yet. The caller holds the data folder.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import update
from sqlmodel import col, select

from server.storage import forgetting, jobs, memory_lookup, sqlite, tombstones
from server.storage.backup import (
    PARTIAL,
    PERSONA,
    Manifest,
    clear_leftovers,
    copy_database,
    disk_errors,
    in_thread,
)
from server.storage.backup_house import takes_over_house
from server.storage.backup_reading import damaged_backup, unpack
from server.storage.database import SERVER_DATABASE, SESSION_DATABASE, WORLDS, Database, Db
from server.storage.ids import raise_counters
from server.storage.memory_records import Forgetting, Tombstone
from server.storage.recall_tables import WORD_TABLES, RecallItemRow
from server.storage.server_tables import DeviceRow, HouseRow, IdCounterRow, SpeakerRow
from server.storage.sqlite import upsert
from server.storage.swap import PLAN, swap

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


async def restore(
    file: Path, data_dir: Path, *, now: dt.datetime, agreed: Callable[[Manifest], bool] = lambda backup: True
) -> Restored | None:
    """Put the backup `file` back into `data_dir`. None: `agreed` said no, and nothing was changed.

    `agreed`: asked once all of the backup was found right, and before anything takes its place. Raises `StorageError`
    and changes nothing: `backup_foreign` (no backup), `backup_of_another_house`, `backup_damaged`, `storage_newer`,
    `storage_full`, `storage_failed`. A process that is killed has changed nothing, or all of it once the data folder is
    opened again.
    """
    with disk_errors(data_dir):
        stage = await in_thread(lambda: _work_folder(data_dir))
    try:
        manifest = await in_thread(lambda: unpack(file, stage))
        worlds = tuple(sorted(entry.name.split("/")[1] for entry in manifest.files if entry.name.startswith(WORLDS)))
        takes_over = await in_thread(lambda: takes_over_house(stage, data_dir, worlds))
        stones = await _merge_server(stage, data_dir, takes_over=takes_over)
        reached = [await _prepare_world(stage / WORLDS / world, stones, now) for world in worlds]
        if not agreed(manifest):
            return None
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
                        raise damaged_backup("it does not say whose it is")
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
    after = ""
    while page := await memory_lookup.page(db, after=after):
        after = page[-1].memory_id
        await jobs.enqueue_all(db, "index", [memory.memory_id for memory in page], now=now)


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
