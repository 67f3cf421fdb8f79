"""uvicorn as this project uses it: one process, its signals in the event loop, the start watched.

The only module that imports uvicorn; import it only to serve. It shows nothing: the caller hears what happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from server.api.problems import problem
from server.commands.tls_door import TlsDoor
from server.devices.live_endpoint import LIVE_PATH
from server.devices.message_fields import MAX_FRAME_BYTES
from server.errors import RequestError, StackChanError

_log = logging.getLogger(__name__)

GRACE_SECONDS = 10
"""How long requests in progress may go on after a stop signal."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


_MAX_CONNECTIONS = 512
"""More are closed at once: each takes a file descriptor, and without one left nothing can be stored or logged."""
_SPARE_DESCRIPTORS = 64
_MOST_UNREAD = 8
"""Messages of a device that wait to be read before no more are taken from its network."""
_SILENT_SECONDS = 20.0
"""A connection that has not finished sending a request's head by then is closed."""


class _Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, closed to those who only hold a connection."""

    _upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > connection_limit():
            transport.abort()
            return
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as HTTP is answered in the same form as everything else."""
        error = RequestError("This is not HTTP as it should be.", hint="Its head or the size of a chunk is malformed.")
        body = bytes(problem(error).body)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        try:
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # in the middle of another answer: nothing more can be said
        self.transport.close()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._upgraded = True
        super().handle_websocket_upgrade(event)

    def _should_upgrade_to_ws(self) -> bool:
        # Elsewhere who tries gets the same answers as everybody.
        return bool(self.scope["path"] == LIVE_PATH)

    def _unsupported_upgrade_warning(self) -> None:
        """Who asks for an upgrade that is not there gets an ordinary answer; that is worth no line in the log."""

    def _watch_head(self) -> None:
        self.loop.call_later(_SILENT_SECONDS, self._close_when_silent, self.cycle)

    def _close_when_silent(self, before: Any) -> None:
        if self._upgraded:
            return  # its silences are another protocol's matter
        # The same request as then, and that one answered (or none yet): nothing has come in the meantime.
        if self.cycle is before and (before is None or before.response_complete) and not self.transport.is_closing():
            self.transport.close()


class DeviceSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, without stopping to read after every message: a microphone sends fifty a second."""

    def send_receive_event_to_app(self) -> None:
        was_paused, self.read_paused = self.read_paused, True
        super().send_receive_event_to_app()
        self.read_paused = was_paused
        if not was_paused and self.queue.qsize() >= _MOST_UNREAD:
            self.read_paused = True
            self.transport.pause_reading()


def connection_limit() -> int:
    """Connections at once: bounded, and fewer than this process may open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(8, min(_MAX_CONNECTIONS, soft - _SPARE_DESCRIPTORS))


class StartView(Protocol):
    """What must be known of the start."""

    @property
    def error(self) -> StackChanError | None: ...
    async def wait(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """The certificate of a server that speaks HTTPS. `renew`: has its files renewed where that is due; may take long.

    The files are read again every `check_seconds`: a server may run for longer than they are good.
    """

    certificate: Path
    key: Path
    renew: Callable[[], object]
    check_seconds: float = 86_400.0

    async def keep_fresh(self, context: Callable[[], ssl.SSLContext | None]) -> None:
        """For ever. `context`: the server's, when there is one; new connections see what it has read last."""
        while True:
            await asyncio.sleep(self.check_seconds)
            try:
                await asyncio.to_thread(self.renew)
                if (there := context()) is not None:
                    there.load_cert_chain(self.certificate, self.key)
            except (StackChanError, OSError) as error:  # an ssl.SSLError is one
                _log.error("the certificate could not be read again: %s", type(error).__name__)


class WebServer(uvicorn.Server):
    """Tells the connected devices that it stops before uvicorn cuts them off; has a door of its own for TLS."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again when it has stopped, and the process would end as killed by it.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config, context, protocol = self.config, self.config.ssl, self.config.http_protocol_class
        if context is not None:

            def door(**parts: Any) -> TlsDoor:
                connections = self.server_state.connections
                return TlsDoor(partial(protocol, **parts), context, connections, connection_limit)

            config.http_protocol_class, config.ssl = door, None  # type: ignore[assignment]
        await super().startup(sockets)
        config.ssl = context

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.config.app.state.hang_up()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def web_config(app: Any, certificate: Path | None = None, key: Path | None = None) -> uvicorn.Config:
    """How `app` is served. `certificate`, `key`: PEM files; None: plain HTTP."""
    return uvicorn.Config(
        app,
        http=_Protocol,
        ws=DeviceSocket,
        # What is larger than a frame may be is told why (1009); what is much larger is not even read.
        ws_max_size=4 * MAX_FRAME_BYTES,
        # Frames are small and sound does not compress; each robot's compressor would take 300 kB.
        ws_per_message_deflate=False,
        ws_ping_interval=30.0,
        ws_ping_timeout=60.0,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="on",
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest loop that is there. uvloop takes a quarter to a third less of the processor for the same devices."""
    try:
        import uvloop
    except ImportError:  # there is none for every system
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def run_app(
    app: Any,
    listener: socket.socket,
    start: StartView,
    *,
    on_ready: Callable[[], None],
    on_stopping: Callable[[bool], None],
    shown: Shown | None = None,
) -> StackChanError | None:
    """Serve `app` on a bound socket until SIGINT or SIGTERM, or until its start has failed: then the reason.

    The first signal lets turns in progress end, for a few seconds, or after SIGINT half a second, since a person waits
    then (`on_stopping` is told which); the second one does not; from the third on signals act as usual.
    """
    server = WebServer(web_config(app, *((shown.certificate, shown.key) if shown is not None else ())))
    loop = asyncio.get_running_loop()

    def stop(hurry: bool) -> None:
        if server.should_exit:
            server.force_exit = True
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
            return
        server.should_exit = True
        app.state.begin_stop(hurry)
        on_stopping(hurry)

    async def watch_start() -> StackChanError | None:
        await start.wait()
        if start.error is not None:
            server.should_exit = True
        elif not server.should_exit:
            on_ready()
        return start.error

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number == signal.SIGINT)
    watcher = asyncio.create_task(watch_start())
    fresh = None if shown is None else asyncio.create_task(shown.keep_fresh(lambda: server.config.ssl))
    try:
        await server.serve(sockets=[listener])
        return watcher.result() if watcher.done() else None
    finally:
        watcher.cancel()
        if fresh is not None:
            fresh.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
