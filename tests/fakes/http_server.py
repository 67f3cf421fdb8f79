"""A small real HTTP server on loopback for tests, that answers what a test tells it, good or bad.

It runs in a thread with its own event loop, so it serves tests with and without one, and other processes; a test can
count its own tasks. A kind of server (`chat_server.py`, `engine_servers.py`) says what is usual; everything else is a
behaviour, one a request, the last one repeats: an async function of the `Connection` that it writes to
(`http_replies.py`, `chat_replies.py`). It knows nothing about the code under test.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

Server = TypeVar("Server", bound="HttpServer")

_EVENT_STREAM = "text/event-stream; charset=utf-8"


@dataclass
class Recorded:
    """One request as it arrived. `headers`: names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


@dataclass
class Connection:
    """What a behaviour writes to. `request`: the one to answer; `server`: whose it is."""

    server: HttpServer
    request: Recorded
    _writer: asyncio.StreamWriter
    _chunked: bool = False

    async def begin(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send the status line and headers of a streamed answer; its pieces follow in chunked encoding."""
        lines = {"Content-Type": _EVENT_STREAM, "Transfer-Encoding": "chunked", **(headers or {})}
        await self.head(status, lines)
        self._chunked = True

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer."""
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self.head(status, lines)
        await self.raw(body)

    async def event(self, value: object) -> None:
        """Send one SSE event; text goes as it is, anything else as JSON."""
        data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        await self.piece(f"data: {data}\n\n".encode())

    async def piece(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    async def end(self) -> None:
        if self._chunked:
            await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def end_connection(self) -> None:
        """End the TCP connection where it stands."""
        self._writer.close()

    def reset(self) -> None:
        """Drop the TCP connection with a reset instead of an end."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the status line and headers alone."""
        lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
        await self.raw("\r\n".join([*lines, "", ""]).encode())


Behaviour = Callable[[Connection], Awaitable[None]]


@dataclass
class HttpServer:
    """A server's script and what it saw."""

    url: str = ""
    """Base URL, with `path_prefix`."""
    path_prefix: str = "/v1"
    key: str | None = None
    """With one set, a request without it is answered 401, and the key it brought is repeated in the body."""
    requests: list[Recorded] = field(default_factory=list)
    open_connections: int = 0
    all_connections: int = 0
    _script: list[Behaviour] = field(default_factory=list)
    _played: int = 0
    _gate: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def play(self, *behaviours: Behaviour) -> None:
        """Answer the next requests that matter with these, one each; the last one repeats."""
        self._script = list(behaviours)
        self._played = 0

    def matters(self, request: Recorded) -> bool:
        """Whether a request is answered by the script."""
        return request.method == "POST"

    async def usual(self, connection: Connection) -> None:
        """What is answered without a script, and to what does not matter."""
        raise NotImplementedError

    @property
    def asked(self) -> list[Recorded]:
        """The requests that matter."""
        return [request for request in self.requests if self.matters(request)]

    def release(self) -> None:
        """Let those go on that wait in `hold`, now and from now on."""
        assert self._loop is not None
        assert self._gate is not None
        self._loop.call_soon_threadsafe(self._gate.set)

    async def until_idle(self, timeout_seconds: float = 5.0) -> None:
        """Return when no connection is open. Raises `AssertionError` when one stays."""
        await self._until(lambda: self.open_connections == 0, "connections stay open", timeout_seconds)

    async def until_asked(self, count: int = 1, timeout_seconds: float = 5.0) -> None:
        """Return when `count` requests that matter have come."""
        await self._until(lambda: len(self.asked) >= count, "too few requests", timeout_seconds)

    async def _until(self, done: Callable[[], bool], complaint: str, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not done():
            assert time.monotonic() < deadline, f"{complaint}: {self.open_connections} open, {len(self.requests)} asked"
            await asyncio.sleep(0.005)

    async def hold_here(self) -> None:
        assert self._gate is not None
        await self._gate.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until either side ends it."""
        self.open_connections += 1
        self.all_connections += 1
        begun = b""
        try:
            while (request := await _read_request(reader, begun)) is not None:
                self.requests.append(request)
                answering = asyncio.ensure_future(self._answer(Connection(self, request, writer)))
                # While a client waits it sends nothing, but it may leave; the next request may follow at once.
                more = asyncio.ensure_future(reader.read(1))
                try:
                    await asyncio.wait({answering, more}, return_when=asyncio.FIRST_COMPLETED)
                    if more.done() and more.result():
                        await asyncio.wait({answering})
                    if not answering.done() or writer.is_closing() or answering.exception():
                        break
                    begun = more.result() if more.done() else b""
                finally:
                    for task in (answering, more):
                        task.cancel()
                    await asyncio.gather(answering, more, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # a client that goes away is what some tests are about; cancelled when the server stops
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.open_connections -= 1

    async def _answer(self, connection: Connection) -> None:
        brought = connection.request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and brought != self.key:
            error = {"message": f"Incorrect API key provided: {brought}", "type": "error", "code": "invalid_api_key"}
            await connection.answer(401, json.dumps({"error": error}).encode())
        elif self._script and self.matters(connection.request):
            behave = self._script[min(self._played, len(self._script) - 1)]
            self._played += 1
            await behave(connection)
        else:
            await self.usual(connection)


# --- the server -------------------------------------------------------------------------------------------------


async def _read_request(reader: asyncio.StreamReader, begun: bytes) -> Recorded | None:
    begun = begun or await reader.read(1)
    if not begun:
        return None
    head = begun + await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Recorded(method, path, headers, body)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """`server` on a free port of loopback, in a thread of its own, until the block ends."""
    started = threading.Event()
    stop: list[Callable[[], None]] = []

    async def run() -> None:
        server._loop = asyncio.get_running_loop()
        server._gate = asyncio.Event()
        stopping = asyncio.Event()
        stop.append(stopping.set)
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}{server.path_prefix}"
        started.set()
        await stopping.wait()
        listener.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="fake-server")
    thread.start()
    try:
        assert started.wait(10)
        yield server
    finally:
        if server._loop is not None:
            server._loop.call_soon_threadsafe(stop[0])
        thread.join()
