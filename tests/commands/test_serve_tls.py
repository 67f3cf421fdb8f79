"""`stackchan serve --tls` as a process: HTTPS and WSS with a certificate that the command line trusts by itself."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import io
import json
import socket
import ssl
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from rich.console import Console
from websockets.sync.client import connect

from server.audio.codec import encode_wav
from server.commands.certificate import local_identity
from server.commands.client import ServerClient, find_target
from server.commands.doctor_checks import _check_running
from server.commands.failures import ExitCode, NoServerError
from server.commands.simulate import SimulateOptions, simulate
from server.commands.terminal import Terminal
from server.commands.trust import trusting
from server.commands.web_server import Shown
from server.errors import ConfigError, StorageError
from server.run_file import read_run_file
from tests.commands.serve_process import ServeProcess
from tests.devices.live_robots import tone

pytestmark = pytest.mark.integration

NAMES = ("localhost", "127.0.0.1")
HELLO = {
    "type": "hello",
    "protocol": 1,
    "device_id": "phone",
    "audio": {"format": "pcm16", "sample_rate": 16000, "frame_ms": 20},
}


def serve_run(data_dir: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((data_dir / "run.json").read_text())
    return run


def said(folder: Path) -> Path:
    """A recording of something that `FakeVad` takes for speech."""
    path = folder / "question.wav"
    path.write_bytes(encode_wav((tone(0.6) * 32767).astype(np.int16), 16_000))
    return path


def test_page_turns_and_devices_are_served_encrypted_and_the_command_line_trusts_it(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--port", "0", "--tls") as server:
        page = server.wait_for("https://127.0.0.1:")
        server.wait_for("SHA-256")
        server.wait_for("Stop /")
        run = serve_run(tmp_path)
        certificate = tmp_path / "tls" / "certificate.pem"
        assert run["url"].startswith("https://127.0.0.1:")
        assert run["url"] in page
        assert run["certificate"] == str(certificate)
        assert stat.S_IMODE((tmp_path / "tls" / "key.pem").stat().st_mode) == 0o600
        server.wait_for("初回だけ")  # all of it was shown
        digits = "".join(part for line in server.lines for part in line.replace("SHA-256", "").split() if ":" in part)
        der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
        shown = hashlib.sha256(der).hexdigest().upper()
        assert shown in "".join(digits.split(":"))

        # the command line
        with ServerClient(find_target(tmp_path)) as client:
            assert client.say_text("hello")["outcome"] == "ok"
        with ServerClient(find_target(tmp_path, run["url"], run["token"])) as client:
            assert client.say_text("hello")["outcome"] == "ok"
        read = read_run_file(tmp_path)
        assert read is not None
        assert _check_running(read, None).state == "ok"

        # robots of software
        shown = Terminal(Console(file=io.StringIO()), Console(file=io.StringIO()))
        options = SimulateOptions(said(tmp_path), turns=1, data_dir=tmp_path, as_json=True)
        assert simulate(options, shown) == ExitCode.OK
        total = json.loads(shown.out.file.getvalue())  # type: ignore[attr-defined]
        assert (total["answered"], total["failures"]) == (1, {})
        stranger_options = replace(options, url=run["url"], token=run["token"], data_dir=tmp_path / "elsewhere")
        with pytest.raises(NoServerError, match="certificate"):
            simulate(stranger_options, shown)

        # a browser that was told to trust it, by its name
        by_name = ssl.create_default_context(cafile=str(certificate))
        port = httpx2.URL(run["url"]).port
        with httpx2.Client(verify=by_name, base_url=f"https://localhost:{port}", trust_env=False) as browser:
            assert "text/html" in browser.get("/").headers["content-type"]
        # one that was not
        with (
            httpx2.Client(trust_env=False) as stranger,
            pytest.raises(httpx2.ConnectError, match=r"(?i)certificate"),
        ):
            stranger.get(run["url"])

        # a device that listens, as a page of this server does
        with connect(
            f"wss://localhost:{port}/v1/device",
            ssl=by_name,
            additional_headers={"Authorization": f"Bearer {run['token']}"},
            origin=f"https://localhost:{port}",  # type: ignore[arg-type]
        ) as device:
            device.send(json.dumps(HELLO))
            assert [json.loads(device.recv(5))["type"] for _ in range(2)] == ["hello", "state"]
        assert server.stop() == 0


def test_plain_http_is_not_answered_and_does_no_harm(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--port", "0", "--tls") as server:
        server.wait_for("Ready in")
        run = serve_run(tmp_path)
        address = ("127.0.0.1", httpx2.URL(run["url"]).port or 0)
        for words in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01", b""):
            with socket.create_connection(address, timeout=5) as connection:
                connection.sendall(words)
                connection.settimeout(0.5)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    assert b"200" not in connection.recv(1000)
        with ServerClient(find_target(tmp_path)) as client:
            assert client.say_text("hello")["outcome"] == "ok"


def test_ones_own_certificate_is_shown_and_the_next_start_makes_none(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "maker", "--port", "0", "--tls") as server:
        server.wait_for("Ready in")
    made = tmp_path / "maker" / "tls"
    arguments = ("--tls-cert", str(made / "certificate.pem"), "--tls-key", str(made / "key.pem"))
    with ServeProcess(tmp_path / "data", "--port", "0", *arguments) as server:
        server.wait_for("Ready in")
        run = serve_run(tmp_path / "data")
        assert run["certificate"] == str(made / "certificate.pem")
        assert not (tmp_path / "data" / "tls").exists()
        with ServerClient(find_target(tmp_path / "data")) as client:
            assert client.say_text("hello")["outcome"] == "ok"


def test_another_server_with_that_address_is_not_believed(tmp_path: Path) -> None:
    """The pin is the certificate itself: another one made here for the same names is refused."""
    with ServeProcess(tmp_path / "a", "--port", "0", "--tls") as server:
        server.wait_for("Ready in")
        with ServeProcess(tmp_path / "b", "--port", "0", "--tls") as other:
            other.wait_for("Ready in")
            pinned = trusting(tmp_path / "a" / "tls" / "certificate.pem")
            with httpx2.Client(verify=pinned, trust_env=False) as client:
                assert client.get(f"{serve_run(tmp_path / 'a')['url']}/healthz").status_code == 200
                with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate"):
                    client.get(f"{serve_run(tmp_path / 'b')['url']}/healthz")


async def test_a_server_that_runs_for_a_year_shows_the_renewed_one(tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    old = local_identity(tmp_path, NAMES, now - dt.timedelta(days=200))
    later, renewals = now + dt.timedelta(days=300), 0

    def renew() -> None:
        nonlocal renewals
        renewals += 1
        if renewals == 1:
            raise StorageError("the disk is full")
        local_identity(tmp_path, NAMES, later)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(old.certificate, old.key)
    keeping = asyncio.create_task(Shown(old.certificate, old.key, renew, 0.02).keep_fresh(lambda: context))
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    def seen() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port))

    first = old.certificate.read_text()
    assert await asyncio.to_thread(seen) == first
    for _ in range(200):
        await asyncio.sleep(0.02)
        if renewals > 2:
            break
    assert await asyncio.to_thread(seen) == old.certificate.read_text() != first
    keeping.cancel()
    server.close()
    await server.wait_closed()


def test_a_key_that_does_not_fit_ends_the_start_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("…")
    began = time.monotonic()
    with ServeProcess(tmp_path, "--port", "0", "--tls-cert", str(tmp_path / "a.pem"), "--tls-key", "/no") as server:
        server.wait_for("cannot be used as a certificate")
        assert server.process.wait(30) == 1
    assert time.monotonic() - began < 60


def test_the_connection_of_a_stopped_server_is_told_as_before(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--port", "0", "--tls") as server:
        server.wait_for("Ready in")
        target = find_target(tmp_path)
        server.stop()
    with pytest.raises(ConfigError, match="certificate"):
        ServerClient(replace(target, certificate=str(tmp_path / "gone.pem")))
    ticks = iter(range(100))
    with (
        ServerClient(target, sleep=lambda seconds: None, monotonic=lambda: float(next(ticks))) as client,
        pytest.raises(NoServerError),
    ):
        client.say_text("hello")
