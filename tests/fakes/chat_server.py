"""A small real OpenAI-shaped chat endpoint on loopback that does what a test tells it, good or bad.

    with running_chat_server() as chat:
        chat.play(fail(429, retry_after="2"), say("こんにちは"))   # one behaviour a request; the last one repeats
        ... point a client at chat.url (".../v1") ...
        chat.completions[0].json["messages"]                       # what was asked, headers in lower case
        await chat.until_idle()                                    # raises unless every connection is gone

It runs in a thread with its own event loop, so it serves tests with and without one, and other processes; a test can
count its own tasks. `GET /v1/models` lists `chat.models`. With `chat.key` set, a request without that key is answered
401 and the key it brought is repeated in the body, as some providers do. `chat.refused_fields` are answered 400 in a
completion's body. Everything else is a behaviour, made by one of these (`chat_replies.py`, importable from here):

    good      say, deltas, think_then_say, call_tools, call_tools_in_pieces, whole (one JSON body, no stream)
    slow      say(first_byte_seconds=, drip_seconds=), hold (until `chat.release()`), never (answers)
    refusing  fail(status, ...), html, raw_answer
    broken    cut (the connection ends in the middle), say(finish=None, done=False) (the body ends properly, the answer
              not), reset (TCP reset), garbage, error_in_stream, empty, raw

It knows nothing about the code under test.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fakes.chat_replies import (
    MODEL,
    call_tools,
    call_tools_in_pieces,
    chunk,
    cut,
    deltas,
    empty,
    error_in_stream,
    fail,
    garbage,
    hold,
    html,
    never,
    raw,
    raw_answer,
    reset,
    say,
    think_then_say,
    whole,
)

if TYPE_CHECKING:
    from tests.fakes.chat_replies import Behaviour

__all__ = [
    "MODEL",
    "ChatServer",
    "Connection",
    "Recorded",
    "call_tools",
    "call_tools_in_pieces",
    "chunk",
    "cut",
    "deltas",
    "empty",
    "error_in_stream",
    "fail",
    "garbage",
    "hold",
    "html",
    "never",
    "raw",
    "raw_answer",
    "reset",
    "running_chat_server",
    "say",
    "think_then_say",
    "whole",
]

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

    server: ChatServer
    request: Recorded
    _writer: asyncio.StreamWriter
    _chunked: bool = False

    async def begin(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send the status line and headers of a streamed answer; its pieces follow in chunked encoding."""
        lines = {"Content-Type": _EVENT_STREAM, "Transfer-Encoding": "chunked", **(headers or {})}
        await self._head(status, lines)
        self._chunked = True

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer."""
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self._head(status, lines)
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

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
        await self.raw("\r\n".join([*lines, "", ""]).encode())


@dataclass
class ChatServer:
    """The endpoint's script and what it saw."""

    url: str = ""
    """Base URL, with `/v1`."""
    models: list[str] = field(default_factory=lambda: [MODEL])
    answer_models: Behaviour | None = None
    """What to do instead of listing `models`."""
    key: str | None = None
    refused_fields: set[str] = field(default_factory=set)
    requests: list[Recorded] = field(default_factory=list)
    open_connections: int = 0
    _script: list[Behaviour] = field(default_factory=list)
    _played: int = 0
    _gate: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def play(self, *behaviours: Behaviour) -> None:
        """Answer the next completions with these, one each; the last one repeats."""
        self._script = list(behaviours)
        self._played = 0

    @property
    def completions(self) -> list[Recorded]:
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    def release(self) -> None:
        """Let those go on that wait in `hold`, now and from now on."""
        assert self._loop is not None
        assert self._gate is not None
        self._loop.call_soon_threadsafe(self._gate.set)

    async def until_idle(self, timeout_seconds: float = 5.0) -> None:
        """Return when no connection is open. Raises `AssertionError` when one stays."""
        await self._until(lambda: self.open_connections == 0, "connections stay open", timeout_seconds)

    async def until_asked(self, count: int = 1, timeout_seconds: float = 5.0) -> None:
        """Return when `count` completions were asked for."""
        await self._until(lambda: len(self.completions) >= count, "too few requests", timeout_seconds)

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
        request = connection.request
        brought = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and brought != self.key:
            await fail(401, f"Incorrect API key provided: {brought}", code="invalid_api_key")(connection)
        elif request.path.endswith("/models") and self.answer_models is not None:
            await self.answer_models(connection)
        elif request.path.endswith("/models"):
            listed = [{"id": model, "object": "model"} for model in self.models]
            await connection.answer(200, json.dumps({"object": "list", "data": listed}).encode())
        elif refused := sorted(self.refused_fields & set(request.json)):
            await fail(400, f"Unrecognized request argument supplied: {refused[0]}")(connection)
        else:
            script = self._script or [say("はい。")]
            behave = script[min(self._played, len(script) - 1)]
            self._played += 1
            await behave(connection)


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
def running_chat_server() -> Iterator[ChatServer]:
    """A server on a free port of loopback, in a thread of its own, until the block ends."""
    chat = ChatServer()
    started = threading.Event()
    stop: list[Callable[[], None]] = []

    async def run() -> None:
        chat._loop = asyncio.get_running_loop()
        chat._gate = asyncio.Event()
        stopping = asyncio.Event()
        stop.append(stopping.set)
        listener = await asyncio.start_server(chat.serve, "127.0.0.1", 0)
        chat.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        started.set()
        await stopping.wait()
        listener.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="chat-server")
    thread.start()
    try:
        assert started.wait(10)
        yield chat
    finally:
        if chat._loop is not None:
            chat._loop.call_soon_threadsafe(stop[0])
        thread.join()
