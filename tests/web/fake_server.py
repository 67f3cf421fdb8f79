"""A server that answers as the real one does, without models: HTTP, and the live protocol as a script plays it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import socket
import threading
import wave
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from server.next_steps import NEXT_STEPS

WEB = Path(__file__).parents[2] / "server" / "web"
# The page must work under the strictest policy the server may send.
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def turn(**changes: Any) -> dict[str, Any]:
    """One answer of `POST /v1/turns`."""
    answer: dict[str, Any] = {
        "turn_id": 384, "session_id": "01J", "status": "done", "outcome": "ok",
        "transcript": "こんにちは", "language": "ja",
        "reply": "こんにちは！元気だよ。", "emotion": "happy", "action": "nod",
        "audio": {"url": "/v1/turns/384/audio", "format": "wav", "sample_rate": 24000, "duration_ms": 1500},
        "memory": {"searched": False, "memory_ids": [], "source_checked": False},
        "latency_ms": {"vad": 40, "asr": 900, "llm": 1100, "tts": 200, "first_token": 1200, "first_clause": 1600,
                       "first_audio": 1750, "total": 2300},
        "error": None,
    }  # fmt: skip
    return answer | changes


def problem(code: str, message: str, hint: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "retryable": False, "hint": hint}}


def speech_wav(seconds: float = 1.5) -> bytes:
    """A tone that swells and fades, 24 kHz mono."""
    time = np.arange(int(24000 * seconds)) / 24000
    samples = np.sin(2 * np.pi * 220 * time) * np.sin(np.pi * time / seconds) * 16000
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(24000)
        out.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


class LivePage:
    """The page's connection, from the server's side. `got`: its messages; `frames`: how many of sound."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._socket = handler.connection
        self._read = handler.rfile
        key = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        handler.end_headers()
        handler.close_connection = True
        self.got: list[dict[str, Any]] = []
        self.frames = 0
        self.ended = False
        self._hung_up = False

    def say(self, **message: Any) -> None:
        self._send(1, json.dumps(message).encode())

    def sound(self, data: bytes) -> None:
        self._send(2, data)

    def hang_up(self, code: int) -> None:
        self._hung_up = True
        self._send(8, code.to_bytes(2, "big"))

    def cut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, kind: int, data: bytes) -> None:
        length = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
        with contextlib.suppress(OSError):
            self._socket.sendall(bytes([0x80 | kind]) + length + data)

    def next(self) -> dict[str, Any] | bytes | None:
        """The page's next message or frame; None: it has gone."""
        while True:
            head = self._read.read(2)
            if len(head) < 2:
                return None
            length = head[1] & 0x7F
            if length == 126:
                length = int.from_bytes(self._read.read(2), "big")
            mask, data = self._read.read(4), self._read.read(length)
            data = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
            kind = head[0] & 0x0F
            if kind == 8:
                if not self._hung_up:
                    self._send(8, data)
                return None
            if kind == 2:
                self.frames += 1
                return data
            if kind == 1:
                message: dict[str, Any] = json.loads(data)
                self.got.append(message)
                return message


class FakeServer:
    """`answers`: what the next turns get, as (status, body); afterwards `turn()`. `requests`: what came in.

    `live`: every live connection the page made; `refusal`: the error and close code that the next ones get.
    """

    def __init__(self) -> None:
        self.token: str | None = None
        self.ready: tuple[int, dict[str, Any]] = (200, {"status": "ready"})
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.speech = speech_wav()
        self.trace: Any = None
        self.refusal: tuple[str, int] | None = None
        self.live: list[LivePage] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._get(self)

            def do_POST(self) -> None:
                outer._post(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        self._thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        self.http.shutdown()
        for page in self.live:
            page.cut()
        self._thread.join()
        self.http.server_close()

    def _send(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, content_type: str) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Content-Security-Policy", POLICY)
        handler.send_header("X-Content-Type-Options", "nosniff")
        handler.end_headers()
        handler.wfile.write(body)

    def _json(self, handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
        self._send(handler, status, json.dumps(body).encode(), "application/json")

    def _refused(self, handler: BaseHTTPRequestHandler) -> bool:
        given = handler.headers.get("Authorization")
        if self.token is None or given == f"Bearer {self.token}":
            return False
        code = "token_invalid" if given else "token_missing"
        self._json(handler, 401, problem(code, "Refused."))
        return True

    def _get(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        file = WEB / ("index.html" if path == "/" else path.lstrip("/"))
        if path == "/v1/device":
            self._serve_live(LivePage(handler))
        elif path == "/next-steps.json":
            self._json(handler, 200, dict(NEXT_STEPS))
        elif path == "/readyz":
            self._json(handler, *self.ready)
        elif path.endswith("/trace") and self.trace is not None:
            if not self._refused(handler):
                self.requests.append((path, dict(handler.headers), b""))
                self._json(handler, 200, {"turn_id": 384, "trace": self.trace})
        elif path.startswith("/v1/turns/"):
            if not self._refused(handler):
                self.requests.append((path, dict(handler.headers), b""))
                self._send(handler, 200, self.speech, "audio/wav")
        elif file.parent == WEB and file.is_file():
            self._send(handler, 200, file.read_bytes(), TYPES[file.suffix])
        else:
            self._json(handler, 404, problem("not_found", "Not here."))

    def _serve_live(self, page: LivePage) -> None:
        hello = page.next()
        if not isinstance(hello, dict):
            return
        refusal = self.refusal
        if self.token is not None and hello.get("token") != self.token:
            refusal = ("token_invalid" if hello.get("token") else "token_missing", 1008)
        if refusal is not None:
            page.say(type="error", code=refusal[0], message="Refused.", retryable=False)
            page.hang_up(refusal[1])
        else:
            audio = {
                "format": "pcm16",
                "sample_rate": hello.get("voice", hello["audio"])["sample_rate"],
                "frame_ms": 60,
            }
            persona = {"name": "スタックチャン", "language": "ja"}
            page.say(type="hello", session_id="01KB7Q3V9G2M4N6P8R0S2T4V6X", audio=audio, persona=persona)
            page.say(type="state", value="idle")
        self.live.append(page)
        while page.next() is not None:
            pass
        page.ended = True

    def _post(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if self._refused(handler):
            return
        self.requests.append((handler.path, dict(handler.headers), body))
        self._json(handler, *(self.answers.pop(0) if self.answers else (200, turn())))
