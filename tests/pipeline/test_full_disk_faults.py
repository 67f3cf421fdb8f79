"""A disk that takes no more: a turn is refused rather than answered unstored; with space again the next one works."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.soaks.server import ForkedServer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent.parent
# In a small file system of its own: turns until it is full, one more, and one when there is space again.
CHILD = """
import asyncio, json, os, sys
from datetime import UTC, datetime
from pathlib import Path
from server.config_sections import SessionSettings
from server.errors import StorageError
from server.persona import default_persona_path, load_persona
from server.pipeline.journal import TurnJournal
from server.pipeline.request import TurnRequest
from server.pipeline.turn import TurnController
from server.storage.database import Databases
from tests.fakes.engines import FakeAsr, FakeLlm, fake_engines, loud
from tests.pipeline.turns import SETTINGS

folder, told = Path(sys.argv[1]), {"answered": 0, "refused": []}

async def main():
    databases = await Databases.open(folder, "home")
    persona = load_persona(default_persona_path())
    journal, asr, llm = TurnJournal(databases, SessionSettings(), persona), FakeAsr(), FakeLlm()
    clock = lambda: datetime.now(UTC)
    controller = TurnController(fake_engines(asr=asr, llm=llm), persona, journal, SETTINGS, clock=clock)

    async def emit(event):
        pass

    async def take(words):
        request = TurnRequest("desk", text=words)
        turn = None
        try:
            turn = await journal.begin(await journal.next_turn_id(), request, clock(), status="running")
            return (await controller.run(turn, request, emit)).outcome, turn
        except StorageError as error:
            return error.code, turn

    assert (await take("はじめに"))[0] == "ok"
    request = TurnRequest("desk", samples=loud(1.0))
    opened = await journal.begin(await journal.next_turn_id(), request, clock(), status="running")
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65536)
        except OSError:
            pass
    calls = len(llm.requests)
    asr.text = "".join(map(chr, range(0x4E00, 0x4E00 + 3000)))  # more than the last page has room for
    try:
        told["full"] = (await controller.run(opened, request, emit)).outcome
    except StorageError as error:
        told["full"] = error.code
    told["asked"] = len(llm.requests) - calls
    ballast.unlink()
    told["after"] = (await take("空きができた"))[0]
    told["full_turn"] = (await journal.read(opened.turn_id)).result.transcript
    await databases.close()

asyncio.run(main())
print(json.dumps(told))
"""


def test_on_a_really_full_file_system_words_are_refused_and_the_next_turn_works(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    alone = [str(unshare), "--user", "--map-root-user", "--mount"]
    mount = 'mount -t tmpfs -o size=2m tmpfs "$0"'
    if unshare is None or subprocess.run([*alone, "sh", "-c", mount, str(tmp_path)], check=False).returncode != 0:
        pytest.skip("this machine lets tests mount no file system of their own; the limit below stands for it")
    command = [*alone, "sh", "-c", f'{mount} && exec "$@"', str(tmp_path), sys.executable, "-c", CHILD, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["full"] == "storage_full"
    assert told["asked"] == 0, "what is not stored is not answered"
    assert (told["after"], told["full_turn"]) == ("ok", "")


@contextmanager
def no_longer_files(pid: int, limit_bytes: int) -> Iterator[None]:
    """The process may let no file grow beyond this: for a database the same as a full disk."""
    usual = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit_bytes, usual[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, usual)


def test_a_server_whose_files_cannot_grow_refuses_and_recovers(tmp_path: Path) -> None:
    with ForkedServer(tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.token}", "Device-Id": "desk"}
        with httpx2.Client(base_url=server.url, headers=headers, timeout=30) as client:
            first = client.post("/v1/turns", json={"text": "はじめに"}).json()
            log = server.data_dir / "worlds" / "home" / "session.sqlite-wal"
            with no_longer_files(server.process.pid, os.stat(log).st_size + 20_000):
                refused = [client.post("/v1/turns", json={"text": f"{n}番目の言葉" * 60}) for n in range(12)]
            after = client.post("/v1/turns", json={"text": "空きができた"}).json()
            answered = [response.json() for response in refused if response.status_code == 200]
            failed = [response for response in refused if response.status_code != 200]
            stored = [client.get(f"/v1/turns/{turn['turn_id']}").json() for turn in [first, *answered, after]]
        figures = server.figures()
    assert failed, "the limit was met"
    assert {response.status_code for response in failed} <= {500, 503, 507}
    assert {response.json()["error"]["code"] for response in failed} <= {"storage_full", "storage_failed"}
    assert [turn["outcome"] for turn in stored] == ["ok"] * (2 + len(answered)), "what was answered is stored"
    assert after["outcome"] == "ok"
    assert figures.tasks < 20
