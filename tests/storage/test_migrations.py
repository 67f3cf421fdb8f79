"""Migrations and models agree; every schema that was ever released can be opened with its rows."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, MetaData, inspect

from server.errors import StorageError
from server.storage import jobs, memory_lookup, migrate, newest, segments, sqlite
from server.storage.database import Database, Databases
from server.storage.devices import get_device
from server.storage.ids import IdAllocator
from server.storage.memory_records import MemoryFilter, SourceFilter
from server.storage.persisted import PERSISTED, TRANSIENT
from server.storage.server_tables import ServerTable
from server.storage.session_tables import SessionTable
from server.storage.timers import all_timers
from server.storage.turns import find_turn_by_key, get_trace, get_turn, recent_source_turns
from server.storage.word_index import search_memories, search_source_turns
from tests.storage.house import CHANNEL, make_session, make_turn

pytestmark = pytest.mark.integration

SCHEMAS = Path(__file__).parent / "schemas"
SESSIONS_0003 = ("01KB9ZZZZZZZZZZZZZZZZZZZZZ", "01KBB000000000000000000000")
TREES: dict[migrate.Tree, MetaData] = {"server": ServerTable.metadata, "session": SessionTable.metadata}


async def migrated(path: Path, tree: migrate.Tree) -> None:
    sqlite.ensure_private_file(path)
    await migrate.upgrade(path, tree)


def table_kinds(connection: Connection) -> dict[str, str]:
    """`table`, `virtual`, or `shadow`: what a virtual table keeps its own things in."""
    rows = connection.exec_driver_sql("PRAGMA main.table_list").mappings()
    return {row["name"]: row["type"] for row in rows if not row["name"].startswith("sqlite_")}


def differences_from(connection: Connection, metadata: MetaData) -> list[object]:
    """What Alembic would change; it does not know virtual tables, which `schema_of` compares by their SQL."""
    kinds = table_kinds(connection)
    context = MigrationContext.configure(
        connection, opts={"include_name": lambda name, kind, _parents: kind != "table" or kinds[name] == "table"}
    )
    return list(compare_metadata(context, metadata))


def schema_of(connection: Connection) -> dict[str, object]:
    """All that SQLite enforces, comparable; Alembic's own comparison sees neither CHECKs nor partial indices."""
    found = inspect(connection)
    tables = table_kinds(connection)
    virtual = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE %'")
    indices = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    return {
        "indices": {name: " ".join(sql.split()) for name, sql in indices},
        "virtual": {name: " ".join(sql.split()) for name, sql in virtual},
        "kinds": {name: kind for name, kind in tables.items() if name != "alembic_version"},
        **{
            table: {
                "columns": [(item["name"], str(item["type"]), item["nullable"]) for item in found.get_columns(table)],
                "primary key": found.get_pk_constraint(table)["constrained_columns"],
                "checks": {item["name"]: item["sqltext"] for item in found.get_check_constraints(table)},
                "unique": {item["name"]: item["column_names"] for item in found.get_unique_constraints(table)},
                "foreign keys": {
                    item["name"]: (item["constrained_columns"], item["referred_table"], item["referred_columns"])
                    for item in found.get_foreign_keys(table)
                },
            }
            for table in found.get_table_names()
            if table != "alembic_version" and tables[table] == "table"
        },
    }


@pytest.mark.parametrize("tree", TREES)
async def test_migrations_and_models_agree(tmp_path: Path, tree: migrate.Tree) -> None:
    await migrated(tmp_path / "migrated.sqlite", tree)
    by_migrations = sqlite.open_engine(tmp_path / "migrated.sqlite")
    by_models = sqlite.open_engine(tmp_path / "models.sqlite")
    async with by_migrations.connect() as connection:
        differences = await connection.run_sync(differences_from, TREES[tree])
        real = await connection.run_sync(schema_of)
    async with by_models.begin() as connection:
        await connection.run_sync(TREES[tree].create_all)
        meant = await connection.run_sync(schema_of)
    await by_migrations.dispose()
    await by_models.dispose()
    assert differences == []
    assert real == meant
    assert len(real) > 3


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Without the id of a house, which no two have in common."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    return {name: found if name != "house" else [len(house) for (house,) in found] for name, found in rows.items()}


@pytest.mark.parametrize("tree", TREES)
async def test_a_new_database_is_what_the_whole_history_comes_to(
    tmp_path: Path, tree: migrate.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrated(tmp_path / "migrated.sqlite", tree)
    # Neither a new database nor one that is up to date needs the history.
    monkeypatch.setitem(sys.modules, "server.storage.migrate", None)
    for _ in range(2):
        await (await Database.open(tmp_path / "new.sqlite", tree)).close()
    schemas, version_tables = [], []
    for name in ("migrated", "new"):
        engine = sqlite.open_engine(tmp_path / f"{name}.sqlite")
        async with engine.connect() as connection:
            schemas.append(await connection.run_sync(schema_of))
            version_tables.append(await connection.run_sync(lambda it: inspect(it).get_columns("alembic_version")))
        await engine.dispose()
    assert schemas[0] == schemas[1]
    assert str(version_tables[0]) == str(version_tables[1])
    assert rows_of(tmp_path / "new.sqlite") == rows_of(tmp_path / "migrated.sqlite")


@pytest.mark.parametrize("tree", TREES)
def test_the_newest_revision_is_the_end_of_the_history(tree: migrate.Tree) -> None:
    assert newest.newest_revision(tree) == migrate.script_directory(tree).get_current_head()


async def test_a_new_database_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_found: object, path: Path) -> None:
        raise sqlite.damaged(path, "a row points nowhere")

    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "refuse_lost_rows", refuse)
        with pytest.raises(StorageError, match="points nowhere"):
            await Database.open(tmp_path / "a.sqlite", "session")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    await (await Database.open(tmp_path / "a.sqlite", "session")).close()


async def test_rows_that_point_nowhere_are_noticed_at_every_start(tmp_path: Path) -> None:
    await (await Database.open(tmp_path / "a.sqlite", "server")).close()
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        connection.execute("INSERT INTO tokens VALUES ('t', 'h', 'device', 'gone', '2026-01-01 00:00:00', NULL)")
        connection.commit()
    with pytest.raises(StorageError, match="a row of tokens points to a missing row of devices"):
        await Database.open(tmp_path / "a.sqlite", "server")


@pytest.mark.parametrize("tree", TREES)
def test_every_older_schema_has_an_example(tree: migrate.Tree) -> None:
    revisions = {script.revision for script in migrate.script_directory(tree).walk_revisions()}
    assert {path.stem for path in SCHEMAS.glob(f"{tree}_*.sql")} >= {f"{tree}_0001"} | (
        revisions - {migrate.script_directory(tree).get_current_head()}
    )


def restore(data_dir: Path, server: str, session: str) -> None:
    world = data_dir / "worlds" / "home"
    world.mkdir(parents=True)
    for path, example in ((data_dir / "server.sqlite", server), (world / "session.sqlite", session)):
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((SCHEMAS / f"{example}.sql").read_text(encoding="utf-8"))


async def test_a_timer_that_ran_before_there_were_times_of_the_clock_is_of_a_length(tmp_path: Path) -> None:
    restore(tmp_path, "server_0004", "session_0001")
    async with await Databases.open(tmp_path, "home") as databases, databases.server(write=False) as db:
        (timer,) = await all_timers(db)
    assert (timer.label, timer.duration_seconds, timer.zone) == ("ラーメン", 180, None)


async def test_oldest_schema_opens_with_its_rows(tmp_path: Path) -> None:
    restore(tmp_path, "server_0001", "session_0001")
    async with await Databases.open(tmp_path, "home") as databases:
        async with databases.server(write=False) as db:
            device = await get_device(db, "desk")
        async with databases.world(write=False) as db:
            turn = await get_turn(db, 41)
            trace = await get_trace(db, 41)
            words = await recent_source_turns(db, "01KB9ZZZZZZZZZZZZZZZZZZZZZ", 10)
        assert await IdAllocator(databases.server, "turn").next_id() == 49
    assert device is not None
    assert (device.name, device.kind) == ("机のスタックチャン", "robot")
    assert turn is not None
    assert (turn.status, turn.outcome, turn.transcript, turn.emotion) == ("done", "ok", "左を見て", "happy")
    assert turn.started_at.isoformat() == "2026-11-30T12:00:00.250000+00:00"
    assert turn.latency == {"asr_ms": 310}
    assert (turn.idempotency_key, turn.request_digest) == (None, None)
    assert trace == {"stages": [{"name": "asr", "ms": 310}]}
    assert [(item.role, item.text) for item in words] == [("user", "左を見て"), ("robot", "見たよ。👀")]


async def test_oldest_schema_takes_new_turns_with_keys_and_digests(tmp_path: Path) -> None:
    restore(tmp_path, "server_0001", "session_0001")
    with closing(sqlite3.connect(tmp_path / "worlds" / "home" / "session.sqlite")) as connection:
        connection.execute("UPDATE turns SET idempotency_key = 'old'")
        connection.commit()
    async with await Databases.open(tmp_path, "home") as databases:
        session_id = await make_session(databases)
        await make_turn(databases, 49, session_id, idempotency_key="new", request_digest="d" * 64)
        async with databases.world(write=False) as db:
            old, new = [await find_turn_by_key(db, CHANNEL, key) for key in ("old", "new")]
    assert old is not None
    assert (old.turn_id, old.request_digest) == (41, None)
    assert new is not None
    assert (new.turn_id, new.request_digest) == (49, "d" * 64)


async def test_second_session_schema_opens_with_its_keys(tmp_path: Path) -> None:
    restore(tmp_path, "server_0001", "session_0002")
    async with await Databases.open(tmp_path, "home") as databases, databases.world(write=False) as db:
        turn = await find_turn_by_key(db, CHANNEL, "8e03978e-40d5-43dd-bc93-6894a57f9324")
    assert turn is not None
    assert (turn.turn_id, turn.request_digest, turn.transcript) == (41, "ab" * 32, "左を見て")


async def test_third_session_schema_opens_with_its_memories_and_what_failed_is_open_again(tmp_path: Path) -> None:
    restore(tmp_path, "server_0002", "session_0003")
    async with await Databases.open(tmp_path, "home") as databases, databases.world(write=False) as db:
        counted = await memory_lookup.counts(db)
        taken_in = [await segments.segments_of(db, session_id) for session_id in SESSIONS_0003]
        waiting = [len(await segments.open_exchanges(db, session_id)) for session_id in SESSIONS_0003]
        everyone = MemoryFilter("stackchan", None)
        found = await search_memories(db, "富士通", everyone, limit=9)
    assert counted.segments == {"memories": 1, "filler": 1}
    assert [[(one.segment_id, one.result) for one in some] for some in taken_in] == [
        [(1, "memories"), (2, "filler")],
        [],
    ]
    assert waiting == [0, 1]
    assert [hit.memory_id for hit in found] == ["mem_01KBB00000000000000000000A"]


async def test_words_said_before_there_was_an_index_are_found(tmp_path: Path) -> None:
    restore(tmp_path, "server_0001", "session_0002")
    async with await Databases.open(tmp_path, "home") as databases, databases.world(write=False) as db:
        everyone = SourceFilter(persona_id="stackchan", speaker_id=None)
        theirs = SourceFilter(persona_id="stackchan", speaker_id="spk_mika")
        found = {
            query: [hit.source_turn_id for hit in await search_source_turns(db, query, everyone, limit=9)]
            for query in ("左", "見た", "富士通", "diary", "猫")
        }
        private = [hit.source_turn_id for hit in await search_source_turns(db, "diary", theirs, limit=9)]
        waiting = await jobs.counts(db)
        first = await jobs.find(db, "ingest", "01KB9ZZZZZZZZZZZZZZZZZZZZZ")
        turn = await get_turn(db, 43)
    assert found == {"左": [97], "見た": [98, 97], "富士通": [99], "diary": [], "猫": []}
    assert private == [101]
    assert waiting == {"ingest": {"queued": 2}}
    assert first is not None
    assert (first.attempts, first.requests, first.payload) == (0, 1, None)
    assert turn is not None
    assert (turn.transcript, turn.request_digest) == ("Please keep my diary a secret.", "d" * 64)


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    await migrated(tmp_path / "a.sqlite", "session")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        before = list(connection.iterdump())
    await migrated(tmp_path / "a.sqlite", "session")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        assert list(connection.iterdump()) == before


async def test_migration_that_fails_half_way_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_connection: Connection, path: Path) -> None:
        raise sqlite.damaged(path, "a row points nowhere")

    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "check_foreign_keys", refuse)
        with pytest.raises(StorageError, match="points nowhere"):
            await migrated(tmp_path / "a.sqlite", "session")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    await migrated(tmp_path / "a.sqlite", "session")


async def test_migrated_rows_that_point_nowhere_are_noticed(tmp_path: Path) -> None:
    await migrated(tmp_path / "a.sqlite", "server")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        connection.execute("INSERT INTO tokens VALUES ('t', 'h', 'device', 'gone', '2026-01-01 00:00:00', NULL)")
        connection.commit()
    with pytest.raises(StorageError, match="a row of tokens points to a missing row of devices"):
        await migrate.upgrade(tmp_path / "a.sqlite", "server")


async def test_everything_that_is_kept_is_in_the_list(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        await make_session(databases)
    listed = {(item.scope, item.kind, item.name) for item in PERSISTED}
    assert len(listed) == len(PERSISTED)
    world = tmp_path / "worlds" / "home"
    for scope, folder, database in (("server", tmp_path, "server.sqlite"), ("world", world, "session.sqlite")):
        with closing(sqlite3.connect(folder / database)) as connection:
            tables = {
                name
                for _, name, kind, *_ in connection.execute("PRAGMA main.table_list")
                if kind != "shadow" and not name.startswith("sqlite_")
            }
        assert {name for kept, kind, name in listed if (kept, kind) == (scope, "table")} == tables
        for path in folder.iterdir():
            kind = "folder" if path.is_dir() else "file"
            assert (scope, kind, path.name) in listed or path.name in TRANSIENT, path
