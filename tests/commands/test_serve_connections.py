"""A server that strangers only hold connections to: it stays alive, answers, and closes them."""

from __future__ import annotations

import json
import resource
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.commands.serve_process import ServeProcess

pytestmark = pytest.mark.integration

DESCRIPTORS = 128


@pytest.fixture
def few_descriptors():
    """Processes started here may open few files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_open_connections_than_files_do_not_end_the_server(tmp_path: Path, few_descriptors: None) -> None:
    with ServeProcess(tmp_path, fresh=True) as server:  # a forked one has the limits of who forked it
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))  # only the server is short of them
        server.wait_for("Ready in")
        run = json.loads((tmp_path / "run.json").read_text())
        address = ("127.0.0.1", httpx2.URL(run["url"]).port)
        held = []
        try:
            for _ in range(DESCRIPTORS + 40):
                connection = socket.create_connection(address, timeout=5)
                connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
                held.append(connection)
            assert server.process.poll() is None
        finally:
            for connection in held:
                connection.close()
        headers = {"Authorization": f"Bearer {run['token']}", "Device-Id": "desk"}
        with httpx2.Client(base_url=run["url"], headers=headers, timeout=20) as client:
            wait_until_let_in(client)
            assert client.post("/v1/turns", json={"text": "hello"}).status_code == 200


def wait_until_let_in(client: httpx2.Client) -> None:
    """The server may not have noticed yet that the others have left."""
    for _ in range(100):
        try:
            client.get("/healthz")
            return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise AssertionError("nobody is let in any more")


UPGRADE = (
    "GET {} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def test_what_is_no_http_and_what_wants_another_protocol_are_answered_in_the_one_form(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as server:
        server.wait_for("Ready in")
        run = json.loads((tmp_path / "run.json").read_text())
        address = ("127.0.0.1", httpx2.URL(run["url"]).port)

        def ask(request: str) -> tuple[int, str]:
            with socket.create_connection(address, timeout=30) as connection:
                connection.sendall(request.encode("latin-1"))
                connection.settimeout(30)
                with connection.makefile("rb") as answer:
                    status = int(answer.readline().split()[1])
                    length = 0
                    for line in iter(answer.readline, b"\r\n"):
                        name, _, value = line.decode().partition(":")
                        assert (name.lower(), value.strip()) != ("content-type", "text/plain; charset=utf-8")
                        length = int(value) if name.lower() == "content-length" else length
                    error = json.loads(answer.read(length))["error"]
            assert set(error) == {"code", "message", "retryable", "hint"}
            return status, error["code"]

        head = f"POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {run['token']}\r\nDevice-Id: desk\r\n"
        for garbage in (
            "GARBAGE\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            f"{head}Content-Type: audio/wav\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ):
            assert ask(garbage) == (400, "request_invalid"), garbage
        assert ask(UPGRADE.format("/v1/nothing")) == (404, "not_found")
        assert ask(UPGRADE.format("/v1/turns")) == (405, "method_not_allowed")
        headers = {"Authorization": f"Bearer {run['token']}", "Device-Id": "desk"}
        with httpx2.Client(base_url=run["url"], headers=headers, timeout=20) as client:
            assert client.post("/v1/turns", json={"text": "hello"}).status_code == 200
        assert server.stop() == 0
    assert "Traceback" not in server.output


def test_a_turn_cut_off_by_a_stop_is_answered_in_the_one_form(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, env={"SERVE_FAKE": "60"}) as server, ThreadPoolExecutor(1) as pool:
        server.wait_for("Ready in")
        run = json.loads((tmp_path / "run.json").read_text())
        headers = {"Authorization": f"Bearer {run['token']}", "Device-Id": "desk"}
        with httpx2.Client(base_url=run["url"], headers=headers, timeout=60) as client:
            answer = pool.submit(client.post, "/v1/turns", json={"text": "hello"})
            while client.get("/v1/turns/1").status_code != 200:
                pass
            server.process.send_signal(signal.SIGTERM)
            response = answer.result(40)
        assert server.ends() == 0
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "stopping"
    assert response.json()["error"]["retryable"] is True
