"""`stackchan talk` on a real (pseudo) terminal: typed conversation, its end, Ctrl-C, colours."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands.turn_server import TurnServer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent.parent


class TerminalSession:
    """A command whose three streams are one terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self.screen = ""
        self._seen = 0

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def see(self, text: str, timeout_seconds: float = 20.0) -> None:
        """Wait for `text` after what was seen before."""
        end = time.monotonic() + timeout_seconds
        while (place := self.screen.find(text, self._seen)) < 0:
            over = time.monotonic() > end or not self._read(0.2)
            assert not over or text in self.screen[self._seen :], f"no {text!r} on:\n{self.screen}"
        self._seen = place + len(text)

    def ends(self) -> int:
        code = self.process.wait(20)
        while self._read(0.2):
            pass
        return code

    def _read(self, seconds: float) -> bool:
        """False once the other side is closed."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return self.process.poll() is None
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # EIO: the last user of the terminal has gone
            return False
        self.screen += data.decode("utf-8", "replace")
        return bool(data)


@contextmanager
def on_a_terminal(arguments: Sequence[str], data_dir: Path, **environment: str) -> Iterator[TerminalSession]:
    master, slave = pty.openpty()
    env = {**os.environ, "STACKCHAN_DATA_DIR": str(data_dir), "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    if "NO_COLOR" not in environment:
        env.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "server.cli", *arguments], cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    try:
        yield TerminalSession(process, master)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        os.close(master)


def wait_until_asleep(pid: int, timeout_seconds: float = 20.0) -> None:
    """Return once its main thread waits, and still does a moment later."""
    end, asleep = time.monotonic() + timeout_seconds, 0
    while asleep < 5:
        assert time.monotonic() < end, "it never rests"
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        asleep = asleep + 1 if state == "S" else 0
        time.sleep(0.02)


def test_a_typed_conversation(tmp_path: Path) -> None:
    with TurnServer() as server:
        server.announce(tmp_path)
        with on_a_terminal(["talk", "--text", "--no-play"], tmp_path) as terminal:
            terminal.see("you> ")
            terminal.type("左を見て\n")
            terminal.see("はい、左だね。")
            terminal.see("you> ")
            terminal.type("\x04")
            assert terminal.ends() == 0

    assert [turn.json for turn in server.turns] == [{"text": "左を見て"}]
    assert "\x1b[" in terminal.screen
    assert "Traceback" not in terminal.screen


def test_ctrl_c_ends_it_without_a_word(tmp_path: Path) -> None:
    with TurnServer() as server:
        server.announce(tmp_path)
        with on_a_terminal(["talk", "--text"], tmp_path) as terminal:
            terminal.see("you> ")
            # Between its prompt and its waiting for a key Python's readline sees no signal; nobody presses so soon.
            wait_until_asleep(terminal.process.pid)
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.ends() == 130
    assert "Traceback" not in terminal.screen
    assert "Error" not in terminal.screen


def test_no_color_is_obeyed(tmp_path: Path) -> None:
    with on_a_terminal(["talk", "hi"], tmp_path, NO_COLOR="1") as terminal:
        assert terminal.ends() == 3
    assert "server_not_running" in terminal.screen
    assert "\x1b[31m" not in terminal.screen
