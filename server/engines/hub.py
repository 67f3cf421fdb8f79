"""The model hub as a source of files: is it there, what is in a repository, under which URL is the pinned file.

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
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2

from server.engines.catalogue import HubFile, ModelFile

log = logging.getLogger(__name__)

T = TypeVar("T")

_RENAMES_FOLLOWED = 3


_LIST_PAGES_FOLLOWED = 20


class HubMiss(Exception):
    """The hub cannot serve this file; the text says why. Another source may."""


class NoSuchRepository(HubMiss):
    """The hub has none of this name, or not for everybody."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One large file of a repository. `path`: in it, with `/`."""

    path: str
    size_bytes: int
    sha256: str


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

    def large_files(self, repo: str, revision: str = "main") -> list[ListedFile]:
        """The files of a repository that are large enough to have a SHA-256 there. Raises `HubMiss`."""
        if self.down_reason is not None:
            raise HubMiss(self.down_reason)
        url = f"{_endpoint()}/api/models/{repo}/tree/{revision}?recursive=true"
        try:
            return _within(2 * self._timeout_seconds, lambda: _listed(url, repo, self._timeout_seconds))
        except TimeoutError as error:
            raise HubMiss(f"the model hub did not answer within {2 * self._timeout_seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, LookupError, TypeError) as error:
            raise HubMiss(f"the model hub cannot be reached ({str(error) or type(error).__name__})") from error

    def gave_up(self, reason: str) -> None:
        """A download from it broke for good: do not try it again in this pull."""
        self.down_reason = reason


def _url(hub: HubFile) -> str:
    # Imported here: it takes a while, and most starts never pull.
    from huggingface_hub import hf_hub_url

    return hf_hub_url(hub.repo, hub.file, revision=hub.revision, endpoint=_endpoint())


def _endpoint() -> str:
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")


def _listed(url: str, repo: str, timeout_seconds: float) -> list[ListedFile]:
    """Every page of a repository's list. Raises `HubMiss`, and what a broken list or connection raises."""
    files: list[ListedFile] = []
    with httpx2.Client(timeout=timeout_seconds, follow_redirects=True) as client:
        for _ in range(_LIST_PAGES_FOLLOWED):
            response = client.get(url)
            # A repository that is private, or is not there, looks the same to who does not log in.
            if response.status_code in (401, 403, 404):
                raise NoSuchRepository(
                    f"the model hub has no open repository {repo} (it answered {response.status_code})"
                )
            if not response.is_success:
                raise HubMiss(f"the model hub answered {response.status_code}")
            files += [file for row in response.json() if (file := _large_file(row)) is not None]
            following = response.links.get("next", {}).get("url")
            if not following:
                break
            url = urljoin(url, following)
    return files


def _large_file(row: dict[str, Any]) -> ListedFile | None:
    if row["type"] != "file" or not row.get("lfs"):
        return None
    return ListedFile(str(row["path"]), int(row["size"]), str(row["lfs"]["oid"]))


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
