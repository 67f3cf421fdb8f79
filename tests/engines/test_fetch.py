"""Fetching one file: resuming, retrying, giving up."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from server.engines.fetch import FetchError, RetryPolicy, fetch

pytestmark = pytest.mark.unit

BODY = bytes(range(256)) * 40
URL = "http://files.test/body.bin"


class Cut(httpx2.SyncByteStream):
    """A body that breaks off after `sent`."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def __iter__(self) -> Iterator[bytes]:
        yield self._sent
        raise httpx2.ReadError("connection reset")


def serve(request: httpx2.Request, *, cut_after: int | None = None) -> httpx2.Response:
    """A server that knows ranges; `cut_after`: bytes of this answer before the connection breaks."""
    asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
    start = int(asked[1]) if asked else 0
    headers = {"Content-Length": str(len(BODY) - start)}
    if asked:
        headers["Content-Range"] = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
    rest = BODY[start:]
    stream = httpx2.ByteStream(rest) if cut_after is None else Cut(rest[:cut_after])
    return httpx2.Response(206 if asked else 200, headers=headers, stream=stream)


class Run:
    """One fetch with its progress and waits recorded."""

    def __init__(self, part: Path, handler: Callable[[httpx2.Request], httpx2.Response], attempts: int = 4) -> None:
        self.part = part
        self.waits: list[float] = []
        self.ranges: list[str | None] = []
        self.advanced = 0
        self._handler = handler
        self._retry = RetryPolicy(attempts=attempts, backoff_limit_seconds=3.0, sleep=self.waits.append)

    def __call__(self, url: str = URL) -> None:
        def handle(request: httpx2.Request) -> httpx2.Response:
            self.ranges.append(request.headers.get("Range"))
            return self._handler(request)

        def advance(n: int) -> None:
            self.advanced += n

        with httpx2.Client(transport=httpx2.MockTransport(handle)) as client:
            fetch(client, url, self.part, size_bytes=len(BODY), on_bytes=advance, retry=self._retry)


def test_a_whole_file_arrives_in_one_request(tmp_path: Path) -> None:
    run = Run(tmp_path / "part", serve)
    run()
    assert run.part.read_bytes() == BODY
    assert run.ranges == [None]
    assert run.advanced == len(BODY)


def test_a_cut_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    cuts: list[int | None] = [1000, 500, None]
    run = Run(tmp_path / "part", lambda request: serve(request, cut_after=cuts.pop(0)))
    run()
    assert run.part.read_bytes() == BODY
    assert run.ranges == [None, "bytes=1000-", "bytes=1500-"]
    assert run.waits == [1.0, 2.0]
    assert run.advanced == len(BODY)


def test_bytes_of_an_earlier_run_are_not_asked_for_again(tmp_path: Path) -> None:
    run = Run(tmp_path / "part", serve)
    run.part.write_bytes(BODY[:9000])
    run()
    assert run.part.read_bytes() == BODY
    assert run.ranges == ["bytes=9000-"]
    assert run.advanced == len(BODY) - 9000


def test_a_finished_part_needs_no_request(tmp_path: Path) -> None:
    run = Run(tmp_path / "part", serve)
    run.part.write_bytes(BODY)
    run()
    assert run.ranges == []


def test_retries_are_bounded_and_what_arrived_is_kept(tmp_path: Path) -> None:
    run = Run(tmp_path / "part", lambda request: serve(request, cut_after=100))
    with pytest.raises(FetchError) as caught:
        run()
    assert caught.value.reason == "interrupted"
    assert run.waits == [1.0, 2.0, 3.0]
    assert run.part.read_bytes() == BODY[:400]


def test_a_server_without_ranges_sends_it_all_again(tmp_path: Path) -> None:
    def whole(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=httpx2.ByteStream(BODY))

    run = Run(tmp_path / "part", whole)
    run.part.write_bytes(b"x" * 700)
    run()
    assert run.part.read_bytes() == BODY
    assert run.advanced == len(BODY) - 700


def test_a_refused_range_begins_again(tmp_path: Path) -> None:
    def refuse_ranges(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(416) if "Range" in request.headers else serve(request)

    run = Run(tmp_path / "part", refuse_ranges)
    run.part.write_bytes(b"x" * 700)
    run()
    assert run.part.read_bytes() == BODY
    assert run.ranges == ["bytes=700-", None]


def test_a_range_at_another_place_is_not_joined(tmp_path: Path) -> None:
    def elsewhere(request: httpx2.Request) -> httpx2.Response:
        if "Range" not in request.headers:
            return serve(request)
        return httpx2.Response(206, headers={"Content-Range": f"bytes 5-9/{len(BODY)}"}, content=BODY[5:10])

    run = Run(tmp_path / "part", elsewhere)
    run.part.write_bytes(BODY[:700])
    run()
    assert run.part.read_bytes() == BODY


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_busy_server_is_asked_again(tmp_path: Path, code: int) -> None:
    answers = [httpx2.Response(code), httpx2.Response(code)]
    run = Run(tmp_path / "part", lambda request: answers.pop() if answers else serve(request))
    run()
    assert run.part.read_bytes() == BODY
    assert len(run.ranges) == 3


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_final(tmp_path: Path, code: int) -> None:
    run = Run(tmp_path / "part", lambda request: httpx2.Response(code))
    with pytest.raises(FetchError) as caught:
        run()
    assert caught.value.reason == "refused"
    assert len(run.ranges) == 1
    assert not run.part.exists()


def test_a_login_page_in_place_of_the_file_is_noticed_before_it_is_read(tmp_path: Path) -> None:
    run = Run(tmp_path / "part", lambda request: httpx2.Response(200, content="<html>ログイン</html>".encode()))
    with pytest.raises(FetchError) as caught:
        run()
    assert caught.value.reason == "wrong_size"
    assert not run.part.exists()


def test_an_endless_body_is_stopped_at_the_expected_size(tmp_path: Path) -> None:
    def endless(request: httpx2.Request) -> httpx2.Response:
        def body() -> Iterator[bytes]:
            while True:
                yield BODY

        return httpx2.Response(200, content=body())

    run = Run(tmp_path / "part", endless)
    with pytest.raises(FetchError) as caught:
        run()
    assert caught.value.reason == "wrong_size"
    assert not run.part.exists()
    assert run.advanced == 0


def test_no_connection_at_all_is_unreachable(tmp_path: Path) -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route")

    run = Run(tmp_path / "part", fail)
    with pytest.raises(FetchError) as caught:
        run()
    assert caught.value.reason == "unreachable"
    assert len(run.ranges) == 4


def test_a_bad_certificate_is_not_tried_twice(tmp_path: Path) -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("certificate") from ssl.SSLCertVerificationError("self-signed")

    run = Run(tmp_path / "part", fail)
    with pytest.raises(FetchError) as caught:
        run()
    assert caught.value.reason == "unreachable"
    assert len(run.ranges) == 1


def test_a_file_url_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "重み file.bin"
    source.write_bytes(BODY)
    run = Run(tmp_path / "part", serve)
    run(source.as_uri())
    assert run.part.read_bytes() == BODY
    assert run.ranges == []


def test_a_missing_file_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FetchError) as caught:
        Run(tmp_path / "part", serve)((tmp_path / "nothing").as_uri())
    assert caught.value.reason == "refused"


def test_slow_steady_progress_never_runs_out_of_attempts(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("server.engines.fetch._PROGRESS_THAT_COUNTS_BYTES", 100)
    run = Run(tmp_path / "part", lambda request: serve(request, cut_after=700), attempts=2)
    run()
    assert run.part.read_bytes() == BODY
    assert set(run.waits) == {1.0}
