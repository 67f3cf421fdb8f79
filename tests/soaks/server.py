"""A real server in a process of its own with fake engines, whose tasks, threads, files and memory can be counted.

    with SoakServer(folder) as server: server.url, server.token, server.figures()

As a script it is `stackchan serve` with other engines, and answers SIGUSR1 with a file of its task names. Everything
except the engines is the real thing. Linux only: it looks into the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import psutil

from server.engines.base import Engines
from server.run_file import read_run_file
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, fake_engines
from tests.fakes.forked import ForkedProcess

ROOT = Path(__file__).resolve().parent.parent.parent
ARGUMENTS = ("serve", "--port", "0")
PLAIN_ENGINES = "tests.soaks.server:plain_engines"
_DATABASE = ".sqlite"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a process holds at one moment. `rss_mib`, `peak_rss_mib`: resident memory now, and at most so far.

    `files`: all that `open_files` counts, which `files_by_kind` tells apart.
    """

    tasks: int
    threads: int
    files: int
    rss_mib: float
    peak_rss_mib: float
    files_by_kind: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def plain_engines() -> Engines:
    """Fakes that answer at once and, other than those of the tests, forget what they were asked."""
    return fake_engines(
        asr=FakeAsr(heard=deque(maxlen=1)),  # type: ignore[arg-type]
        llm=FakeLlm(requests=deque(maxlen=1), warmed=deque(maxlen=1)),  # type: ignore[arg-type]
        tts=FakeTts(spoken=deque(maxlen=1)),  # type: ignore[arg-type]
    )


class SoakServer:
    """Started and ready within the block; its log goes to `log_path`. `engines`: "module:function" giving `Engines`."""

    def __init__(self, folder: Path, *, engines: str = PLAIN_ENGINES, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data_dir = folder / "data"
        self.log_path = folder / "server.log"
        self._tasks_path = folder / "tasks.json"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STACKCHAN_")},
            "STACKCHAN_DATA_DIR": str(self.data_dir),
            "SOAK_ENGINES": engines,
            "SOAK_TASKS": str(self._tasks_path),
            **(env or {}),
        }
        self.process = self._launch(environment)
        self.url = self.token = ""

    def _launch(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self.log_path.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.soaks.server", *ARGUMENTS],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> SoakServer:
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def figures(self) -> Figures:
        """Count now. Raises `RuntimeError` when the server is gone."""
        try:
            process = psutil.Process(self.process.pid)
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
            threads, kinds, rss = process.num_threads(), open_files(self.process.pid), process.memory_info().rss
            rss_mib, peak_mib = round(rss / 1024**2, 1), round(int(peak) / 1024, 1)
            return Figures(len(self.tasks()), threads, sum(kinds.values()), rss_mib, peak_mib, kinds)
        except (psutil.Error, OSError, StopIteration):
            raise RuntimeError(f"the server is gone:\n{self.log[-2000:]}") from None

    def tasks(self, timeout_seconds: float = 30.0) -> list[str]:
        """The names of the tasks in its event loop."""
        self._tasks_path.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + timeout_seconds
        while not self._tasks_path.exists():
            if not self.alive or time.monotonic() > end:
                raise RuntimeError(f"the server does not tell its tasks:\n{self.log[-2000:]}")
            time.sleep(0.01)
        names: list[str] = json.loads(self._tasks_path.read_text())
        return names

    def settled(self, at_most: Figures | None = None, timeout_seconds: float = 15.0) -> Figures:
        """Figures once nothing moves any more: no more tasks and files than `at_most`, or the time is over."""
        end = time.monotonic() + timeout_seconds
        while True:
            now = self.figures()
            rests = at_most is None or (now.tasks <= at_most.tasks and now.files <= at_most.files)
            if rests or time.monotonic() > end:
                return now
            time.sleep(0.2)

    def stop(self) -> int:
        """End it, by force when it does not end by itself; its exit code."""
        if self.alive:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait(10)

    def _wait_until_ready(self, timeout_seconds: float = 120.0) -> None:
        end = time.monotonic() + timeout_seconds
        while "Ready in" not in self.log:
            if not self.alive or time.monotonic() > end:
                raise RuntimeError(f"the server did not start:\n{self.log}")
            time.sleep(0.05)
        run = read_run_file(self.data_dir)
        assert run is not None
        self.url, self.token = run.url, run.token


class ForkedServer(SoakServer):
    """A `SoakServer` whose process is forked from one that has everything imported: most of a start is imports."""

    def _launch(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self.log_path.open("wb") as log:
            forked: Any = ForkedProcess(
                "tests.soaks.server:main", ARGUMENTS, env=environment, cwd=ROOT, output=log.fileno()
            )
        return forked  # type: ignore[no-any-return]  # as much of it as is used


def main() -> None:
    from server import cli
    from server.engines import registry

    module, _, name = os.environ["SOAK_ENGINES"].partition(":")
    make = getattr(importlib.import_module(module), name)
    registry.build_engines = lambda settings, persona: make()
    tasks_path = Path(os.environ["SOAK_TASKS"])

    def tell_tasks(number: int, frame: FrameType | None) -> None:
        try:
            names = [task.get_name() for task in asyncio.all_tasks()]
        except RuntimeError:  # the loop does not run yet
            names = []
        partial = tasks_path.with_suffix(".partial")
        partial.write_text(json.dumps(names))
        partial.replace(tasks_path)

    signal.signal(signal.SIGUSR1, tell_tasks)
    cli.main()


if __name__ == "__main__":
    main()


def open_files(pid: int) -> dict[str, int]:
    """How many files and sockets a process has open, by kind: "socket", "pipe", "anon_inode", or a file's name.

    A database counts once, with what lies beside it. SQLite opens its log when it is first written, and closes the
    files of a connection that is gone only when no other one holds a lock on them, so their number goes up and down
    with what the pool did lately. A connection that is never closed shows as a thread.
    """
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            targets.append(str(link.readlink()))
    counted = [target for target in targets if _DATABASE not in target]
    counted += {target.partition(_DATABASE)[0] + _DATABASE for target in targets if _DATABASE in target}
    return dict(Counter(Path(one).name if one.startswith("/") else one.partition(":")[0] for one in counted))
