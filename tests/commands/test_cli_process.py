"""The command line as a process: quick to start, and unharmed by locales and readers that go away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

HEAVY = ("fastapi", "uvicorn", "numpy", "sounddevice", "httpx2", "pydantic", "sqlmodel", "huggingface_hub", "av")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "server.cli", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from server import cli; sys.argv = ['stackchan', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_is_quick() -> None:
    """Against a bare Python with the two libraries it stands on, so that a busy machine does not decide."""
    ours, bare = [], []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import typer, rich.progress, typer.rich_utils"], check=True)
        middle = time.perf_counter()
        run("--help")
        ours.append(time.perf_counter() - middle)
        bare.append(middle - began)
    assert min(ours) < 3 * min(bare)


@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}]
)
@pytest.mark.parametrize("arguments", [("--help",), ("models", "list"), ("talk", "こんにちは")])
def test_no_locale_breaks_the_output(environment: dict[str, str], arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*arguments, **environment, STACKCHAN_DATA_DIR=str(tmp_path), STACKCHAN_MODEL_DIR=str(tmp_path))
    assert done.returncode == (3 if arguments[0] == "talk" else 0)
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    assert len(done.stdout + done.stderr) > 50


def test_a_reader_that_goes_away_is_no_crash() -> None:
    script = f"{sys.executable} -m server.cli --help | head -c 1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["--help", "--version", "models list", "models path"])
def test_output_that_cannot_be_written_is_told_without_a_traceback(arguments: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m server.cli {arguments}"
    environment = {**os.environ, "STACKCHAN_DATA_DIR": str(tmp_path), "STACKCHAN_MODEL_DIR": str(tmp_path)}
    for redirect, code in ((">&-", 0), (">/dev/full", 1)):
        done = subprocess.run(
            ["bash", "-c", f"{command} {redirect}"], env=environment, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (redirect, done.stderr)
        assert ("output_failed" in done.stderr) == (code == 1)


def test_endless_standard_input_is_refused(tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            [sys.executable, "-m", "server.cli", "talk", "-"],
            env={**os.environ, "STACKCHAN_DATA_DIR": str(tmp_path)},
            stdin=endless,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert "1,000,000 characters" in done.stderr
