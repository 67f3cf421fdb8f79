"""`cli`: run the command line in this process, as the shell would, and see its two streams and exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from server import cli as command_line
from server.commands.sound import SoundDevices


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


class NoDevices:
    """What `DeviceProbe` finds on a computer without sound."""

    def result(self) -> SoundDevices:
        return SoundDevices(problem="PortAudio cannot be used: this is a test.")

    def close(self) -> None:
        pass


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own, set in the environment; it does not exist yet."""
    folder = tmp_path / "data"
    monkeypatch.setenv("STACKCHAN_DATA_DIR", str(folder))
    return folder


@pytest.fixture
def cli(data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`cli("talk", "hello", stdin="")` -> Outcome. No sound devices, no hub, no terminal."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    monkeypatch.setattr("server.commands.sound.DeviceProbe", NoDevices)

    def run(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["stackchan", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run
