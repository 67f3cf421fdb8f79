"""HTTP/1.1 as bytes: requests written by hand, also wrong ones, and whatever a server answers to them.

A request is the exact bytes that are sent, so that it can be kept in a file and sent again. Knows no endpoints.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

ANSWER_SECONDS = 20.0
"""A server that has not answered by then hangs."""
_PATIENCE_SECONDS = 0.3
_HEAD_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")

Headers = Iterable[tuple[str | bytes, str | bytes]]


@dataclass(frozen=True, slots=True)
class Malformed:
    """One thing to send. `steps`: bytes and the seconds to wait after them, in order.

    `ending`: "answer" asks for `Connection: close`, so the server has to answer and close; "maybe" may leave the
    server waiting for more, or the connection open; "leave": the client goes before an answer can come.
    """

    kind: str
    name: str
    steps: tuple[tuple[bytes, float], ...]
    ending: Literal["answer", "maybe", "leave"] = "answer"

    @property
    def wire(self) -> bytes:
        return b"".join(part for part, _ in self.steps)


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """One response. `headers`: lower-case names."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


CLOSE = ("Connection", "close")


def whole(kind: str, name: str, wire: bytes, ending: Literal["answer", "maybe", "leave"] = "answer") -> Malformed:
    """Sent in one piece."""
    return Malformed(kind, name, ((wire, 0.0),), ending)


def request_bytes(
    method: str | bytes, target: str | bytes, headers: Headers = (), body: bytes = b"", *, length: bool = True
) -> bytes:
    """A request with these headers as they stand; `length`: with the right Content-Length."""
    lines = [_raw(method) + b" " + _raw(target) + b" HTTP/1.1"]
    lines += [_raw(name) + b": " + _raw(value) for name, value in headers]
    if length and (body or _raw(method) in (b"POST", b"PUT", b"PATCH")):
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + _HEAD_END + body


def send(
    address: tuple[str, int], malformed: Malformed, *, timeout_seconds: float = ANSWER_SECONDS
) -> list[WireAnswer]:
    """Every response that came; an empty list when there was none.

    Raises `TimeoutError` when an answer is due and the server neither gives it nor closes, `ConnectionRefusedError`
    when it is gone.
    """
    with socket.create_connection(address, timeout=timeout_seconds) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may refuse before it has everything
            for part, pause_seconds in malformed.steps:
                connection.sendall(part)
                time.sleep(pause_seconds)
        if malformed.ending == "leave":
            return []
        heads = malformed.wire.startswith(b"HEAD ")
        received = _receive(connection, timeout_seconds if malformed.ending == "answer" else _PATIENCE_SECONDS, heads)
    if not received and malformed.ending == "answer":
        raise TimeoutError("no answer")
    return parse(received, heads=heads)


def _receive(connection: socket.socket, patience_seconds: float, heads: bool) -> bytes:
    """All bytes until the server closes, or says nothing for so long between two answers."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError, TimeoutError):
        while True:
            connection.settimeout(patience_seconds if _is_whole(received, heads) else ANSWER_SECONDS)
            piece = connection.recv(65_536)
            if not piece:
                break
            received += piece
    return bytes(received)


def _is_whole(received: bytes, heads: bool) -> bool:
    """Whether no answer is half-way; a busy server sends a head some time before its body."""
    if not received:
        return True
    if _HEAD_END not in received:
        return False
    last = parse(bytes(received), heads=heads)[-1:]
    if heads or not last:
        return True
    if last[0].headers.get("transfer-encoding") == "chunked":
        return received.endswith(b"0\r\n\r\n")
    return len(last[0].body) >= int(last[0].headers.get("content-length", "0"))


def parse(received: bytes, *, heads: bool = False) -> list[WireAnswer]:
    """The responses in `received`, without interim ones; `heads`: they answer HEAD and have no body."""
    answers: list[WireAnswer] = []
    while _HEAD_END in received:
        head, _, received = received.partition(_HEAD_END)
        found = _STATUS.match(head)
        if found is None:
            raise ValueError(f"not a response: {head[:80]!r}")
        status = int(found[1])
        lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
        headers = {name.decode("latin-1").lower(): value.strip().decode("latin-1") for name, _, value in lines}
        if status < 200:
            continue
        body = b""
        if not heads and status not in (204, 304):
            body, received = _split_body(headers, received)
        answers.append(WireAnswer(status, headers, body))
    return answers


def _split_body(headers: dict[str, str], received: bytes) -> tuple[bytes, bytes]:
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            line, _, received = received.partition(b"\r\n")
            size = int(line, 16) if line else 0
            body, received = body + received[:size], received[size + 2 :]
            if size == 0:
                return body, received
    if "content-length" in headers:
        size = int(headers["content-length"])
        return received[:size], received[size:]
    return received, b""


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8")
