"""The command line itself: help, version, wrong use, and how errors look."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from server import __version__
from server.commands.failures import (
    ExitCode,
    NoServerError,
    PortError,
    RefusedError,
    SoundError,
    UsageFailure,
    exit_code_of,
)
from server.errors import ConfigError, ModelError, StackChanError
from tests.commands.conftest import Cli

HEAVY = ("fastapi", "uvicorn", "numpy", "sounddevice", "httpx2", "pydantic", "sqlmodel", "huggingface_hub", "av")


@pytest.mark.unit
def test_version(cli: Cli) -> None:
    done = cli("--version")
    assert (done.code, done.out) == (0, f"stackchan {__version__}\n")


@pytest.mark.unit
def test_help_names_the_commands_and_the_exit_codes(cli: Cli) -> None:
    done = cli("--help")
    assert done.code == 0
    for word in ("serve", "talk", "models", "doctor", "0 ok", "3 no server runs", "4 the server"):
        assert word in done.out


@pytest.mark.unit
@pytest.mark.parametrize(
    "command", [("serve",), ("talk",), ("doctor",), ("models",), ("models", "pull"), ("models", "list")]
)
def test_every_command_has_help_in_both_spellings(cli: Cli, command: tuple[str, ...]) -> None:
    short, long = cli(*command, "-h"), cli(*command, "--help")
    assert (short.code, long.code) == (0, 0)
    assert short.out == long.out
    assert "Usage: stackchan" in short.out


@pytest.mark.unit
@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("serve", "--port", "99999"),
        ("serve", "--port", "http"),
        ("serve", "extra"),
        ("talk", "--volume", "3"),
        ("models", "push"),
        ("models", "pull", "--all", "silero-vad"),
    ],
)
def test_wrong_use_is_exit_code_2(cli: Cli, arguments: tuple[str, ...]) -> None:
    done = cli(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err


@pytest.mark.unit
def test_an_unknown_profile_is_told(cli: Cli) -> None:
    done = cli("serve", "--profile", "huge")
    assert done.code == 1
    assert "embedded or qwen" in done.err


@pytest.mark.unit
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageFailure("x"), ExitCode.USAGE),
        (NoServerError("x"), ExitCode.NO_SERVER),
        (RefusedError("x", status=401), ExitCode.REFUSED),
        (PortError("x"), ExitCode.FAILED),
        (SoundError("x"), ExitCode.FAILED),
        (ConfigError("x"), ExitCode.FAILED),
        (ModelError("x"), ExitCode.FAILED),
        (StackChanError("x"), ExitCode.FAILED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error: StackChanError, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "server.cli", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )


@pytest.mark.integration
def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from server import cli; sys.argv = ['stackchan', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
def test_a_reader_that_goes_away_is_no_crash() -> None:
    script = f"{sys.executable} -m server.cli --help | head -c 1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr
