"""The client of the server's interface, on a scripted transport and a clock that only moves when it waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.commands.client import ServerClient, Target, find_target, retry_after_seconds
from server.commands.failures import NoServerError, RefusedError, UsageFailure
from server.errors import StackChanError
from server.run_file import RunFile, write_run_file

pytestmark = pytest.mark.unit

STARTING = httpx2.Response(
    503, json={"error": {"code": "starting", "message": "loading"}}, headers={"Retry-After": "2"}
)
ANSWER = httpx2.Response(200, json={"turn_id": 1, "outcome": "ok"})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def client(
    handler: Callable[[httpx2.Request], httpx2.Response],
    clock: Clock | None = None,
    *,
    local: bool = True,
    **changes: Any,
) -> ServerClient:
    clock = clock or Clock()
    return ServerClient(
        Target("http://127.0.0.1:8000", "secret", is_local_process=local),
        transport=httpx2.MockTransport(handler),
        monotonic=lambda: clock.now,
        sleep=clock.sleep,
        **changes,
    )


def test_it_gives_up_on_a_server_that_never_gets_ready() -> None:
    clock = Clock()

    def handler(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/readyz":
            return httpx2.Response(503, json={"status": "starting"})
        return STARTING

    with pytest.raises(StackChanError) as given_up, client(handler, clock) as server:
        server.say_text("hi")

    assert given_up.value.code == "starting"
    assert set(clock.waits) == {2.0}
    assert 300 <= clock.now < 305


def test_a_server_that_is_about_to_listen_is_waited_for() -> None:
    clock = Clock()

    def handler(request: httpx2.Request) -> httpx2.Response:
        if clock.now < 1.0:
            raise httpx2.ConnectError("refused", request=request)
        return ANSWER

    with client(handler, clock) as server:
        assert server.say_text("hi")["turn_id"] == 1


@pytest.mark.parametrize(("local", "waited"), [(True, 5.0), (False, 0.0)])
def test_a_server_that_does_not_listen_is_given_up(local: bool, waited: float) -> None:
    clock = Clock()

    def handler(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with pytest.raises(NoServerError), client(handler, clock, local=local) as server:
        server.say_text("hi")
    assert clock.now == waited


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx2.ReadTimeout("slow"), "server_timeout"),
        (httpx2.ReadError("reset"), "connection_lost"),
        (httpx2.RemoteProtocolError("cut"), "connection_lost"),
        (httpx2.WriteError("pipe"), "connection_lost"),
    ],
)
def test_a_broken_connection_is_an_error_and_the_turn_is_not_sent_twice(error: Exception, code: str) -> None:
    sent = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        raise error

    with pytest.raises(StackChanError) as broken, client(handler) as server:
        server.say_audio(b"RIFF", "audio/wav")
    assert broken.value.code == code
    assert len(sent) == 1


@pytest.mark.parametrize(("url", "asks"), [("http://192.168.1.20:8000", True), ("https://192.168.1.20:8000", False)])
def test_who_says_http_to_a_server_of_https_is_told_so(url: str, asks: bool) -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")

    target = Target(url, "token")
    with (
        pytest.raises(StackChanError) as broken,
        ServerClient(target, transport=httpx2.MockTransport(handler)) as server,
    ):
        server.say_text("hi")
    assert broken.value.message == f"The connection to {url} broke: Server disconnected without sending a response."
    assert ("https です" in str(broken.value)) is asks


def test_a_stopping_server_is_not_waited_for() -> None:
    stopping = httpx2.Response(503, json={"error": {"code": "stopping", "message": "going down"}})
    clock = Clock()
    with pytest.raises(RefusedError, match="going down"), client(lambda request: stopping, clock) as server:
        server.say_text("hi")
    assert clock.waits == []


def test_a_trace_that_cannot_be_had_is_none() -> None:
    for response in (httpx2.Response(404), httpx2.Response(200, json=[1]), httpx2.Response(200, text="x")):
        with client(lambda request, response=response: response) as server:
            assert server.trace(1) is None


def test_text_that_is_not_latin_is_sent_as_json() -> None:
    seen = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.read())
        return ANSWER

    with client(handler) as server:
        server.say_text("𠮷野家 👨‍👩‍👧 \ud800")
    assert httpx2.Response(200, content=seen[0]).json() == {"text": "𠮷野家 👨‍👩‍👧 \ud800"}


@pytest.mark.parametrize("changes", [{"device_id": "机"}, {"session": "a\nb"}])
def test_names_that_no_header_can_carry_are_wrong_use(changes: dict[str, str]) -> None:
    with pytest.raises(UsageFailure):
        client(lambda request: ANSWER, **changes)


@pytest.mark.parametrize(
    ("value", "seconds"), [("2", 2), ("0", 0.2), ("3600", 10), ("soon", 1), ("nan", 1), ("-1", 0.2), ("inf", 1)]
)
def test_retry_after_is_bounded(value: str, seconds: float) -> None:
    assert retry_after_seconds({"Retry-After": value}) == seconds
    assert retry_after_seconds({}) == 1


# Finding the server


def run_file(data_dir: Path, pid: int | None = None) -> None:
    import os

    write_run_file(data_dir, RunFile(pid or os.getpid(), "http://127.0.0.1:8123", "boot-token", "b"))


def test_the_servers_own_token_is_used(tmp_path: Path) -> None:
    run_file(tmp_path)
    assert find_target(tmp_path) == Target("http://127.0.0.1:8123", "boot-token", is_local_process=True)
    assert find_target(tmp_path, token="mine").token == "mine"
    assert find_target(tmp_path, url="http://127.0.0.1:8123/").token == "boot-token"


def test_the_boot_token_is_not_sent_to_another_server(tmp_path: Path) -> None:
    run_file(tmp_path)
    with pytest.raises(UsageFailure, match="token"):
        find_target(tmp_path, url="http://192.0.2.7:8123")


def test_a_stale_run_file_counts_as_no_server(tmp_path: Path) -> None:
    run_file(tmp_path, pid=2**22 + 12345)
    with pytest.raises(NoServerError):
        find_target(tmp_path)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://x", "http://", "hello", "http://[::1", "http://x:y", "http://x:99999"]
)
def test_an_address_that_is_none_is_wrong_use(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageFailure):
        find_target(tmp_path, url=url, token="t")
