"""uvicorn as this project uses it: one process, its signals in the event loop, the start watched.

The only module that imports uvicorn; import it only to serve. It shows nothing: the caller hears what happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import uvicorn

from server.errors import StackChanError

GRACE_SECONDS = 10
"""How long requests in progress may go on after a stop signal."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StartView(Protocol):
    """What must be known of the start."""

    @property
    def error(self) -> StackChanError | None: ...
    async def wait(self) -> None: ...


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again when it has stopped, and the process would end as killed by it.
        yield


async def run_app(
    app: Any,
    listener: socket.socket,
    start: StartView,
    *,
    on_ready: Callable[[], None],
    on_stopping: Callable[[], None],
) -> StackChanError | None:
    """Serve `app` on a bound socket until SIGINT or SIGTERM, or until its start has failed: then the reason.

    The first signal lets requests in progress end, the second one does not; from the third on signals act as usual.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="on",
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if server.should_exit:
            server.force_exit = True
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
            return
        server.should_exit = True
        on_stopping()

    async def watch_start() -> StackChanError | None:
        await start.wait()
        if start.error is not None:
            server.should_exit = True
        elif not server.should_exit:
            on_ready()
        return start.error

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    watcher = asyncio.create_task(watch_start())
    try:
        await server.serve(sockets=[listener])
        return watcher.result() if watcher.done() else None
    finally:
        watcher.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
