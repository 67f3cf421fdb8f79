"""`stackchan memory` with a running server: what is asked of it, what is shown, and how refusals end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.conftest import Cli
from tests.commands.memory_server import OLD_ID, PC_ID, TEA_ID, MemoryServer, memory

pytestmark = pytest.mark.integration


@pytest.fixture
def server(data_dir: Path) -> Iterator[MemoryServer]:
    with MemoryServer() as running:
        running.announce(data_dir)
        yield running


class Typed:
    """A terminal at which somebody answers."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._answer


# status


def test_status_shows_every_figure_and_what_needs_a_hand(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "status")
    assert done.code == 0
    for words in ("1,234", "2 active, 1 superseded, 4 forgotten", "56", "7 (1 corrected", "local, 3 points, 2.5 MB"):
        assert words in done.out
    assert "multilingual-e5-small-q4" in done.out
    assert f"parked: index of {TEA_ID}: embedding_failed" in done.out
    assert "memory retry" in done.out
    assert "edge" not in done.out


def test_status_recommends_another_index_above_five_thousand(cli: Cli, server: MemoryServer) -> None:
    server.status = {**server.status, "memories": {"active": 5001, "superseded": 0, "forgotten": 0}}
    assert "memory.index_kind" in cli("memory", "status").out
    server.status = {**server.status, "index": {"kind": "edge", "points": 5001}}
    assert "memory.index_kind" not in cli("memory", "status").out


def test_status_says_why_the_index_cannot_be_used(cli: Cli, server: MemoryServer) -> None:
    problem = {"code": "index_mismatch", "message": "Another model made these vectors.", "hint": "memory rebuild"}
    server.status = {**server.status, "index": {"kind": "local", "points": None, "problem": problem}}
    done = cli("memory", "status")
    assert "Another model made these vectors." in done.out
    assert "memory rebuild" in done.out


def test_json_is_the_servers_own_answer(cli: Cli, server: MemoryServer) -> None:
    assert json.loads(cli("memory", "status", "--json").out) == server.status
    assert json.loads(cli("memory", "show", PC_ID, "--json").out)["sources"] == server.sources[PC_ID]


# search


def test_search_shows_date_topic_summary_score_and_speaker(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "search", "富士通", "--limit", "3")
    assert done.code == 0
    first, second = done.out.splitlines()[:2]
    # Its own zone's day, though it was the day before in UTC.
    assert "2026-11-29" in first
    assert "買い物" in first
    assert "score 0.91" in first
    assert "hiro" in first
    assert "富士通のPCを25,000円で買った。" in second
    assert PC_ID in done.out
    assert OLD_ID not in done.out
    assert server.last("GET") == ("/v1/memories", {"limit": "3", "query": "富士通"})


def test_search_passes_what_narrows_on(cli: Cli, server: MemoryServer) -> None:
    narrowed = ("--type", "episode", "--entity", "富士通", "--from", "2026-11-01", "--to", "2026-11-30")
    assert cli("memory", "search", "パソコン", "--status", "all", "--speaker", "hiro", *narrowed).code == 0
    assert server.last("GET")[1] == {
        "limit": "10",
        "query": "パソコン",
        "status": "all",
        "type": "episode",
        "entity": "富士通",
        "date_from": "2026-11-01",
        "date_to": "2026-11-30",
        "speaker": "hiro",
    }


def test_without_a_question_the_newest_are_listed_page_by_page(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "search", "--limit", "1")
    assert PC_ID in done.out
    assert TEA_ID not in done.out
    assert f"--after {PC_ID}" in done.err
    assert "score" not in done.out
    cli("memory", "search", "--after", PC_ID)
    assert server.last("GET")[1]["after"] == PC_ID


def test_nothing_found_and_words_only_are_said(cli: Cli, server: MemoryServer) -> None:
    server.searched = {"loosened": ["entities"], "words_only": "index_locked"}
    done = cli("memory", "search", "宇宙旅行")
    assert done.code == 0
    assert "Nothing was found. / 見つかりませんでした。" in done.out
    assert "index_locked" in done.err
    assert "entities" in done.err


@pytest.mark.parametrize(
    "wrong",
    [
        ("search", "x", "--from", "yesterday"),
        ("search", "x", "--to", "2026-1-1"),
        ("search", "x", "--after", PC_ID),
        ("search", "x", "--limit", "0"),
        ("search", "x", "--type", "rumour"),
        ("show", "PC"),
        ("show", "../../v1/backup"),
        ("show", ""),
        ("forget", "all"),
        ("edit", PC_ID),
        ("edit", PC_ID, "--importance", "6"),
        ("edit", PC_ID, "--occurred-at", "last week"),
        ("edit", PC_ID, "--entity", "a", "--no-entities"),
        ("audit", "--sample", "0"),
        ("import", "no-such-file.jsonl"),
        ("export", "/no/such/folder/out.jsonl"),
    ],
)
def test_wrong_use_asks_the_server_nothing(cli: Cli, server: MemoryServer, wrong: tuple[str, ...]) -> None:
    done = cli("memory", *wrong)
    assert done.code == 2
    assert done.out == ""
    assert server.asked == []


# show, edit


def test_show_gives_the_exact_words_and_the_versions(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "show", PC_ID)
    assert done.code == 0
    assert "2026-11-29 00:30  hiro: 違う、二万五千円" in done.out
    assert "robot (its answer, not a source / 返事): 二万五千円だね。" in done.out
    assert "Older versions / 前の版" in done.out
    assert "30,000円" in done.out
    newer = cli("memory", "show", OLD_ID).out
    assert "Newer versions / 新しい版" in newer
    assert "superseded" in newer


def test_words_that_were_forgotten_are_shown_as_gone(cli: Cli, server: MemoryServer) -> None:
    server.sources[TEA_ID][0]["text"] = None
    out = cli("memory", "show", TEA_ID).out
    assert "None" not in out
    assert "forgotten" in out


def test_nothing_a_memory_holds_steers_the_terminal(cli: Cli, server: MemoryServer) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\u2028\r\n偽の行 [bold]"
    server.memories[TEA_ID] = memory(TEA_ID, evil, topic=evil, entities=[evil], speakers=[evil], zone=evil)
    server.sources[TEA_ID][0] |= {"text": evil, "speaker_id": evil}
    server.status = {**server.status, "embedding_model": evil, "index": {"kind": evil, "problem": {"message": evil}}}
    told = [cli("memory", "show", TEA_ID), cli("memory", "search"), cli("memory", "status")]
    told += [cli("memory", "forget", TEA_ID, "--yes")]
    for done in told:
        assert done.code == 0
        for forbidden in ("\x1b", "\x07", "\u202e", "\u2028", "\r"):
            assert forbidden not in done.out + done.err
        assert "[bold]" in done.out + done.err
        # Only exact words keep their line ends, and never begin a line.
        assert "\n偽の行" not in done.out + done.err


def test_an_edit_sends_only_what_is_named(cli: Cli, server: MemoryServer) -> None:
    done = cli(
        "memory", "edit", PC_ID, "--summary", "富士通のPCを26,000円で買った。", "--entity", "富士通", "--entity", "PC"
    )
    assert done.code == 0
    assert "26,000円" in done.out
    path, body = server.last("PATCH")
    assert path == f"/v1/memories/{PC_ID}"
    assert json.loads(body) == {"summary": "富士通のPCを26,000円で買った。", "entities": ["富士通", "PC"]}
    cli("memory", "edit", PC_ID, "--no-entities", "--type", "fact", "--importance", "5")
    assert json.loads(server.last("PATCH")[1]) == {"entities": [], "memory_type": "fact", "importance": 5}


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("2026-11-28", "2026-11-28T12:00:00+09:00"),
        ("2026-11-28T18:30", "2026-11-28T18:30:00+09:00"),
        ("2026-11-28T18:30+00:00", "2026-11-28T18:30:00+00:00"),
    ],
)
def test_a_day_is_meant_where_the_memory_happened(cli: Cli, server: MemoryServer, typed: str, sent: str) -> None:
    assert cli("memory", "edit", PC_ID, "--occurred-at", typed).code == 0
    assert json.loads(server.last("PATCH")[1]) == {"occurred_at": sent}


# forget


def test_forgetting_needs_a_yes_and_shows_what_goes(
    cli: Cli, server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = cli("memory", "forget", PC_ID)
    assert done.code == 2
    assert "--yes" in done.err
    for words in ("25,000円", "30,000円", "違う、二万五千円"):
        assert words in done.err
    assert PC_ID in server.memories


@pytest.mark.parametrize(
    ("typed", "gone"), [("y\n", True), ("はい\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_person_is_asked(
    cli: Cli, server: MemoryServer, monkeypatch: pytest.MonkeyPatch, typed: str, gone: bool
) -> None:
    monkeypatch.setattr("server.commands.asking.sys", type("S", (), {"stdin": Typed(typed)}))
    done = cli("memory", "forget", PC_ID)
    assert (PC_ID not in server.memories) is gone
    assert done.code == (0 if gone else 1)
    assert ("Nothing was forgotten" in done.err) is not gone


def test_forgetting_tells_how_much_and_that_nothing_finds_it(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "forget", PC_ID, "--yes")
    assert done.code == 0
    assert "2 memories forgotten, the words of 2 turns blanked." in done.out
    assert "Nothing finds it any more: looked by id, by names, numbers and words, and for vectors" in done.out
    assert server.last("DELETE") == (f"/v1/memories/{PC_ID}", {"also_source": "true"})
    assert cli("memory", "forget", TEA_ID, "-y", "--keep-words").code == 0
    assert server.last("DELETE")[1] == {"also_source": "false"}


def test_what_is_still_found_is_a_failure(cli: Cli, server: MemoryServer) -> None:
    server.still_found = [PC_ID]
    done = cli("memory", "forget", PC_ID, "--yes")
    assert done.code == 1
    assert f"Not gone yet / まだ消えていません: {PC_ID}." in done.err
    assert "Run the same command again" in done.err
    assert "Nothing finds it" not in done.out
    answer = cli("memory", "forget", TEA_ID, "--yes", "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["still_found"] == [PC_ID]


def test_another_memory_that_still_tells_it_is_shown_with_how_to_forget_it(cli: Cli, server: MemoryServer) -> None:
    server.still_found = [TEA_ID, "source turn 31"]
    done = cli("memory", "forget", PC_ID, "--yes")
    assert done.code == 1
    assert "お茶が好き。" in done.err.partition("まだ残っている別の記憶")[2]
    assert f"memory forget {TEA_ID}" in done.err
    assert "まだ残っている発言: source turn 31." in done.err
    assert "again" not in done.err


def test_json_and_yes_show_nothing_else(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "forget", TEA_ID, "--yes", "--json")
    assert json.loads(done.out) == {"forgotten": [TEA_ID], "blanked_turns": 2, "still_found": []}
    assert done.err == ""


# export, import


def test_export_writes_a_private_file_and_import_takes_it(cli: Cli, server: MemoryServer, tmp_path: Path) -> None:
    file = tmp_path / "出力.jsonl"
    done = cli("memory", "export", str(file))
    assert done.code == 0
    assert f"3 memories exported to {file}" in done.out
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_bytes().splitlines()[0])["format"] == "stackchan-memory"
    taken = cli("memory", "import", str(file))
    assert taken.code == 0
    assert "2 turns, 3 imported, 1 already there, 0 forgotten" in taken.out
    assert server.last("POST") == ("/v1/memory/import", file.read_bytes())


def test_export_replaces_only_when_told(cli: Cli, server: MemoryServer, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("mine")
    refused = cli("memory", "export", str(file))
    assert refused.code == 2
    assert "--force" in refused.err
    assert file.read_text() == "mine"
    assert server.asked == []
    assert cli("memory", "export", str(file), "--force", "--json").code == 0
    assert len(file.read_bytes().splitlines()) == 5


@pytest.mark.parametrize("cut_at", [0, 10, 400])
def test_an_export_that_breaks_off_leaves_nothing(cli: Cli, server: MemoryServer, tmp_path: Path, cut_at: int) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("the one before")
    server.cut_at = cut_at
    done = cli("memory", "export", str(file), "--force")
    assert done.code == 1
    assert "connection" in done.err
    assert file.read_text() == "the one before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.jsonl"]


def test_an_export_without_its_last_line_is_none(cli: Cli, server: MemoryServer, tmp_path: Path) -> None:
    server.export = b'{"format":"stackchan-memory","version":1}\n{"memory":{}}\n'
    done = cli("memory", "export", str(tmp_path / "out.jsonl"))
    assert done.code == 1
    assert "export_truncated" in done.err
    assert not (tmp_path / "out.jsonl").exists()


# rebuild, retry, audit


def test_a_rebuild_is_followed_to_its_end(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "rebuild")
    assert done.code == 0
    assert "3 memories" in done.out
    assert [path for how, path, _ in server.asked if how == "POST"] == ["/v1/memory/rebuild"]


def test_a_rebuild_that_runs_already_is_followed_too(cli: Cli, server: MemoryServer) -> None:
    running = {"code": "rebuild_running", "message": "It is being rebuilt.", "retryable": True, "hint": None}
    server.fail["POST", "/v1/memory/rebuild"] = (409, running)
    assert cli("memory", "rebuild").code == 0


def test_a_rebuild_that_fails_says_why(cli: Cli, server: MemoryServer) -> None:
    error = {"code": "embedding_failed", "message": "The model broke.", "retryable": False, "hint": "stackchan doctor"}
    server.rebuild_steps = [{"state": "failed", "done": 1, "total": 3, "error": error}]
    done = cli("memory", "rebuild")
    assert done.code == 1
    assert "The model broke." in done.err
    assert "embedding_failed" in done.err
    assert "stackchan doctor" in done.err


def test_parked_work_is_queued_again(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "retry")
    assert (done.code, done.out.split()[0]) == (0, "1")
    assert "the server does them" in done.out


def test_an_audit_shows_what_was_kept_beside_what_was_left_out(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "audit", "--sample", "5")
    assert done.code == 0
    assert server.last("GET") == ("/v1/memory/audit", {"sample": "5"})
    kept, left_out = done.out.index("覚えたこと (1)"), done.out.index("覚えなかったこと (1)")
    assert kept < done.out.index("25,000円") < done.out.index("違う、二万五千円") < left_out
    assert left_out < done.out.index("user: おはよう")
    for words in ("Segments: 3 memories, 1 filler", "by type: 2 episode, 1 preference", "25%"):
        assert words in done.out


# Refusals


def test_a_memory_that_is_not_there_is_a_refusal_with_the_servers_words(cli: Cli, server: MemoryServer) -> None:
    done = cli("memory", "show", "mem_00000000000000000000000000")
    assert done.code == 4
    assert "There is no such memory." in done.err
    assert "memory_not_found" in done.err


def test_a_server_that_loads_its_models_is_waited_for(cli: Cli, server: MemoryServer) -> None:
    server.starting = 2
    done = cli("memory", "status", "--json")
    assert done.code == 0
    assert "loading its models" in done.err


def test_a_server_that_is_gone_is_exit_code_3(cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.commands.client.LISTEN_WAIT_SECONDS", 0.0)
    with MemoryServer() as gone:
        gone.announce(data_dir)
    assert cli("memory", "status").code == 3


def test_help_names_every_command(cli: Cli) -> None:
    out = cli("memory", "--help").out
    for word in ("status", "search", "show", "edit", "forget", "export", "import", "rebuild", "retry", "audit"):
        assert f" {word} " in out
