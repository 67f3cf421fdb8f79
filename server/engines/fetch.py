"""One URL to one file of known size: resumed where it stopped, retried a bounded number of times.

It does not know models, hubs or packages, and it proves nothing: hashes are the caller's matter.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx2

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 18
_PROGRESS_THAT_COUNTS_BYTES = 1 << 20
"""An attempt that brought this much is not a failure in a row: slow, shaky lines finish in the end."""

FetchFailure = Literal["refused", "unreachable", "interrupted", "wrong_size"]


class FetchError(Exception):
    """A file could not be fetched.

    `refused`: the server answered no (4xx); `unreachable`: no connection, name, proxy or certificate;
    `interrupted`: it kept breaking, and what arrived is kept; `wrong_size`: this URL serves some other file.
    """

    def __init__(self, reason: FetchFailure, message: str) -> None:
        super().__init__(message)
        self.reason: FetchFailure = reason


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts` failures in a row end it; waits double from `backoff_seconds` up to `backoff_limit_seconds`."""

    attempts: int = 5
    backoff_seconds: float = 1.0
    backoff_limit_seconds: float = 15.0
    sleep: Callable[[float], None] = time.sleep

    def wait_before(self, failures: int) -> float:
        """Seconds to wait after `failures` (>= 1) failures in a row."""
        return float(min(self.backoff_limit_seconds, self.backoff_seconds * 2 ** (failures - 1)))


class _Retryable(Exception):
    """This attempt failed; the next one may not."""

    def __init__(self, message: str, *, connected: bool) -> None:
        super().__init__(message)
        self.connected = connected


def fetch(
    client: httpx2.Client,
    url: str,
    part: Path,
    *,
    size_bytes: int,
    on_bytes: Callable[[int], None],
    retry: RetryPolicy | None = None,
) -> None:
    """Fetch `url` into `part` until it holds `size_bytes`, going on from the bytes it already holds.

    `on_bytes` hears new bytes (negative when the part begins again), not those already there. Raises `FetchError`;
    `OSError` when the disk refuses. The part is kept when interrupted, removed when it is another file.
    """
    policy = retry or RetryPolicy()
    if urlsplit(url).scheme == "file":
        _copy(url, part, size_bytes, on_bytes)
        return
    failures = 0
    connected = False
    while True:
        have_before = _size(part)
        if have_before == size_bytes:
            return
        try:
            _attempt(client, url, part, size_bytes, on_bytes)
            return
        except _Retryable as error:
            connected = connected or error.connected
            failures = 1 if _size(part) - have_before >= _PROGRESS_THAT_COUNTS_BYTES else failures + 1
            if failures >= policy.attempts:
                raise FetchError("interrupted" if connected else "unreachable", str(error)) from error
            wait_seconds = policy.wait_before(failures)
            log.info("download of %s stopped (%s); trying again in %.1f s", part.name, error, wait_seconds)
            policy.sleep(wait_seconds)


def _attempt(client: httpx2.Client, url: str, part: Path, size_bytes: int, on_bytes: Callable[[int], None]) -> None:
    have = _size(part)
    if have > size_bytes:
        have = _restart(part, on_bytes)
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        with client.stream("GET", url, headers=headers) as response:
            have = _check_answer(response, part, have, size_bytes, on_bytes)
            with part.open("ab", buffering=0) as stream:
                for chunk in response.iter_raw():
                    if have + len(chunk) > size_bytes:
                        _restart(part, on_bytes)
                        raise FetchError("wrong_size", f"more than the expected {size_bytes} bytes arrived")
                    _write_all(stream, chunk)
                    have += len(chunk)
                    on_bytes(len(chunk))
    except httpx2.TransportError as error:
        raise _classify(error) from error
    except (httpx2.InvalidURL, httpx2.TooManyRedirects) as error:
        raise FetchError("unreachable", str(error)) from error
    if have < size_bytes:
        raise _Retryable(f"the connection ended after {have} of {size_bytes} bytes", connected=True)


def _check_answer(
    response: httpx2.Response, part: Path, have: int, size_bytes: int, on_bytes: Callable[[int], None]
) -> int:
    """The offset the body starts at, with the part cut to fit it; raises when this answer cannot be used."""
    code = response.status_code
    if code == 416:
        _restart(part, on_bytes)
        raise _Retryable("the server cannot continue the part", connected=True)
    if code in (408, 425, 429) or code >= 500:
        raise _Retryable(f"the server answered {code}", connected=True)
    if code not in (200, 206):
        raise FetchError("refused", f"the server answered {code}")
    if code == 200:
        if have:
            _restart(part, on_bytes)
        total = response.headers.get("Content-Length")
        _check_total(int(total) if total and total.isdigit() else None, size_bytes)
        return 0
    answered = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if answered is None or int(answered[1]) != have:
        _restart(part, on_bytes)
        raise _Retryable("the server continued at another place than asked", connected=True)
    try:
        _check_total(None if answered[2] == "*" else int(answered[2]), size_bytes)
    except FetchError:
        _restart(part, on_bytes)
        raise
    return have


def _check_total(total_bytes: int | None, size_bytes: int) -> None:
    if total_bytes is not None and total_bytes != size_bytes:
        raise FetchError("wrong_size", f"the server offers {total_bytes} bytes in place of {size_bytes}")


def _classify(error: httpx2.TransportError) -> Exception:
    """Once, here: what a transport failure means."""
    message = str(error) or type(error).__name__
    if isinstance(error, httpx2.UnsupportedProtocol) or _has_certificate_error(error):
        return FetchError("unreachable", message)
    before_connection = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError)
    return _Retryable(message, connected=not before_connection)


def _has_certificate_error(error: BaseException | None) -> bool:
    """Trying again does not change a certificate."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _copy(url: str, part: Path, size_bytes: int, on_bytes: Callable[[int], None]) -> None:
    source = Path(url2pathname(urlsplit(url).path))
    try:
        found_bytes = source.stat().st_size
    except OSError as error:
        raise FetchError("refused", f"{source}: {error.strerror}") from error
    if found_bytes != size_bytes:
        raise FetchError("wrong_size", f"{source} has {found_bytes} bytes in place of {size_bytes}")
    _restart(part, on_bytes)
    with source.open("rb") as reader, part.open("wb", buffering=0) as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            _write_all(writer, chunk)
            on_bytes(len(chunk))


def _write_all(stream: FileIO, data: bytes) -> None:
    """Unbuffered, so that a part never claims bytes that a full disk refused."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


def _restart(part: Path, on_bytes: Callable[[int], None]) -> int:
    had = _size(part)
    part.unlink(missing_ok=True)
    if had:
        on_bytes(-had)
    return 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
