"""The folder of an index: it persists, damage is moved aside, what is not ours is refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from server.errors import IndexMismatch, MemoryIndexError
from server.memory.index.base import checked_points
from server.memory.index.folder import MARK, IndexFolder
from server.memory.index.local import STORAGE, LocalStore
from tests.memory.index.indexes import FOLDER_KINDS, KINDS, MODEL, make_index, make_points, memory_id, opened, search

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
]

POINTS = make_points(50)


async def fill(kind: str, folder: Path) -> None:
    async with opened(kind, folder) as index:
        await index.upsert(POINTS)


def names_of(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))


# Persistence


@pytest.mark.parametrize("kind", FOLDER_KINDS)
async def test_points_outlive_the_process(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "world" / "index"
    index = make_index(kind, folder)
    report = await index.open()
    assert (report.points, report.rebuild_needed, report.moved_to) == (0, True, None)
    await index.upsert(POINTS)
    await index.delete([memory_id(3)])
    before = await search(index, POINTS, POINTS[3].vector, 10)
    await index.close()

    index = make_index(kind, folder)
    report = await index.open()
    assert (report.points, report.rebuild_needed, report.ended_cleanly) == (49, False, True)
    assert await index.ids() == {memory_id(n) for n in range(50) if n != 3}
    after = await search(index, POINTS, POINTS[3].vector, 10)
    assert [hit.memory_id for hit in after] == [hit.memory_id for hit in before]
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before], abs=1e-6)
    await index.close()
    assert not (folder.parent / "index.pid").exists()


@pytest.mark.parametrize("kind", FOLDER_KINDS)
async def test_summary_text_has_no_place_in_the_folder_and_only_its_owner_reads_it(kind: str, tmp_path: Path) -> None:
    await fill(kind, tmp_path / "index")
    assert (tmp_path / "index").stat().st_mode & 0o077 == 0
    marked = json.loads((tmp_path / "index" / MARK).read_text(encoding="utf-8"))
    assert marked["fingerprint"] == {"model": "test-embedding", "dimensions": 24, "instruction": "質問: "}


async def test_nothing_of_a_forgotten_memory_stays_in_the_files_of_local(tmp_path: Path) -> None:
    secret = replace(POINTS[1], payload=replace(POINTS[1].payload, topic="ひみつの引き出し"))
    async with opened("local", tmp_path / "index") as index:
        await index.upsert([POINTS[0], secret])
        assert holds(tmp_path, "ひみつの引き出し")
        await index.delete([secret.memory_id])
        assert not holds(tmp_path, "ひみつの引き出し")


def holds(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_local_writes_are_quick(tmp_path: Path) -> None:
    """Fails when the library has moved the connection on which commits are told not to wait for the disk."""
    store = LocalStore(MODEL.dimensions)
    (tmp_path / "data").mkdir()
    store.create(tmp_path / "data")
    store.write(checked_points(POINTS[:1], MODEL.dimensions))
    connection = store._connection
    assert connection is not None
    assert connection.execute("PRAGMA synchronous").fetchone() == (1,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


async def test_a_write_that_fails_half_way_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdrant_client.local.persistence import CollectionPersistence

    persist = CollectionPersistence.persist
    written: list[object] = []

    def full_disk(self: CollectionPersistence, point: object) -> None:
        if len(written) == 10:
            raise sqlite3.OperationalError("database or disk is full")
        written.append(point)
        persist(self, point)  # type: ignore[arg-type]

    index = make_index("local", tmp_path / "index")
    await index.open()
    with monkeypatch.context() as patched:
        patched.setattr(CollectionPersistence, "persist", full_disk)
        with pytest.raises(MemoryIndexError) as raised:
            await index.upsert(POINTS)
    assert "disk is full" in raised.value.message
    assert await index.ids() == {memory_id(n) for n in range(10)}
    await index.close()
    report = await index.open()
    assert (report.points, report.moved_to) == (10, None)
    await index.upsert(POINTS)
    assert await index.count() == 50
    await index.close()


# Another model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "changes",
    [{"model": "other"}, {"dimensions": 32}, {"instruction": ""}],
    ids=["model", "dimensions", "instruction"],
)
async def test_vectors_of_another_model_are_refused_until_discarded(
    kind: str, changes: dict[str, object], tmp_path: Path
) -> None:
    from qdrant_client import AsyncQdrantClient

    client = AsyncQdrantClient(":memory:") if kind == "server" else None
    async with opened(kind, tmp_path / "index", MODEL, client) as index:
        await index.upsert(POINTS)
    other = replace(MODEL, **changes)
    index = make_index(kind, tmp_path / "index", other, client)
    with pytest.raises(IndexMismatch) as raised:
        await index.open()
    assert raised.value.code == "index_mismatch"
    assert "test-embedding" in raised.value.message
    assert "rebuild" in str(raised.value.hint)
    # Nothing was touched: with its own model it opens.
    async with opened(kind, tmp_path / "index", MODEL, client) as same:
        assert await same.count() == 50
    # The rebuild begins empty.
    report = await index.open(discard=True)
    assert (report.points, report.rebuild_needed) == (0, True)
    await index.upsert(make_points(4, dimensions=other.dimensions))
    assert await index.count() == 4
    await index.close()
    if client:
        await client.close()


async def test_another_backend_is_a_mismatch(tmp_path: Path) -> None:
    await fill("local", tmp_path / "index")
    index = make_index("edge", tmp_path / "index")
    with pytest.raises(IndexMismatch) as raised:
        await index.open()
    assert "local" in raised.value.message
    assert (await index.open(discard=True)).rebuild_needed
    await index.close()


# Damage


def cut(path: Path, share: float = 0.4) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def cut_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            cut(path)


def other_dimensions(folder: Path) -> None:
    meta = folder / "data" / "meta.json"
    content = json.loads(meta.read_text(encoding="utf-8"))
    content["collections"]["memories"]["vectors"]["size"] = 7
    meta.write_text(json.dumps(content), encoding="utf-8")


def swap_vector(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "data" / STORAGE)) as connection, connection:
        key, blob = connection.execute("SELECT id, point FROM points LIMIT 1").fetchone()
        point = pickle.loads(blob)
        point.vector = [1.0, 2.0, 3.0]
        connection.execute("UPDATE points SET point = ? WHERE id = ?", (pickle.dumps(point), key))


def lose_rows(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "data" / STORAGE)) as connection, connection:
        connection.execute("DELETE FROM points WHERE rowid < 10")


LOCAL_DAMAGE: dict[str, Callable[[Path], object]] = {
    "mark empty": lambda folder: (folder / MARK).write_text(""),
    "mark truncated": lambda folder: cut(folder / MARK),
    "data gone": lambda folder: shutil.rmtree(folder / "data"),
    "meta.json empty": lambda folder: (folder / "data" / "meta.json").write_text(""),
    "meta.json truncated": lambda folder: cut(folder / "data" / "meta.json"),
    "meta.json gone": lambda folder: (folder / "data" / "meta.json").unlink(),
    "meta.json with other dimensions": other_dimensions,
    "SQLite truncated": lambda folder: cut(folder / "data" / STORAGE),
    "SQLite empty": lambda folder: (folder / "data" / STORAGE).write_bytes(b""),
    "SQLite gone": lambda folder: (folder / "data" / STORAGE).unlink(),
    "SQLite is something else": lambda folder: (folder / "data" / STORAGE).write_bytes(b"not a database" * 500),
    "a vector of other dimensions": swap_vector,
    "rows gone": lose_rows,
    "everything truncated": cut_all,
}
EDGE_DAMAGE: dict[str, Callable[[Path], object]] = {
    "mark truncated": lambda folder: cut(folder / MARK),
    "data gone": lambda folder: shutil.rmtree(folder / "data"),
    "configuration empty": lambda folder: (folder / "data" / "edge_config.json").write_text(""),
    "segments gone": lambda folder: shutil.rmtree(folder / "data" / "segments"),
    "segment descriptions truncated": lambda folder: [cut(path) for path in folder.rglob("segment.json")],
    "log truncated": lambda folder: [cut(path) for path in (folder / "data" / "wal").iterdir()],
    "vectors truncated": lambda folder: [
        cut(path, 0) for path in folder.rglob("vector_storage*/**/*") if path.is_file()
    ],
    "everything truncated": cut_all,
}
DAMAGE = [("local", name) for name in LOCAL_DAMAGE] + [("edge", name) for name in EDGE_DAMAGE]


@pytest.mark.parametrize(("kind", "name"), DAMAGE, ids=[f"{kind}: {name}" for kind, name in DAMAGE])
async def test_damage_is_moved_aside_and_asks_for_a_rebuild(kind: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    await fill(kind, folder)
    (LOCAL_DAMAGE if kind == "local" else EDGE_DAMAGE)[name](folder)

    index = make_index(kind, folder)
    report = await index.open()
    assert (report.points, report.rebuild_needed) == (0, True)
    assert report.reason
    assert report.moved_to is not None
    assert names_of(tmp_path, "index.damaged-*") == [Path(report.moved_to).name]
    assert Path(report.moved_to).parent == tmp_path
    await index.upsert(POINTS)
    assert (await search(index, POINTS, POINTS[8].vector, 1))[0].memory_id == memory_id(8)
    await index.close()
    async with opened(kind, folder) as again:
        assert await again.count() == 50


@pytest.mark.parametrize("kind", FOLDER_KINDS)
async def test_a_deleted_or_empty_folder_is_a_new_index(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    await fill(kind, folder)
    for prepare in (lambda: None, folder.mkdir, lambda: (folder.mkdir(), (folder / f"{MARK}.partial").touch())):
        shutil.rmtree(folder)
        prepare()
        index = make_index(kind, folder)
        report = await index.open()
        assert (report.points, report.rebuild_needed, report.moved_to) == (0, True, None)
        await index.close()


@pytest.mark.parametrize("kind", FOLDER_KINDS)
async def test_a_kill_while_the_folder_is_made_is_no_damage(kind: str, tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path / "index", kind, MODEL)
    folder.begin()
    (folder.data / "half-made").touch()
    index = make_index(kind, tmp_path / "index")
    report = await index.open()
    assert (report.points, report.rebuild_needed, report.moved_to) == (0, True, None)
    await index.upsert(POINTS)
    assert await index.count() == 50
    await index.close()
    assert names_of(tmp_path, "index*") == ["index", "index.lock"]


async def test_a_kill_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    """The moments in which a folder is away: while a graph comes in, and while an old index goes out."""
    folder = tmp_path / "index"
    await fill("edge", folder)
    (folder / "data").rename(folder / "data.old")
    async with opened("edge", folder) as index:
        assert await index.count() == 50
    shutil.copytree(folder / "data", folder / "data.old")
    shutil.copytree(folder / "data", folder / "data.building")
    shutil.copytree(folder, tmp_path / "index.dropped")
    async with opened("edge", folder) as index:
        assert await index.count() == 50
    assert names_of(folder, "*") == ["data", MARK]
    assert names_of(tmp_path, "*") == ["index", "index.lock"]


# Not ours


@pytest.mark.parametrize("kind", FOLDER_KINDS)
@pytest.mark.parametrize(
    "what", ["a file in it", "a link", "a file in its place", "a Qdrant folder", "writable by all"]
)
async def test_what_is_not_ours_is_refused_and_left_alone(kind: str, what: str, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    if what == "a file in it":
        folder.mkdir()
        (folder / "letter.txt").write_text("dear diary")
    elif what == "a link":
        await fill(kind, tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif what == "a file in its place":
        folder.write_text("dear diary")
    elif what == "a Qdrant folder":
        await fill("local", tmp_path / "ours")
        shutil.copytree(tmp_path / "ours" / "data", folder)
    else:
        await fill(kind, folder)
        folder.chmod(0o777)
    there = sorted(str(path) for path in folder.rglob("*"))
    for discard in (False, True):
        with pytest.raises(MemoryIndexError) as raised:
            await make_index(kind, folder).open(discard=discard)
        assert raised.value.code == "index_foreign"
    assert sorted(str(path) for path in folder.rglob("*")) == there
    assert not names_of(tmp_path, "index.damaged-*")


class Bomb:
    """A pickle that writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


async def test_a_pickle_that_runs_something_is_never_read(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    await fill("local", folder)
    with closing(sqlite3.connect(folder / "data" / STORAGE)) as connection, connection:
        connection.execute("UPDATE points SET point = ? WHERE rowid = 9", (pickle.dumps(Bomb(tmp_path / "ran")),))
    with pytest.raises(MemoryIndexError) as raised:
        await make_index("local", folder).open()
    assert raised.value.code == "index_foreign"
    assert "mkdir" in raised.value.message
    assert not (tmp_path / "ran").exists()
