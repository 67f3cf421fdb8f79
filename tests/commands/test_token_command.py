"""`stackchan token reset`: the old token is void at once, offline and beside a running server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.run_file import hold_data_dir
from server.storage import tokens
from server.storage.database import Databases
from tests.commands.conftest import Cli
from tests.commands.memory_server import MemoryServer
from tests.commands.serve_process import READY, ROOT, ServeProcess
from tests.fakes.forked import run_forked

pytestmark = pytest.mark.integration


def token_of(done: Any) -> str:
    assert done.code == 0, done.err
    token: str = done.out.strip()
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    return token


def opens(data_dir: Path, token: str) -> bool:
    async def look() -> bool:
        async with await Databases.open(data_dir, "home") as databases, databases.server(write=False) as db:
            return await tokens.find_token(db, token) is not None

    return asyncio.run(look())


def test_offline_the_new_token_replaces_the_old(cli: Cli, data_dir: Path) -> None:
    first = token_of(cli("token", "reset"))
    assert opens(data_dir, first)
    done = cli("token", "reset")
    second = token_of(done)
    assert second != first
    assert (opens(data_dir, first), opens(data_dir, second)) == (False, True)
    assert "only this once" in done.err
    assert "前のトークンはもう使えません" in done.err
    third = json.loads(cli("token", "reset", "--json").out)["token"]
    assert opens(data_dir, third)


def test_the_token_is_stored_nowhere(cli: Cli, data_dir: Path) -> None:
    token = token_of(cli("token", "reset"))
    for path in data_dir.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes()


def test_a_token_set_by_hand_cannot_be_reset(cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKCHAN_TOKEN", "set-by-hand")
    done = cli("token", "reset")
    assert done.code == 1
    assert "token_set_by_hand" in done.err
    assert "set-by-hand" not in done.err
    assert not data_dir.exists()


def test_a_folder_in_use_is_left_alone(cli: Cli, data_dir: Path) -> None:
    with hold_data_dir(data_dir):
        done = cli("token", "reset")
    assert done.code == 1
    assert "data_in_use" in done.err


def test_a_server_with_a_token_set_by_hand_is_noticed(cli: Cli, data_dir: Path) -> None:
    first = token_of(cli("token", "reset"))
    with MemoryServer() as server:
        server.announce(data_dir)
        done = cli("token", "reset")
    assert done.code == 1
    assert done.out == ""
    assert "token_set_by_hand" in done.err
    # Nobody was shown a token: the next start without one set by hand makes one and shows it.
    assert not opens(data_dir, first)
    (data_dir / "run.json").unlink()

    async def owner() -> bool:
        async with await Databases.open(data_dir, "home") as databases, databases.server(write=False) as db:
            return await tokens.has_owner_token(db)

    assert not asyncio.run(owner())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path_factory.mktemp("data")) as process:
        process.wait_for(READY)
        yield process


def stackchan(server: ServeProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STACKCHAN_DATA_DIR": str(server.data_dir)}
    return run_forked("server.cli:main", arguments, env=environment, cwd=ROOT, timeout_seconds=120)


def test_a_running_server_refuses_the_old_token_at_once(running: ServeProcess) -> None:
    run = json.loads((running.data_dir / "run.json").read_text(encoding="utf-8"))
    shown = re.search(r"Token / トークン\s+(\S+)", running.wait_for("Token"))
    assert shown

    def status(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.get(f"{run['url']}/metrics", headers=headers, trust_env=False, timeout=60).status_code

    assert status(shown[1]) == 200
    done = stackchan(running, "token", "reset")
    assert done.returncode == 0, done.stderr
    new = done.stdout.strip()
    assert (status(shown[1]), status(new), status(run["token"])) == (401, 200, 200)
    assert new not in running.output


def test_a_real_server_answers_the_memory_commands(
    running: ServeProcess, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands run in this process; the server is one of its own."""
    monkeypatch.setenv("STACKCHAN_DATA_DIR", str(running.data_dir))

    def done(*arguments: str) -> str:
        outcome = cli(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome.out

    done("talk", "お茶が好き", "--no-play")
    assert json.loads(done("memory", "status", "--json"))["turns"] >= 1
    assert "お茶が好き" in done("memory", "search", "お茶"), "it was said a moment ago, and is no memory yet"
    missing = cli("memory", "show", "mem_00000000000000000000000000")
    assert missing.code == 4
    assert "memory_not_found" in missing.err
    done("memory", "audit")
    done("memory", "retry")
    done("memory", "rebuild")
    file, kept = tmp_path / "memory.jsonl", tmp_path / "all.tar"
    done("memory", "export", str(file))
    done("memory", "import", str(file))
    done("backup", str(kept))
    done("restore", str(kept), "--yes", "--data-dir", str(tmp_path / "new"))
