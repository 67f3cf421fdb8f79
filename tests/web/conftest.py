"""A server that answers as the real one does, without models, and a real browser to look at its page."""

from __future__ import annotations

import io
import json
import shutil
import threading
import wave
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


class FakeServer:
    """`answers`: what the next turns get, as (status, body); afterwards `turn()`. `requests`: what came in."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.ready: tuple[int, dict[str, Any]] = (200, {"status": "ready"})
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.speech = speech_wav()
        self.trace: Any = None
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
        if path == "/readyz":
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

    def _post(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if self._refused(handler):
            return
        self.requests.append((handler.path, dict(handler.headers), body))
        self._json(handler, *(self.answers.pop(0) if self.answers else (200, turn())))


@pytest.fixture(name="turn")
def turn_fixture() -> Callable[..., dict[str, Any]]:
    return turn


@pytest.fixture(name="problem")
def problem_fixture() -> Callable[..., dict[str, Any]]:
    return problem


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


OpenPage = Callable[..., Any]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One headless Chromium; its microphone hears a beep once a second."""
    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver_path is None:
        pytest.fail("this needs a browser; scripts/test installs it: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
        "disable-component-update", "disable-sync", "disable-dev-shm-usage", "use-fake-device-for-media-stream",
        "use-fake-ui-for-media-stream", f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    yield driver
    driver.quit()


@pytest.fixture
def open_page(browser: Any, server: FakeServer) -> Iterator[OpenPage]:
    """`open_page(path="", language="en", size=(1100, 760), calm=False)` goes to the page and returns the driver.

    Every server has a port of its own, so each test finds an empty browser storage. A test fails when the page broke
    the content policy or reported an error of its own.
    """

    def open_it(
        path: str = "", *, language: str = "en", size: tuple[int, int] = (1100, 760), calm: bool = False
    ) -> Any:
        def command(name: str, **values: Any) -> None:
            browser.execute_cdp_cmd(f"Emulation.{name}", values)

        # A headless window cannot be narrower than 500 px; this sets the page's own size, as a phone has it.
        command("setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=size[0] < 600)
        command("setUserAgentOverride", userAgent="test", acceptLanguage=language)
        motion = "reduce" if calm else "no-preference"
        command("setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": motion}])
        browser.get(server.url + path)
        return browser

    browser.get_log("browser")
    yield open_it
    log = [entry["message"] for entry in browser.get_log("browser")]
    browser.get("about:blank")
    # Chromium itself logs every answer that is not 2xx; what the page makes of those is what the tests look at.
    assert [message for message in log if "Failed to load resource" not in message] == []
