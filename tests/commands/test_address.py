"""Binding, and the addresses told to the owner."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from server.commands.address import bind, http_url, is_loopback, lan_addresses, reachable_host
from server.commands.failures import PortError
from server.config import Settings
from server.run_file import RunFile, write_run_file

pytestmark = pytest.mark.integration


def settings(tmp_path: Path, host: str = "127.0.0.1", port: int = 0) -> Settings:
    return Settings(host=host, port=port, data_dir=tmp_path)


def test_port_0_is_any_free_one(tmp_path: Path) -> None:
    with bind(settings(tmp_path)) as listener:
        assert listener.getsockname()[1] > 0


@pytest.mark.parametrize("taken_on", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_told(tmp_path: Path, taken_on: str) -> None:
    with socket.create_server((taken_on, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortError, match=f"Port {port} is already in use") as refused:
            bind(settings(tmp_path, port=port))
    assert refused.value.code == "port_in_use"
    assert "--port" in (refused.value.hint or "")


def test_a_port_held_by_our_own_server_is_told_with_its_process(tmp_path: Path) -> None:
    with bind(settings(tmp_path)) as first:
        port = first.getsockname()[1]
        write_run_file(tmp_path, RunFile(os.getpid(), f"http://127.0.0.1:{port}", "t", "b"))
        with pytest.raises(PortError, match=f"process {os.getpid()}") as refused:
            bind(settings(tmp_path, port=port))
    assert refused.value.code == "data_in_use"


def test_a_port_can_be_used_again_at_once(tmp_path: Path) -> None:
    with bind(settings(tmp_path)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = listener.accept()
            accepted.close()
            client.recv(1)
    bind(settings(tmp_path, port=port)).close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every port")
def test_a_port_for_root_is_told(tmp_path: Path) -> None:
    with pytest.raises(PortError) as refused:
        bind(settings(tmp_path, port=1))
    assert refused.value.code == "port_forbidden"


@pytest.mark.parametrize(
    ("host", "url", "loopback"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000", True),
        ("0.0.0.0", "http://127.0.0.1:8000", False),
        ("::", "http://[::1]:8000", False),
        ("::1", "http://[::1]:8000", True),
        ("localhost", "http://localhost:8000", True),
        ("192.168.1.5", "http://192.168.1.5:8000", False),
    ],
)
def test_addresses_for_this_machine(host: str, url: str, loopback: bool) -> None:
    assert http_url(reachable_host(host), 8000) == url
    assert is_loopback(host) is loopback


def test_a_given_address_is_the_one_for_the_robot() -> None:
    assert lan_addresses("192.168.1.5") == ["192.168.1.5"]
