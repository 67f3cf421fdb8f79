"""Malformed requests of every kind against a real server process; `scripts/soak requests` sends thousands."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.audio.codec import decode_upload
from server.errors import AudioError
from tests.soaks.malformed import SHARES, judge, send_malformed, soak
from tests.soaks.malformed_api import ApiCase
from tests.soaks.malformed_audio import TYPES, good_recordings, zip_bomb_tag
from tests.soaks.wire import Malformed, WireAnswer, parse, request_bytes, send, whole

pytestmark = pytest.mark.integration

COUNT = 160
ERROR = b'{"error": {"code": "x", "message": "y", "retryable": false, "hint": null}}'


def test_malformed_requests_break_nothing(tmp_path: Path) -> None:
    promises = {promise.name: promise for promise in soak(COUNT, 5, tmp_path)}
    assert {name: promise.figures for name, promise in promises.items() if not promise.kept} == {}
    assert set(promises) == {
        "no_server_error", "answered", "one_form", "declared", "lives", "no_defect_logged", "no_growth", "memory",
    }  # fmt: skip
    report = promises["no_server_error"].figures
    assert report["sent"] == sum(report["by_kind"].values()) == COUNT
    assert report["by_kind"] == {kind: COUNT * SHARES.count(kind) // len(SHARES) for kind in set(SHARES)}
    assert {"200", "400", "401", "404", "415", "422"} <= set(report["by_status"])


@pytest.mark.parametrize("wanted", ["bytes=5-1", "respond-async", "bytes=99999999-", "bytes=0-1,4-5", "bytes=0-3"])
async def test_a_range_of_a_page_is_answered_with_the_whole_page(serve: Any, wanted: str) -> None:
    async with serve() as live:
        for path in ("/", "/static-offline-docs/swagger-ui.css"):
            page = await live.client.get(path)
            part = await live.client.get(path, headers={"Range": wanted})
            assert (part.status_code, part.content) == (200, page.content)


class Broken(http.server.BaseHTTPRequestHandler):
    """Answers every POST with 500 and every other request in a form of its own."""

    def do_GET(self) -> None:
        document = b'{"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {"/healthz": {"get": '
        document += b'{"responses": {"200": {"description": "fine"}}}}}}'
        self.answer(200 if self.path == "/openapi.json" else 404, document)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0) or 0))
        self.answer(500, ERROR)

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def broken_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_defect_is_found_and_its_bytes_are_kept(broken_server: str, tmp_path: Path) -> None:
    report = send_malformed(broken_server, "token", 20, 1, folder=tmp_path)
    errors = report.of("server_error")
    assert len(errors) >= 10, "recordings and typed turns are POSTs"
    assert report.of("undeclared"), "404 is not in that document"
    for defect in errors:
        assert defect.kept.read_bytes().startswith(b"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token")
        assert defect.name in defect.kept.with_suffix(".txt").read_text()
    host, port = broken_server.removeprefix("http://").split(":")
    again = send((host, int(port)), whole("audio", "again", errors[0].kept.read_bytes()))
    assert [answer.status for answer in again] == [500]


def test_the_same_seed_sends_the_same_bytes(tmp_path: Path, broken_server: str) -> None:
    runs = [send_malformed(broken_server, "token", 20, 9, folder=tmp_path / str(number)) for number in range(2)]
    first, second = (sorted(defect.kept.read_bytes() for defect in run.of("server_error")) for run in runs)
    assert first == second


def test_a_server_that_says_nothing_is_a_defect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        request = whole("head", "silence", request_bytes("GET", "/"))
        with pytest.raises(TimeoutError):
            send(silent.getsockname(), request, timeout_seconds=0.1)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (WireAnswer(200, {}, b"{}"), []),
        (WireAnswer(422, {}, ERROR), []),
        (WireAnswer(503, {}, ERROR), []),
        (WireAnswer(507, {}, ERROR), []),
        (WireAnswer(500, {}, ERROR), ["server_error"]),
        (WireAnswer(502, {}, b"<html>"), ["server_error", "bad_form"]),
        (WireAnswer(404, {}, b"Not Found"), ["bad_form"]),
        (WireAnswer(422, {}, b'{"detail": []}'), ["bad_form"]),
        (WireAnswer(404, {}, b'["error"]'), ["bad_form"]),
        (WireAnswer(418, {}, ERROR), ["undeclared"]),
    ],
)
def test_answers_are_judged(answer: WireAnswer, found: list[str]) -> None:
    case = ApiCase(
        Malformed("api", "x", ((b"GET / HTTP/1.1\r\n\r\n", 0),)), frozenset({200, 404, 422, 500, 502, 503, 507})
    )
    assert [what for what, _ in judge(case, answer)] == found


def test_responses_are_read_as_they_stand_on_the_wire() -> None:
    received = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    received += b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    received += b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Oops\r\n\r\nrest HTTP/1.1 200 OK"
    answers = [(answer.status, answer.body) for answer in parse(received)]
    assert answers == [(200, b"ok"), (404, b"abcd"), (204, b""), (500, b"rest HTTP/1.1 200 OK")]
    with pytest.raises(ValueError, match="not a response"):
        parse(b"SSH-2.0-x\r\n\r\n")


def test_good_recordings_are_good_before_they_are_damaged() -> None:
    refused = set()
    for name, (container, data) in good_recordings().items():
        try:
            assert len(decode_upload(data, TYPES[container], max_seconds=1)) > 2_000
        except AudioError as error:
            refused.add((name, error.code))
    assert {name for name, _ in refused} == {"wav ms adpcm", "wav ima adpcm", "matroska opus", "adts aac"}
    assert {code for _, code in refused} <= {"audio_unsupported", "audio_invalid"}
    assert len(zip_bomb_tag()) < 300_000
