"""Long-term memory as a running server gives it to its owner, over HTTP.

Every method is one request and returns the server's own JSON. Knows no terminal; `memory_local.py` does the same where
no server runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from server.commands.client import ServerClient
from server.commands.failures import RefusedError
from server.errors import StackChanError

Answer = dict[str, Any]
Wanted = dict[str, str | int]
"""What a search asks for, by the names of `GET /v1/memories`."""
Progress = Callable[[int, int], None]
"""Told how many are done, of how many."""
_POLL_SECONDS = 0.3


class RemoteMemory:
    """`client`: of the running server, with its owner's token; closed with this."""

    def __init__(self, client: ServerClient, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.__exit__(kind, error, trace)

    def status(self) -> Answer:
        return self._client.call("GET", "/v1/memory/status")

    def find(self, wanted: Wanted) -> Answer:
        """Ranked with a `query` in `wanted`, else newest first."""
        return self._client.call("GET", "/v1/memories", params=wanted)

    def read(self, memory_id: str) -> Answer:
        """One memory with its exact source turns and its versions."""
        return self._client.call("GET", _path(memory_id))

    def edit(self, memory_id: str, changes: Mapping[str, Any]) -> Answer:
        return self._client.call("PATCH", _path(memory_id), body=json.dumps(changes).encode())

    def would_forget(self, memory_id: str, *, also_source: bool) -> Answer:
        """What `forget` would take; changes nothing."""
        return self._client.call("GET", f"{_path(memory_id)}/forgetting", params=_forgetting(also_source))

    def forget(self, memory_id: str, *, also_source: bool) -> Answer:
        return self._client.call("DELETE", _path(memory_id), params=_forgetting(also_source))

    def export(self) -> AbstractContextManager[Iterator[bytes]]:
        """JSON Lines, piece by piece."""
        return self._client.download("/v1/memory/export")

    def import_lines(self, lines: bytes) -> Answer:
        return self._client.call("POST", "/v1/memory/import", body=lines, content_type="application/x-ndjson")

    def rebuild(self, progress: Progress) -> Answer:
        """Wait until all vectors are made anew; one that runs already is followed. Raises what it failed with."""
        try:
            self._client.call("POST", "/v1/memory/rebuild")
        except RefusedError as error:
            if error.code != "rebuild_running":
                raise
        while True:
            state = self._client.call("GET", "/v1/memory/rebuild")
            progress(int(state.get("done") or 0), int(state.get("total") or 0))
            if state.get("state") != "running":
                break
            self._sleep(_POLL_SECONDS)
        if failure := state.get("error"):
            raise _told(failure)
        return state

    def retry(self) -> Answer:
        return self._client.call("POST", "/v1/memory/retry")

    def audit(self, sample: int) -> Answer:
        return self._client.call("GET", "/v1/memory/audit", params={"sample": sample})

    def backup(self) -> AbstractContextManager[Iterator[bytes]]:
        """A tar, piece by piece."""
        return self._client.download("/v1/backup")


def _path(memory_id: str) -> str:
    return f"/v1/memories/{quote(memory_id, safe='')}"


def _forgetting(also_source: bool) -> dict[str, str | int]:
    return {"also_source": "true" if also_source else "false"}


def _told(error: object) -> StackChanError:
    """The error inside an answer, as the server tells it."""
    if isinstance(error, Mapping):
        return StackChanError(
            str(error.get("message") or error.get("code")), code=error.get("code"), hint=error.get("hint") or None
        )
    return StackChanError(f"The rebuild failed: {error}", code="rebuild_failed")
