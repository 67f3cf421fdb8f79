"""What holds for every test: the order of the kinds, and that no test reaches the network.

Unit tests run first, then integration, then those with real models. Processes that share all of them begin at the
other end, so that they have something short left to end together with. A unit test may open no connection at all; the
others may talk to this machine only. A forbidden attempt fails the test even where the code under test catches it. The
settings of whoever runs the tests stay outside.
"""

from __future__ import annotations

import ipaddress
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

# Engines that share the cores with other programs must not spin while they wait; read when OpenMP is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

KINDS = ("unit", "integration", "models")
KEPT_SETTINGS = ("STACKCHAN_MODEL_DIR",)
MODELS_FOLDER = "tests/models/"
WITH_LANGUAGE_MODEL = (
    MODELS_FOLDER,
    "tests/commands/test_serve_process.py",
    "tests/engines/test_xllama_model.py",
)
WATCHED_EVENTS = ("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")


class ForbiddenConnection(RuntimeError):
    """A test tried to reach what its kind may not reach."""


class NetworkWatch:
    """Judges this process's socket calls while a test runs. `allowed`: "all" (no test runs), "local" or "none"."""

    def __init__(self) -> None:
        self.allowed = "all"
        self.attempts: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed == "all" or event not in WATCHED_EVENTS:
            return
        target = arguments[0] if event.startswith("socket.get") else arguments[1]
        if self.allowed == "local" and (event == "socket.bind" or is_this_machine(target)):
            return
        self.attempts.append(f"{event} {target!r}")
        raise ForbiddenConnection(f"{event} {target!r}: this test may reach {self.allowed}, see tests/conftest.py")


def is_this_machine(target: object) -> bool:
    """Whether a socket address, host name or socket path is on this machine. Names are not looked up."""
    host = target[0] if isinstance(target, tuple) else target
    if isinstance(host, bytes):
        host = host.decode("utf-8", "replace")
    if host is None or not isinstance(host, str) or host in ("", "localhost") or host.startswith("/"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


WATCH = NetworkWatch()


def pytest_configure(config: pytest.Config) -> None:
    for name in list(os.environ):
        if name.startswith("STACKCHAN_") and name not in KEPT_SETTINGS:
            del os.environ[name]
    # A shell makes what runs in the background deaf to Ctrl-C, and so would be whom a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Cannot be removed again, so it is added once and idle outside tests.
    sys.addaudithook(WATCH)


def kind_of(item: pytest.Item) -> str:
    """The mark of a test; the strictest of several. A test without one counts as unit."""
    return next((kind for kind in reversed(KINDS) if item.get_closest_marker(kind)), "unit")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Two processes share the tests by their names.
    if passing := [item.nodeid for item in items if re.search(r" at 0x[0-9a-f]+", item.nodeid)]:
        raise pytest.UsageError(f"names that differ from process to process, give them ids: {passing}")
    is_shared = hasattr(config, "workerinput")
    items.sort(key=lambda item: place_of(item.nodeid, kind_of(item), is_shared=is_shared))


def place_of(name: str, kind: str, *, is_shared: bool) -> int:
    """Tests with a smaller one run before. `is_shared`: with another process."""
    if not is_shared:
        return KINDS.index(kind)
    return 0 if name.startswith(WITH_LANGUAGE_MODEL) else len(KINDS) - KINDS.index(kind)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` files are taken in their order, and those with large models by one process.

    These keep a processor busy for minutes: of two at once neither would be sooner, and whatever else runs on this
    machine would get none. And the language model's prompt is read once: who comes later finds it on the disk.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class InOrder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return MODELS_FOLDER if file.startswith(WITH_LANGUAGE_MODEL) else file

    config.option.loadscopereorder = False
    return InOrder(config, log)


@pytest.fixture(autouse=True)
def _network_watch(request: pytest.FixtureRequest) -> Iterator[None]:
    WATCH.attempts.clear()
    WATCH.allowed = "none" if kind_of(request.node) == "unit" else "local"
    yield
    WATCH.allowed = "all"
    if WATCH.attempts:
        pytest.fail("forbidden by tests/conftest.py: " + "; ".join(WATCH.attempts))
