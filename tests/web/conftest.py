"""A page in a real browser, and the servers it may talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.web.browser import chromium, complaints, visit
from tests.web.fake_server import FakeServer, problem, turn


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
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def open_page(browser: Any, server: FakeServer) -> Iterator[OpenPage]:
    """`open_page(path="", language="en", size=(1100, 760), calm=False)` goes to the page and returns the driver.

    Every server has a port of its own, so each test finds an empty browser storage. A test fails when the page broke
    the content policy or reported an error of its own.
    """

    def open_it(path: str = "", **person: Any) -> Any:
        visit(browser, server.url + path, **person)
        return browser

    browser.get_log("browser")
    yield open_it
    found = complaints(browser)
    browser.get("about:blank")
    assert found == []
