"""The command line itself: help, version, wrong use, and how errors look."""

from __future__ import annotations

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

pytestmark = pytest.mark.unit


def test_version(cli: Cli) -> None:
    done = cli("--version")
    assert (done.code, done.out) == (0, f"stackchan {__version__}\n")


def test_help_names_the_commands_and_the_exit_codes(cli: Cli) -> None:
    done = cli("--help")
    assert done.code == 0
    for word in (
        "serve",
        "talk",
        "simulate",
        "models",
        "doctor",
        "memory",
        "backup",
        "restore",
        "token",
        "0 ok",
        "3 no server runs",
        "4 the server",
    ):
        assert word in done.out


@pytest.mark.parametrize(
    "command", [("serve",), ("talk",), ("doctor",), ("models",), ("models", "pull"), ("models", "list")]
)
def test_every_command_has_help_in_both_spellings(cli: Cli, command: tuple[str, ...]) -> None:
    short, long = cli(*command, "-h"), cli(*command, "--help")
    assert (short.code, long.code) == (0, 0)
    assert short.out == long.out
    assert "Usage: stackchan" in short.out


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


def test_an_unknown_profile_is_told(cli: Cli) -> None:
    done = cli("serve", "--profile", "huge")
    assert done.code == 1
    assert "embedded or qwen" in done.err


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
