"""A real HTTP server on loopback that keeps to the contract of `/v1/turns`, and does what a test scripts.

Each POST takes the next `Reply` of `script` (the last one stays); the rest of the interface follows from it.
"""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from server import __version__
from tests.commands.loopback import TOKEN, LoopbackServer, QuietHandler


def wav(duration_ms: int = 100, rate_hz: int = 24_000) -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(b"\x00\x10" * (rate_hz * duration_ms // 1000))
    return target.getvalue()


SOUND = wav()

ANSWER: Mapping[str, Any] = {
    "turn_id": 384,
    "session_id": "01JABCDEFGHJKMNPQRSTVWXYZ0",
    "status": "done",
    "outcome": "ok",
    "transcript": "左を見て",
    "language": "ja",
    "reply": "はい、左だね。",
    "emotion": "happy",
    "action": "look_left",
    "audio": {"url": "/v1/turns/384/audio", "format": "wav", "sample_rate": 24000, "duration_ms": 100},
    "memory": {"searched": False, "memory_ids": [], "source_checked": False},
    "latency_ms": {
        "vad": 20,
        "asr": 900,
        "llm": 1600,
        "tts": 150,
        "first_token": 1200,
        "first_clause": 1800,
        "first_audio": 1900,
        "total": 2700,
    },
    "error": None,
}


@dataclass(frozen=True)
class Reply:
    """What one POST gets."""

    status: int = 200
    body: Any = field(default_factory=lambda: dict(ANSWER))
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, message: str, *, hint: str | None = None, **headers: str) -> Reply:
    body = {"error": {"code": code, "message": message, "retryable": status in (409, 429, 503), "hint": hint}}
    return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def starting() -> Reply:
    return refusal(503, "starting", "The models are still loading.", Retry_After="0")


@dataclass(frozen=True)
class Request:
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class TurnServer(LoopbackServer):
    """`script`: replies in order. `ready`: the body of `/readyz`; `sound`: what `/audio` gives, None for 410."""

    def __init__(self, *script: Reply, ready: Mapping[str, Any] | None = None, sound: bytes | None = SOUND) -> None:
        self.script = list(script) or [Reply()]
        self.ready = ready or {"status": "ready"}
        self.sound = sound
        self.trace: Any = None
        self.turns: list[Request] = []
        self.sound_formats: list[str] = []
        self.ended: list[str] = []
        super().__init__(self._handler())

    def _handler(self) -> type[QuietHandler]:
        owner = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.path == f"/v1/sessions/{ANSWER['session_id']}/end":
                    owner.ended.append(ANSWER["session_id"])
                    ended = {"session_id": ANSWER["session_id"], "closed_at": "2026-11-30T12:00:00Z"}
                    return self._send(Reply(200, ended))
                if self.path != "/v1/turns":
                    return self._send(refusal(404, "not_found", "Not Found"))
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    return self._send(refusal(401, "token_invalid", "This token is not known."))
                owner.turns.append(Request(dict(self.headers), body))
                reply = owner.script.pop(0) if len(owner.script) > 1 else owner.script[0]
                self._send(reply)

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path == "/healthz":
                    self._send(Reply(200, {"status": "ok", "version": __version__}))
                elif path == "/readyz":
                    ready = owner.ready
                    if self.headers.get("Authorization") != f"Bearer {TOKEN}" and "error" in ready:
                        ready = {**ready, "error": {"code": "start_failed", "message": "The server could not start."}}
                    self._send(Reply(200 if ready["status"] == "ready" else 503, ready))
                elif path.endswith("/trace") and owner.trace is not None:
                    self._send(Reply(200, {"turn_id": 384, "trace": owner.trace}))
                elif path.endswith("/audio") and owner.sound is None:
                    self._send(refusal(410, "audio_expired", "The sound was kept for an hour."))
                elif path.endswith("/audio"):
                    owner.sound_formats.append(query.removeprefix("format="))
                    self._send(Reply(200, owner.sound))
                else:
                    self._send(refusal(404, "not_found", "Not Found"))

            def _send(self, reply: Reply) -> None:
                body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
