"""What README and the HTTP page tell people to type, typed against a running server."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.audio.codec import encode_wav
from tests.commands.serve_process import ROOT, ServeProcess
from tests.fakes.forked import run_forked

pytestmark = pytest.mark.integration

PAGES = ("README.md", "README.ja.md", "docs/http-api.md")
ADDRESS = "http://127.0.0.1:8000"


def code_lines(page: str) -> list[str]:
    """The lines of every fenced block, continued ones joined."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line.strip() for block in blocks for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines()]


def lines_with(start: str) -> list[tuple[str, str]]:
    return [(page, line) for page in PAGES for line in code_lines(page) if line.startswith(start)]


@pytest.fixture(scope="module")
def turn(server: ServeProcess) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(server.talk("hello", "--json").stdout)
    return told


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path_factory.mktemp("data")) as process:
        process.wait_for("Ready in")
        yield process


def test_every_page_shows_how_to_talk() -> None:
    assert {page for page, _ in lines_with(".venv/bin/stackchan talk")} >= {"README.md", "README.ja.md"}
    assert {page for page, _ in lines_with("curl")} == set(PAGES)


@pytest.mark.parametrize(("page", "line"), lines_with(".venv/bin/stackchan talk"))
def test_a_talk_line_works(server: ServeProcess, tmp_path: Path, page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    environment = {**os.environ, "STACKCHAN_DATA_DIR": str(server.data_dir)}
    done = run_forked("server.cli:main", words, env=environment, cwd=tmp_path, timeout_seconds=120)
    assert done.returncode == 0, done.stderr
    assert "今日はいい天気だから" in done.stdout


@pytest.mark.parametrize(("page", "line"), lines_with("curl"))
def test_a_curl_line_works(server: ServeProcess, turn: dict[str, Any], tmp_path: Path, page: str, line: str) -> None:
    assert shutil.which("curl"), "this needs curl; scripts/test installs it: apt-get install curl"
    run = json.loads((server.data_dir / "run.json").read_text())
    tone = (12_000 * np.sin(np.arange(24_000) / 8)).astype(np.int16)
    (tmp_path / "question.wav").write_bytes(encode_wav(tone, 16_000))
    line = line.replace(ADDRESS, run["url"]).replace("/turns/384", f"/turns/{turn['turn_id']}")
    line = re.sub(r"/sessions/\w+/", f"/sessions/{turn['session_id']}/", line)
    done = subprocess.run(
        ["bash", "-c", f"{line} --silent --show-error --fail-with-body"],
        cwd=tmp_path,
        env={**os.environ, "TOKEN": run["token"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace") + done.stderr.decode()
    if "-o " not in line and "--output" not in line:
        json.loads(done.stdout)
