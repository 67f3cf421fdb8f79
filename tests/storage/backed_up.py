"""Houses that are told things, forget them and are backed up; and what is in a data folder afterwards."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from server.storage import forgetting, memory_lookup, tombstones
from server.storage.backup import Archive, make_archive
from server.storage.database import Databases
from server.storage.server_tables import ServerTable
from tests.storage.house import NOW
from tests.storage.remembered import exchange, remember

OURS, THEIRS, LATER = "うちの大事な言葉", "別の家の秘密", "Later: 🍵"


async def tell(data_dir: Path, number: int, text: str) -> None:
    async with await Databases.open(data_dir, "home") as databases:
        await exchange(databases, number, text)
        await remember(databases, number, text, source_turn_ids=(number * 10, number * 10 + 1))


async def forget(data_dir: Path, number: int) -> None:
    async with await Databases.open(data_dir, "home") as databases:
        async with databases.world(write=False) as db:
            reached = await forgetting.reach(db, [f"mem_{number:026d}"], also_source=True)
        async with databases.server() as db:
            await tombstones.add(db, reached, now=NOW)
        async with databases.world() as db:
            await forgetting.forget(db, reached, now=NOW)


async def remembered_after_a_start(data_dir: Path, world: str = "home") -> list[str]:
    """As a start does: what was forgotten is forgotten again first."""
    async with await Databases.open(data_dir, world) as databases:
        async with databases.server(write=False) as db:
            stones = await tombstones.all_tombstones(db)
        async with databases.world() as db:
            await forgetting.reapply(db, stones, now=NOW)
        async with databases.world(write=False) as db:
            return [memory.summary for memory in await memory_lookup.page(db)]


async def write_archive(archive: Archive, target: Path) -> None:
    with target.open("wb") as file:
        async for piece in archive.pieces():
            file.write(piece)


async def saved(data_dir: Path, target: Path) -> Path:
    async with make_archive(data_dir, now=NOW) as archive:
        await write_archive(archive, target)
    return target


def with_database(file: Path, name: str, change: Callable[[Path], object], target: Path) -> Path:
    """The backup with a database changed, as its manifest says."""
    with tarfile.open(file, "r:") as tar:
        members = {info.name: (tar.extractfile(info) or io.BytesIO()).read() for info in tar}
    work = target.with_suffix(".sqlite")
    work.write_bytes(members[name])
    change(work)
    members[name] = work.read_bytes()
    work.unlink()
    manifest = json.loads(members["manifest.json"])
    for entry in manifest["files"]:
        content = members[entry["name"]]
        entry.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    members["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(target, "w:", format=tarfile.USTAR_FORMAT) as tar:
        for each, content in members.items():
            info = tarfile.TarInfo(each)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target


def sql(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return change


def rows_of(data_dir: Path) -> dict[str, list[tuple[object, ...]]]:
    """All of server.sqlite."""
    with closing(sqlite3.connect(data_dir / "server.sqlite")) as connection:
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in ServerTable.metadata.tables}


def house_of(data_dir: Path) -> object:
    return rows_of(data_dir)["house"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm")))


async def forgotten_in_the_backup(tmp_path: Path) -> tuple[Path, Path]:
    ours = tmp_path / "ours"
    await tell(ours, 1, OURS)
    shutil.copytree(ours, tmp_path / "copy")
    await forget(tmp_path / "copy", 1)
    await tell(tmp_path / "copy", 2, LATER)
    return ours, await saved(tmp_path / "copy", tmp_path / "a.tar")
