"""A real HTTP server on loopback for the tests of commands: its life, and how a command finds it."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from server.run_file import RunFile, write_run_file

TOKEN = "token-of-the-test"


class LoopbackServer:
    """`handler`: answers the requests, each in a thread. Serves inside its `with` block."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def announce(self, data_dir: Path) -> None:
        """Write the run file, as a server of this process would."""
        data_dir.mkdir(parents=True, exist_ok=True)
        write_run_file(data_dir, RunFile(os.getpid(), self.url, TOKEN, "boot"))


class QuietHandler(BaseHTTPRequestHandler):
    """Writes no line for a request."""

    def log_message(self, format: str, *args: object) -> None: ...
