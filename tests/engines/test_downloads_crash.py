"""Pulling in a process of its own, so that the disk can really be full and the process can really be killed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from server.engines.catalogue import Catalogue, HubFile, ModelEntry, ModelFile
from server.engines.downloads import pull
from tests.fakes.file_server import FileServer, running_file_server

pytestmark = pytest.mark.integration

BODY = random.Random(11).randbytes(600_000)

CHILD = """
import json, resource, sys
from pathlib import Path
from server.engines.catalogue import Catalogue, HubFile, ModelEntry, ModelFile
from server.engines.downloads import PullOptions, pull
from server.errors import ModelError

folder, size_bytes, sha256, limit_bytes = sys.argv[1:]
if int(limit_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit_bytes), int(limit_bytes)))
file = ModelFile("model.bin", int(size_bytes), sha256, HubFile("a/b", "model.bin"))
catalogue = Catalogue((ModelEntry("ears", "asr", "Ears", "MIT", (file,)),))
# The check before the first byte is told that all is well: this is about the disk filling up in the middle.
options = PullOptions(free_bytes=lambda path: 1 << 40)
try:
    pull(["ears"], Path(folder), options=options, catalogue=catalogue)
except ModelError as error:
    names = [str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()]
    print(json.dumps({"code": error.code, "message": error.message, "files": names}))
else:
    print(json.dumps({"code": "ok"}))
"""


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    with running_file_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield server


def child_command(folder: Path, limit_bytes: int = 0) -> list[str]:
    return [
        sys.executable,
        "-c",
        CHILD,
        str(folder),
        str(len(BODY)),
        hashlib.sha256(BODY).hexdigest(),
        str(limit_bytes),
    ]


def run(command: Sequence[str]) -> dict[str, object]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def catalogue_of_body() -> Catalogue:
    file = ModelFile("model.bin", len(BODY), hashlib.sha256(BODY).hexdigest(), HubFile("a/b", "model.bin"))
    return Catalogue((ModelEntry("ears", "asr", "Ears", "MIT", (file,)),))


def test_a_limit_met_in_the_middle_leaves_nothing_usable_and_goes_on_later(files: FileServer, tmp_path: Path) -> None:
    path = files.put_hub_file("a/b", "model.bin", BODY)
    answer = run(child_command(tmp_path, limit_bytes=250_000))
    assert answer["code"] == "model_disk_full"
    assert "600.0 kB needed" in str(answer["message"])
    part = f"ears/.parts/hub-{hashlib.sha256(BODY).hexdigest()[:8]}-model.bin.part"
    assert sorted(answer["files"]) == [".pull.lock", part]  # type: ignore[call-overload]
    assert (tmp_path / part).read_bytes() == BODY[:250_000]
    pull(["ears"], tmp_path, catalogue=catalogue_of_body())
    assert (tmp_path / "ears" / "model.bin").read_bytes() == BODY
    assert files.gets(path)[-1].range == "bytes=250000-"


def test_a_really_full_file_system_is_told_as_such(files: FileServer, tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    small = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(tmp_path)]
    alone = [str(unshare), "--user", "--map-root-user", "--mount"]
    if unshare is None or subprocess.run([*alone, *small], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets tests mount no file system of their own")
    files.put_hub_file("a/b", "model.bin", BODY)
    script = 'mount -t tmpfs -o size=300k tmpfs "$0" && exec "$@"'
    answer = run([*alone, "sh", "-c", script, str(tmp_path), *child_command(tmp_path)])
    assert answer["code"] == "model_disk_full"
    assert "0 bytes free" in str(answer["message"])
    assert "ears/model.bin" not in answer["files"]  # type: ignore[operator]


def test_killed_in_the_middle_the_next_pull_goes_on(files: FileServer, tmp_path: Path) -> None:
    path = files.put_hub_file("a/b", "model.bin", BODY)
    files.cuts[path] = [200_000]
    gate = files.gates[path] = threading.Event()
    part = tmp_path / "ears" / ".parts" / f"hub-{hashlib.sha256(BODY).hexdigest()[:8]}-model.bin.part"
    child = subprocess.Popen(child_command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        waiting = threading.Event()
        while not part.exists() or part.stat().st_size < 200_000:
            assert child.poll() is None
            waiting.wait(0.02)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    gate.set()
    pull(["ears"], tmp_path, catalogue=catalogue_of_body())
    assert (tmp_path / "ears" / "model.bin").read_bytes() == BODY
    assert [request.range for request in files.gets(path)] == [None, "bytes=200000-"]
    assert not (tmp_path / "ears" / ".parts").exists()
