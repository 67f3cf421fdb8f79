"""The model hub as a source of files: is it there, does it hold the pinned file, under which URL.

Hubs are often slow, blocked or switched off, so it is asked once with one short deadline and then left alone for the
rest of the pull. `HF_ENDPOINT` and `HF_HUB_OFFLINE` are obeyed; no token is sent, since only public files are listed.
This module does not download or write anything.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2

from server.engines.catalogue import HubFile, ModelFile

log = logging.getLogger(__name__)

T = TypeVar("T")

_RENAMES_FOLLOWED = 3


class HubMiss(Exception):
    """The hub cannot serve this file; the text says why. Another source may."""


class Hub:
    """One pull's view of the hub. `down_reason` is set from the first time it did not answer."""

    def __init__(self, timeout_seconds: float) -> None:
        self.down_reason: str | None = "HF_HUB_OFFLINE is set" if is_offline() else None
        self._timeout_seconds = timeout_seconds

    def locate(self, file: ModelFile) -> str:
        """The URL that serves exactly `file`. Raises `HubMiss`; after an unanswered call it does not ask again."""
        if file.hub is None:
            raise HubMiss(f"{file.name} is not on the hub")
        if self.down_reason is not None:
            raise HubMiss(self.down_reason)
        try:
            url = _url(file.hub)
            code, etag, size_bytes = _within(self._timeout_seconds, lambda: _ask(url, self._timeout_seconds))
        except TimeoutError as error:
            self.down_reason = f"the model hub did not answer within {self._timeout_seconds:g} s"
            raise HubMiss(self.down_reason) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            self.down_reason = f"the model hub cannot be reached ({str(error) or type(error).__name__})"
            raise HubMiss(self.down_reason) from error
        if code >= 500 or code == 429:
            self.down_reason = f"the model hub answered {code}"
            raise HubMiss(self.down_reason)
        if code >= 400:
            raise HubMiss(f"the model hub does not serve {file.hub.repo} {file.hub.file} here (it answered {code})")
        _compare(file, etag, size_bytes)
        return url

    def gave_up(self, reason: str) -> None:
        """A download from it broke for good: do not try it again in this pull."""
        self.down_reason = reason


def _url(hub: HubFile) -> str:
    # Imported here: it takes a while, and most starts never pull.
    from huggingface_hub import constants, hf_hub_url

    endpoint = os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")
    return hf_hub_url(hub.repo, hub.file, revision=hub.revision, endpoint=endpoint)


def _ask(url: str, timeout_seconds: float) -> tuple[int, str | None, int | None]:
    """Status, entity tag and size of a hub file.

    Not `get_hf_file_metadata`: it also calls another endpoint and tells the hub what runs here. Redirects inside the
    hub are renamed repositories and are followed; one to another host is the storage, and the answer is complete.
    """
    with httpx2.Client(timeout=timeout_seconds) as client:
        for _ in range(_RENAMES_FOLLOWED):
            response = client.head(url, headers={"Accept-Encoding": "identity"})
            location = urlsplit(response.headers.get("Location", ""))
            if not response.is_redirect or location.netloc:
                break
            url = urljoin(url, location.geturl())
    headers = response.headers
    etag = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
    size = headers.get("X-Linked-Size") or ("" if response.is_redirect else headers.get("Content-Length")) or ""
    return response.status_code, etag.removeprefix("W/").strip('"') or None, int(size) if size.isdigit() else None


def _compare(file: ModelFile, etag: str | None, size_bytes: int | None) -> None:
    """Large files carry their SHA-256 as entity tag, so a different file is known before a byte is fetched."""
    if etag is not None and re.fullmatch(r"[0-9a-f]{64}", etag) and etag != file.sha256:
        raise HubMiss(f"the hub's {file.name} has another SHA-256 than the pinned one")
    if size_bytes is not None and size_bytes != file.size_bytes:
        raise HubMiss(f"the hub's {file.name} has {size_bytes} bytes in place of {file.size_bytes}")


def is_offline() -> bool:
    """Whether the hub is switched off for every program of this environment."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Run `work` with a real deadline. Raises what it raises, or `TimeoutError`.

    A connect time-out alone is no deadline: name look-up has none, and each address of the name gets a new one. The
    thread is a daemon and is left to end by itself.
    """
    outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((work(), None))
        except BaseException as error:  # handed to the caller, whatever it is
            outcome.put((None, error))

    threading.Thread(target=run, name="hub-probe", daemon=True).start()
    try:
        value, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # None only when `work` returns None
