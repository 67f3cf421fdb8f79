"""Backups: whole and without secrets, refused when they are not ours, and nothing forgotten comes back with them."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from server.errors import StorageError
from server.storage import backup, devices, forgetting, memory_lookup, persisted, tokens, tombstones
from server.storage.backup import clear_leftovers, make_archive
from server.storage.database import Databases
from server.storage.ids import SOURCE_TURN_IDS, TURN_IDS, reserve_ids
from server.storage.restoring import restore
from tests.storage.backed_up import write_archive
from tests.storage.house import NOW
from tests.storage.remembered import exchange, remember

pytestmark = pytest.mark.integration

BOUGHT, CAT = "富士通のPCを三万円で買った", "猫のコムギが来た"


async def fill(data_dir: Path) -> None:
    """A house with two memories."""
    async with await Databases.open(data_dir, "home") as databases:
        await exchange(databases, 1, BOUGHT)
        await remember(databases, 1, BOUGHT, source_turn_ids=(10, 11))
        await exchange(databases, 2, CAT)
        await remember(databases, 2, CAT, source_turn_ids=(20, 21), entities=("コムギ",))


async def saved(data_dir: Path, target: Path, **options: Any) -> Path:
    async with make_archive(data_dir, now=NOW, server_version="1.0", **options) as archive:
        await write_archive(archive, target)
        assert len(content_of(target)) == archive.size
    assert not [name for name in names_in(data_dir) if name.startswith("backup.partial")]
    return target


async def forget(data_dir: Path, number: int) -> None:
    async with await Databases.open(data_dir, "home") as databases:
        async with databases.world(write=False) as db:
            reached = await forgetting.reach(db, [f"mem_{number:026d}"], also_source=True)
        async with databases.server() as db:
            await tombstones.add(db, reached, now=NOW)
        async with databases.world() as db:
            await forgetting.forget(db, reached, now=NOW)
        await databases.scrub_world()


async def summaries_in(data_dir: Path) -> list[str]:
    async with await Databases.open(data_dir, "home") as databases, databases.world(write=False) as db:
        return [memory.summary for memory in await memory_lookup.page(db)]


def content_of(file: Path) -> bytes:
    return file.read_bytes()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_a_new_computer_gets_all_of_it(tmp_path: Path) -> None:
    await fill(tmp_path / "old")
    persona = tmp_path / "kept.yaml"
    persona.write_text("name: コムギ\n", encoding="utf-8")
    async with await Databases.open(tmp_path / "old", "home") as databases, databases.server() as db:
        await devices.ensure_device(db, "desk", now=NOW)
        await tokens.create_token(db, kind="owner", now=NOW)
        await reserve_ids(db, TURN_IDS, 500)
    file = await saved(tmp_path / "old", tmp_path / "a.tar", persona_path=persona)
    done = await restore(file, tmp_path / "new", now=NOW)
    assert (done.worlds, done.moved_to, done.server) == (("home",), None, "1.0")
    assert await summaries_in(tmp_path / "new") == [BOUGHT, CAT]
    assert (tmp_path / "new" / "persona.yaml").read_text(encoding="utf-8") == "name: コムギ\n"
    async with await Databases.open(tmp_path / "new", "home") as databases:
        async with databases.server() as db:
            assert (await devices.ensure_device(db, "desk", now=NOW)).created_at == NOW
            assert not await tokens.has_owner_token(db), "keys stay where they are"
            assert min(await reserve_ids(db, TURN_IDS, 1)) > 500
        async with databases.world(write=False) as db:
            pending = await memory_lookup.pending_index(db, 10)
            assert len(pending) == 2, "vectors are not in it, so they are made anew"
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"server.sqlite", "worlds", "persona.yaml"}


async def test_it_is_a_plain_tar_with_a_manifest_that_can_be_checked(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    file = await saved(tmp_path / "data", tmp_path / "a.tar")
    with tarfile.open(file, "r:") as tar:
        names = tar.getnames()
        contents = {name: tar.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    assert names == ["manifest.json", "worlds/home/session.sqlite", "server.sqlite"]
    manifest = json.loads(contents["manifest.json"])
    assert (manifest["format"], manifest["version"]) == ("stackchan-backup", 1)
    for entry in manifest["files"]:
        assert hashlib.sha256(contents[entry["name"]]).hexdigest() == entry["sha256"]


def test_everything_kept_is_in_a_backup_or_left_out_for_a_reason() -> None:
    kept = {item.name for item in persisted.PERSISTED if item.kind != "table"}
    assert kept <= {"server.sqlite", "session.sqlite", "worlds", "persona.yaml", *backup.LEFT_OUT}


async def test_it_is_one_state_while_others_write(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    async with await Databases.open(tmp_path / "data", "home") as databases:
        stop = asyncio.Event()

        async def talk() -> int:
            number = 3
            while not stop.is_set():
                await exchange(databases, number, f"話 {number}")
                await remember(databases, number, f"話 {number}", source_turn_ids=(number * 10,))
                number += 1
            return number

        talking = asyncio.create_task(talk())
        for number in range(3):
            await saved(tmp_path / "data", tmp_path / f"{number}.tar")
        stop.set()
        assert await talking > 3, "writers did not wait for it"
    for number in range(3):
        await restore(tmp_path / f"{number}.tar", tmp_path / f"new{number}", now=NOW)
        with closing(sqlite3.connect(tmp_path / f"new{number}" / "worlds" / "home" / "session.sqlite")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


async def test_no_byte_of_what_was_forgotten_is_in_a_backup_even_before_the_scrub(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    async with await Databases.open(tmp_path / "data", "home") as databases:
        async with databases.world(write=False) as db:
            reached = await forgetting.reach(db, [f"mem_{1:026d}"], also_source=True)
        async with databases.server() as db:
            await tombstones.add(db, reached, now=NOW)
        async with databases.world() as db:
            await forgetting.forget(db, reached, now=NOW)
        file = await saved(tmp_path / "data", tmp_path / "a.tar")
    assert BOUGHT.encode() not in file.read_bytes()
    assert CAT.encode() in file.read_bytes()


async def test_what_was_forgotten_after_the_backup_stays_forgotten(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    file = await saved(tmp_path / "data", tmp_path / "a.tar")
    await forget(tmp_path / "data", 1)
    done = await restore(file, tmp_path / "data", now=NOW)
    assert (done.forgotten_memories, done.blanked_source_turns) == (1, 2)
    assert done.moved_to is not None
    assert (done.moved_to / "worlds" / "home" / "session.sqlite").exists()
    shutil.rmtree(done.moved_to)
    assert await summaries_in(tmp_path / "data") == [CAT]
    assert BOUGHT.encode() not in everything(tmp_path / "data")


async def test_what_was_forgotten_before_the_backup_stays_forgotten_in_a_house_that_still_had_it(
    tmp_path: Path,
) -> None:
    await fill(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    early = await saved(tmp_path / "b", tmp_path / "early.tar")
    await forget(tmp_path / "a", 1)
    late = await saved(tmp_path / "a", tmp_path / "late.tar")
    await restore(late, tmp_path / "b", now=NOW)
    done = await restore(early, tmp_path / "b", now=NOW)
    assert done.forgotten_memories == 1, "the tombstone came with the later backup"
    assert await summaries_in(tmp_path / "b") == [CAT]


async def test_a_device_that_was_shut_out_does_not_come_back(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    async with await Databases.open(tmp_path / "data", "home") as databases, databases.server() as db:
        await devices.ensure_device(db, "lost", now=NOW)
    file = await saved(tmp_path / "data", tmp_path / "a.tar")
    with closing(sqlite3.connect(tmp_path / "data" / "server.sqlite")) as connection:
        connection.execute("UPDATE devices SET revoked_at = '2026-11-30 00:00:00.000000'")
        connection.execute("UPDATE id_counters SET next_id = 900")
        connection.commit()
    await restore(file, tmp_path / "data", now=NOW)
    async with await Databases.open(tmp_path / "data", "home") as databases, databases.server() as db:
        assert (await devices.ensure_device(db, "lost", now=NOW)).revoked_at is not None
        assert min(await reserve_ids(db, SOURCE_TURN_IDS, 1)) >= 900


Members = list[tuple[tarfile.TarInfo, bytes]]


def rewritten(file: Path, change: Callable[[Members], Members], target: Path) -> Path:
    with tarfile.open(file, "r:") as tar:
        members = [(info, (tar.extractfile(info) or io.BytesIO()).read()) for info in tar]
    with tarfile.open(target, "w:", format=tarfile.USTAR_FORMAT) as tar:
        for info, content in change(members):
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target


def named(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


def manifest_with(members: Members, **changes: Any) -> Members:
    content = json.loads(members[0][1]) | changes
    return [(members[0][0], json.dumps(content).encode()), *members[1:]]


def entry_for(members: Members, name: str) -> Members:
    """A file of this name, and the manifest says so."""
    files = [*json.loads(members[0][1])["files"], {"name": name, "size": 0, "sha256": hashlib.sha256(b"").hexdigest()}]
    return [*manifest_with(members, files=files), named(name)]


def other_content(members: Members) -> Members:
    info, content = members[1]
    return [members[0], (info, content[:5000] + b"x" + content[5001:]), *members[2:]]


def newer_database(members: Members) -> Members:
    info, content = members[1]
    changed = content.replace(b"session_0004", b"session_9999")
    files = json.loads(members[0][1])["files"]
    files[0]["sha256"] = hashlib.sha256(changed).hexdigest()
    return [manifest_with(members, files=files)[0], (info, changed), *members[2:]]


BREAKS: list[tuple[str, Callable[[Members], Members], str]] = [
    ("path traversal", lambda found: entry_for(found, "../evil"), "backup_damaged"),
    ("traversal in a world", lambda found: entry_for(found, "worlds/../session.sqlite"), "backup_damaged"),
    ("an absolute path", lambda found: entry_for(found, "/tmp/evil"), "backup_damaged"),
    ("a file that no backup has", lambda found: entry_for(found, "run.json"), "backup_damaged"),
    ("not in the manifest", lambda found: [*found, named("worlds/x/session.sqlite")], "backup_damaged"),
    ("a symlink", lambda found: [found[0], named("worlds", tarfile.SYMTYPE, "/etc"), *found[1:]], "backup_damaged"),
    ("a hard link", lambda found: [found[0], named("server.sqlite", tarfile.LNKTYPE, "/etc/passwd")], "backup_damaged"),
    ("a device", lambda found: [found[0], named("server.sqlite", tarfile.CHRTYPE)], "backup_damaged"),
    ("a folder", lambda found: [found[0], named("worlds", tarfile.DIRTYPE), *found[1:]], "backup_damaged"),
    ("the same file twice", lambda found: [*found, found[1]], "backup_damaged"),
    ("a missing file", lambda found: found[:-1], "backup_damaged"),
    ("other content", other_content, "backup_damaged"),
    ("no manifest", lambda found: found[1:], "backup_foreign"),
    ("another manifest", lambda found: manifest_with(found, format="other"), "backup_foreign"),
    ("a newer version", lambda found: manifest_with(found, version=2), "storage_newer"),
    ("a manifest without files", lambda found: manifest_with(found, files=[]), "backup_damaged"),
    ("a newer database", newer_database, "storage_newer"),
]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")

    async def make() -> Path:
        await fill(folder / "data")
        return await saved(folder / "data", folder / "a.tar")

    return asyncio.run(make())


@pytest.mark.parametrize(("change", "code"), [each[1:] for each in BREAKS], ids=[each[0] for each in BREAKS])
async def test_a_backup_that_is_not_right_changes_nothing(
    tmp_path: Path, good: Path, change: Callable[[Members], Members], code: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "persona.yaml").write_text("mine", encoding="utf-8")
    bad = rewritten(good, change, tmp_path / "bad.tar")
    with pytest.raises(StorageError) as caught:
        await restore(bad, data, now=NOW)
    assert caught.value.code == code
    assert names_in(tmp_path) == ["bad.tar", "data"]
    assert names_in(data) == ["persona.yaml"]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.97])
async def test_a_cut_backup_changes_nothing(tmp_path: Path, good: Path, share: float) -> None:
    content = content_of(good)
    cut = tmp_path / "cut.tar"
    cut.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(StorageError) as caught:
        await restore(cut, tmp_path / "data", now=NOW)
    assert caught.value.code in ("backup_damaged", "backup_foreign")
    assert names_in(tmp_path / "data") == []


async def test_a_member_larger_than_the_disk_is_refused_before_it_is_written(tmp_path: Path, good: Path) -> None:
    def huge(members: Members) -> Members:
        files = json.loads(members[0][1])["files"]
        files[0]["size"] = 2**50
        return manifest_with(members, files=files)

    with pytest.raises(StorageError) as caught:
        await restore(rewritten(good, huge, tmp_path / "huge.tar"), tmp_path / "data", now=NOW)
    assert caught.value.code == "storage_full"


async def test_a_full_disk_during_a_backup_leaves_nothing_behind(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path / "data")

    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(backup, "copy_database", full)
    with pytest.raises(StorageError) as caught:
        await saved(tmp_path / "data", tmp_path / "a.tar")
    assert (caught.value.code, caught.value.retryable) == ("storage_full", True)
    assert list((tmp_path / "data").glob("backup*")) == []
    assert not (tmp_path / "a.tar").exists()


async def test_a_failure_while_it_takes_its_place_puts_everything_back(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path / "data")
    await forget(tmp_path / "data", 2)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if "backup.partial" in str(self):
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StorageError):
        await restore(good, tmp_path / "data", now=NOW)
    monkeypatch.undo()
    assert await summaries_in(tmp_path / "data") == [BOUGHT]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["server.sqlite", "worlds"]


async def test_copies_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    left = tmp_path / "data" / "backup.partial-1-x"
    left.mkdir()
    (left / "server.sqlite").write_bytes(b"x")
    clear_leftovers(tmp_path / "data")
    assert not left.exists()
    assert await summaries_in(tmp_path / "data") == [BOUGHT, CAT]
