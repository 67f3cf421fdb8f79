"""`stackchan memory` where no server runs: the same commands on the data folder itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from server.errors import EngineError
from server.run_file import hold_data_dir
from server.storage import jobs, segments
from server.storage.database import Databases
from server.storage.turns import get_turn
from tests.commands.conftest import Cli
from tests.commands.memory_house import (
    CAT,
    OLD,
    PC,
    SECRET,
    TEA,
    OtherEmbedding,
    WordsEmbedding,
    fill,
    in_database,
    use_embedding,
)
from tests.storage.house import NOW

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    WordsEmbedding.started = 0
    use_embedding(monkeypatch, WordsEmbedding)


@pytest.fixture
def house(data_dir: Path) -> Path:
    fill(data_dir)
    return data_dir


def answer(done: Any) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_nothing_is_made_where_nothing_is(cli: Cli, data_dir: Path) -> None:
    for command in (("status",), ("search", "x"), ("audit",), ("rebuild",), ("retry",), ("show", PC)):
        done = cli("memory", *command)
        assert done.code == 1
        for told in ("memory_missing", "There is no memory in", "まだ記憶がありません", "先にロボットと話すか"):
            assert told in done.err
    assert not data_dir.exists()


def test_status_counts_what_is_there(cli: Cli, house: Path) -> None:
    found = answer(cli("memory", "status", "--json"))
    assert found["turns"] == 3
    assert found["memories"] == {"active": 3, "superseded": 1, "forgotten": 0}
    assert found["pending"] == 4 + 3  # four vectors and three sessions
    assert found["index"]["points"] == 0
    assert found["embedding_model"] == "words-of-the-test"
    assert WordsEmbedding.started == 0
    shown = cli("memory", "status").out
    assert "3 active" in shown
    assert "4 without a vector yet" in shown
    assert "ベクトル未作成 4件" in shown


def test_search_finds_by_meaning_once_the_index_is_built(cli: Cli, house: Path) -> None:
    assert answer(cli("memory", "rebuild", "--json"))["done"] == 4
    found = answer(cli("memory", "search", "富士通のパソコン", "--json"))
    assert found["searched"]["words_only"] is None
    best = found["memories"][0]
    assert best["memory_id"] == PC
    assert best["retrieval_score"] > 0.5
    assert OLD not in [one["memory_id"] for one in found["memories"]]
    shown = cli("memory", "search", "富士通のパソコン")
    assert "25,000円" in shown.out
    assert shown.err == ""


def test_the_owner_finds_what_is_private_to_somebody(cli: Cli, house: Path) -> None:
    assert CAT in cli("memory", "search", "ミケ").out


def test_without_the_model_words_find_and_it_is_said(cli: Cli, house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = EngineError("The embedding engine is not installed.", code="engine_unavailable", hint="scripts/start")
    use_embedding(monkeypatch, missing)
    done = cli("memory", "search", "富士通")
    assert done.code == 0
    assert "25,000円" in done.out
    assert "Words alone are searched" in done.err
    status = answer(cli("memory", "status", "--json"))
    assert status["index"]["problem"]["code"] == "engine_unavailable"
    refused = cli("memory", "rebuild")
    assert refused.code == 1
    assert "engine_unavailable" in refused.err
    # Forgetting needs no model; what is left of the index goes with its job.
    forgotten = answer(cli("memory", "forget", TEA, "--yes", "--json"))
    assert forgotten["still_found"] == []


def test_show_and_edit(cli: Cli, house: Path) -> None:
    shown = cli("memory", "show", PC)
    assert "hiro: 違う、二万五千円" in shown.out
    assert "30,000円" in shown.out
    changes = ("--summary", "𠮷田さんから26,000円で買った。", "--entity", "𠮷田", "--occurred-at", "2026-11-28")
    done = cli("memory", "edit", PC, *changes, "--json")
    assert "memory rebuild" in done.err
    edited = answer(done)
    assert edited["summary"] == "𠮷田さんから26,000円で買った。"
    assert edited["entities"] == ["𠮷田"]
    assert edited["occurred_at"] == "2026-11-28T12:00:00+09:00"
    assert edited["index_state"] == "pending"
    assert answer(cli("memory", "show", PC, "--json"))["summary"] == edited["summary"]
    assert cli("memory", "edit", PC, "--summary", "").code == 1


def test_an_unknown_memory_is_an_error(cli: Cli, house: Path) -> None:
    done = cli("memory", "show", f"mem_{9:026d}")
    assert done.code == 1
    assert "memory_not_found" in done.err


def test_what_is_forgotten_is_in_no_file_any_more(cli: Cli, house: Path) -> None:
    assert cli("memory", "rebuild").code == 0
    speech = house / "speech"
    speech.mkdir()
    recording = speech / "1-24000.pcm"
    failed = house / "failed-audio" / "1.wav"
    failed.parent.mkdir()
    for file in (recording, failed):
        file.write_bytes(b"voice")
    world = house / "worlds" / "home"

    def holds(words: str) -> bool:
        return any(words.encode() in path.read_bytes() for path in world.rglob("*") if path.is_file())

    assert holds(SECRET)
    assert holds("30,000円")
    done = cli("memory", "forget", PC, "--yes")
    assert done.code == 0
    assert "2 memories forgotten, the words of 2 turns blanked." in done.out
    assert not holds(SECRET)
    assert not holds("25,000円")
    assert not holds("30,000円")
    assert not failed.exists()
    assert "富士通" not in cli("memory", "search", "富士通").out
    assert cli("memory", "show", PC).code == 1
    # The word index and the vectors of the others are as they were.
    assert TEA in cli("memory", "search", "お茶").out


def test_export_and_import_move_a_house(cli: Cli, house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("memory", "forget", TEA, "--yes").code == 0
    file = tmp_path / "memory.jsonl"
    assert "3 memories exported" in cli("memory", "export", str(file)).out
    assert "お茶" not in file.read_text(encoding="utf-8")
    new = tmp_path / "new"
    done = cli("memory", "import", str(file), "--data-dir", str(new), "--json")
    assert answer(done)["imported"] == 3
    assert "memory rebuild" in done.err
    assert "次にサーバーを起動したあと" in done.err
    assert "違う、二万五千円" in cli("memory", "show", PC, "--data-dir", str(new)).out
    again = cli("memory", "import", str(file), "--data-dir", str(new), "--json")
    assert (answer(again)["imported"], again.err) == (0, ""), "nothing new waits for its vector"
    # In the house where it was forgotten nothing comes back.
    assert answer(cli("memory", "import", str(file), "--json"))["imported"] == 0


def test_a_file_that_is_no_export_is_refused_whole(cli: Cli, house: Path, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    for wrong in ("", "{}", '{"format":"stackchan-memory","version":2}\n', "𠮷\x00"):
        file.write_text(wrong, encoding="utf-8")
        done = cli("memory", "import", str(file))
        assert done.code == 1, wrong
        assert "Line 1" in done.err


def test_a_lost_index_is_made_anew(cli: Cli, house: Path) -> None:
    assert cli("memory", "rebuild").code == 0
    before = answer(cli("memory", "search", "パソコン", "--json"))["memories"]
    shutil.rmtree(house / "worlds" / "home" / "index")
    # Looking must not hide from the next server that everything is missing.
    assert answer(cli("memory", "status", "--json"))["index"]["points"] == 0
    assert in_database(house, _pending) == 4
    done = cli("memory", "rebuild")
    assert done.code == 0
    assert "4 memories" in done.out
    assert in_database(house, _pending) == 0
    after = answer(cli("memory", "search", "パソコン", "--json"))["memories"]
    assert [one["memory_id"] for one in after] == [one["memory_id"] for one in before]
    for one, other in zip(before, after, strict=True):
        assert one["retrieval_score"] == pytest.approx(other["retrieval_score"], abs=1e-5)


def test_another_model_is_told_and_a_rebuild_changes_over(
    cli: Cli, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("memory", "rebuild").code == 0
    use_embedding(monkeypatch, OtherEmbedding)
    done = cli("memory", "search", "富士通")
    assert "25,000円" in done.out
    assert "words-of-the-test" in done.err
    assert answer(cli("memory", "status", "--json"))["index"]["problem"]["code"] == "index_mismatch"
    assert cli("memory", "rebuild").code == 0
    status = answer(cli("memory", "status", "--json"))
    assert status["index"]["problem"] is None
    assert status["index"]["points"] == 4


def test_parked_work_is_queued_again(cli: Cli, house: Path) -> None:
    in_database(house, _park)
    parked = answer(cli("memory", "status", "--json"))["parked"]
    assert [(one["kind"], one["code"]) for one in parked] == [("ingest", "embedding_failed")] * 3
    assert answer(cli("memory", "retry", "--json")) == {"queued": 3}
    assert answer(cli("memory", "status", "--json"))["parked"] == []


def test_an_audit_samples_what_was_taken_in(cli: Cli, house: Path) -> None:
    in_database(house, _take_in)
    found = answer(cli("memory", "audit", "--json"))
    assert found["segments"] == {"memories": 1, "filler": 1}
    assert [turn["text"] for turn in found["filler"][0]["said"]] == ["お茶が好き", "うん。"]
    assert [one["memory_id"] for one in found["kept"][0]["memories"]] == [PC]
    shown = cli("memory", "audit").out
    assert "hiro: 違う、二万五千円" in shown
    assert "50%" in shown


def test_a_folder_in_use_is_left_alone(cli: Cli, house: Path) -> None:
    with hold_data_dir(house):
        done = cli("memory", "status")
    assert done.code == 1
    assert "data_in_use" in done.err


async def _take_in(databases: Databases) -> None:
    async with databases.world() as db:
        for turn_id, result in ((2, "memories"), (3, "filler")):
            turn = await get_turn(db, turn_id)
            assert turn is not None
            await segments.close_segment(db, turn.session_id, [turn_id], result, now=NOW)


async def _pending(databases: Databases) -> int:
    async with databases.world(write=False) as db:
        return sum((await jobs.counts(db)).get("index", {}).values())


async def _park(databases: Databases) -> None:
    """Let every job on a conversation fail until it is given up."""
    later = NOW
    while True:
        async with databases.world() as db:
            due = await jobs.next_due(db, kinds=["ingest"])
            if due is None:
                return
            later = max(due, later)
            leased = await jobs.lease(db, owner="test", now=later, lease_seconds=60, kinds=["ingest"])
            assert leased is not None
            await jobs.fail(db, leased, "EmbeddingError: embedding_failed", now=later)
