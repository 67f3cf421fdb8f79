"""scripts/soak as it is called: figures for people and for machines, and a status that tells a broken promise."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from tests.soaks import malformed
from tests.soaks.promises import Promise
from tests.soaks.server import Figures, open_files

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "soak"

pytestmark = pytest.mark.integration


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module, its kept folders below `tmp_path`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loader = SourceFileLoader("soak_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("soak_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def test_malformed_requests_are_sent_and_every_figure_is_told(tmp_path: Path) -> None:
    report_path = tmp_path / "new folder" / "soak.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, "requests", "--count", "40", "--seed", "3", "--json", report_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASS") == 8
    assert "FAIL" not in done.stdout
    assert "Every promise is kept." in done.stdout
    report = json.loads(report_path.read_text(encoding="utf-8"))
    assert (report["kept"], report["seed"]) == (True, 3)
    (run,) = report["soaks"].values()
    assert run["count"] == 40
    figures = {promise["name"]: promise["figures"] for promise in run["promises"]}
    assert figures["no_server_error"]["sent"] == 40
    assert sum(figures["no_server_error"]["by_kind"].values()) == 40
    assert figures["no_growth"]["at_the_end"]["tasks"] >= 1
    assert {"cores", "python", "stackchan-server", "schemathesis"} <= set(report["machine"])


def test_a_server_that_breaks_gives_status_1_and_keeps_what_broke_it(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def answer_500(address: tuple[str, int], request: malformed.Malformed) -> list[malformed.WireAnswer]:
        answers = send(address, request)
        return [malformed.WireAnswer(500, {}, b"oops") for _ in answers] if request.kind == "json" else answers

    send = malformed.send
    monkeypatch.setattr(malformed, "send", answer_500)
    report_path = tmp_path / "soak.json"
    assert script.main(["requests", "--count", "40", "--json", str(report_path)]) == 1
    report = json.loads(report_path.read_text(encoding="utf-8"))
    broken = [p for p in report["soaks"]["requests"]["promises"] if not p["kept"]]
    assert [promise["name"] for promise in broken] == ["no_server_error", "one_form"]
    assert report["kept"] is False
    assert broken[0]["figures"]["count"] >= 6
    assert capsys.readouterr().out.count("FAIL") == 2
    (kept,) = tmp_path.glob("stackchan-soak-*")
    requests = list(kept.rglob("*-server_error.http"))
    assert len(requests) == broken[0]["figures"]["count"]
    assert all(request.read_bytes().startswith(b"POST /v1/turns HTTP/1.1\r\n") for request in requests)


@pytest.mark.parametrize(("verdicts", "status"), [({}, 0), ({"faults": False}, 1), ({"requests": False}, 1)])
def test_all_runs_every_soak_even_after_one_that_broke(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, verdicts: dict[str, bool], status: int
) -> None:
    ran: list[tuple[str, int, int]] = []

    def fake(name: str) -> Callable[..., list[Promise]]:
        def soak(count: int, seed: int, folder: Path, on_progress: Callable[[int, int], None]) -> list[Promise]:
            assert folder.is_dir()
            assert list(folder.iterdir()) == []
            on_progress(count, count)
            ran.append((name, count, seed))
            return [Promise("p", "It holds.", verdicts.get(name, True), {"figure": 1.5})]

        return soak

    modules = {module: name for name, (module, _, _) in script.SOAKS.items()}

    def find(module: str) -> ModuleType:
        found = ModuleType(module)
        found.soak = fake(modules[module])  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(script.importlib, "import_module", find)
    assert script.main(["all", "--seed", "4"]) == status
    counts = {"requests": 10_000, "concurrency": 200, "faults": 200, "kills": 100, "frames": 20_000}
    counts |= {"aborts": 500, "cuts": 500, "sockets": 20_000}
    assert ran == [(name, count, 4) for name, count in counts.items()]


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["requests", "--count", "0"], ["requests", "--count", "many"]])
def test_what_is_not_understood_is_refused(
    script: ModuleType, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_open_files_are_counted_by_kind_and_a_database_once_whatever_lies_beside_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "one.sqlite")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        before = open_files(os.getpid())
        assert before["one.sqlite"] == 1
        database.execute("CREATE TABLE words (word)")
        with closing(sqlite3.connect(tmp_path / "one.sqlite")) as again:
            again.execute("SELECT * FROM words")
            assert (tmp_path / "one.sqlite-wal").exists()
            assert open_files(os.getpid()) == before
        near, far = socket.socketpair()
        with near, far, (tmp_path / "one.txt").open("w"), closing(sqlite3.connect(tmp_path / "two.sqlite")) as other:
            other.execute("CREATE TABLE words (word)")
            after = open_files(os.getpid())
    grown = {kind: count - before.get(kind, 0) for kind, count in after.items() if count != before.get(kind, 0)}
    assert grown == {"socket": 2, "one.txt": 1, "two.sqlite": 1}


def figures(**changes: float) -> Figures:
    base = {"tasks": 3, "threads": 9, "files": 20, "rss_mib": 150.0, "peak_rss_mib": 180.0}
    return Figures(**{**base, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("end", "broken"),
    [
        (figures(), set()),
        (figures(threads=5, files=18, rss_mib=213.9), set()),
        (figures(tasks=4), {"no_growth"}),
        (figures(files=21), {"no_growth"}),
        (figures(threads=10), {"no_growth"}),
        (figures(rss_mib=214.1), {"memory"}),
        (figures(peak_rss_mib=600.0), {"memory"}),
    ],
)
def test_growth_breaks_a_promise(monkeypatch: pytest.MonkeyPatch, end: Figures, broken: set[str]) -> None:
    class Server:
        alive = True
        log = ""

        def settled(self, at_most: Figures) -> Figures:
            return end

    monkeypatch.setattr(malformed, "_good_turns", lambda server: Promise("lives", "It lives.", True))
    promises = malformed.promises(malformed.Report(), malformed.Report(), figures(), Server())  # type: ignore[arg-type]
    assert {promise.name for promise in promises if not promise.kept} == broken
