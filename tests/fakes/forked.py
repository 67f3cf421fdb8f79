"""Processes forked from one that has the server imported already: most of the start of a server is imports.

For tests that need a process of their own, its signals and its death, and not how it is loaded: that is tested where a
Python of its own is started. A `ForkedProcess` is used as a `subprocess.Popen` is.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection, reduction
from pathlib import Path
from typing import Any, TextIO

LOADED = (
    "server.cli",
    "server.app",
    "server.commands.serve",
    "server.commands.talk",
    "server.commands.web_server",
    "server.commands.certificate",
    "server.engines.registry",
    "qdrant_client",
    "qdrant_edge",
    "uvloop",
    "tests.fakes.engines",
    "tests.soaks.fault_engines",
    "tests.soaks.kills",
)
_lock = threading.Lock()
"""The library reads an exit code once, in whichever thread asks first, and asks for all of them at every start."""


class ForkedProcess:
    """A call of `main` ("module:function") with these arguments in `sys.argv`, in a process forked for it.

    `output`, `errors`: open file descriptors, which stay the caller's; None: to the same as the output. Standard input
    is empty.
    """

    def __init__(
        self,
        main: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        output: int,
        errors: int | None = None,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(LOADED))
        streams = [_Descriptor(output), _Descriptor(output if errors is None else errors)]
        self._process = context.Process(
            target=_run, args=(main, list(arguments), dict(env), str(cwd), streams), daemon=True
        )
        with _lock:
            self._process.start()
        self.args = [main, *arguments]
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with _lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        connection.wait([self._process.sentinel], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        # The process it was forked from may have cleared it away, and not told so yet.
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)


def run_forked(
    main: str, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with both streams captured. Ended by force when the time is over."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        process = ForkedProcess(main, arguments, env=env, cwd=cwd, output=out.fileno(), errors=err.fileno())
        try:
            code = process.wait(timeout_seconds)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, code, _written(out), _written(err))


def _written(file: TextIO) -> str:
    file.seek(0)
    return file.read()


class _Descriptor:
    """An open file that goes to the new process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (reduction.DupFd(self._number),)


def _arrived(copy: Any) -> int:
    number: int = copy.detach()
    return number


def _run(main: str, arguments: list[str], env: dict[str, str], cwd: str, streams: list[int]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, stream in zip((1, 2), streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    # Those that were inherited know what kind of file stood there before.
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    module_name, _, function = main.partition(":")
    module = importlib.import_module(module_name)
    sys.argv = [str(module.__file__), *arguments]
    getattr(module, function)()
