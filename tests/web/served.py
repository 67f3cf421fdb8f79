"""The production server in a thread of its own, and a network between it and the page that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path
from typing import Any

from server.app import create_app
from server.commands.web_server import WebServer, web_config
from server.config import load_settings
from server.engines.base import Engines
from server.persona import default_persona_path, load_persona

TOKEN = "owner-token-for-the-page"


class Network:
    """Passes bytes between the page and the server; `cut` ends every connection without a word."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.down = False
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        with self._lock:
            for side in self._open:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.down = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                near.close()
                continue
            self.connections += 1
            far = socket.create_connection(self._to)
            with self._lock:
                self._open |= {near, far}
            for source, target in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass_on, args=(source, target))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for side in (source, target):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, target}
            if all(side not in self._open for side in (source, target)):
                source.close()


class Served:
    """`stackchan serve` with the engines it is given. `url`: of the page, through a `network` that can be cut."""

    def __init__(self, folder: Path, engines: Engines, env: dict[str, str] | None = None) -> None:
        settings = load_settings({"STACKCHAN_DATA_DIR": str(folder), "STACKCHAN_TOKEN": TOKEN, **(env or {})})
        self.engines: Any = engines
        self.app = create_app(settings, load_persona(default_persona_path()), engines)
        self._listener = socket.create_server(("127.0.0.1", 0))
        config = web_config(self.app)
        config.timeout_graceful_shutdown = 1
        self._server = WebServer(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve(sockets=[self._listener])))
        self._thread.start()
        self.network = Network(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.network.port}/"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.network.close()
        self._listener.close()
