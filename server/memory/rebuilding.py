"""A rebuild of the vectors in the background: one at a time, its progress readable, broken off at the end.

Knows neither vectors nor memories: what rebuilds comes in as a function.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from server.errors import BusyError, StackChanError
from server.memory.indexer import Progress

_log = logging.getLogger(__name__)


class Rebuilding:
    """`rebuild`: does it, and tells how far it is."""

    def __init__(self, rebuild: Callable[[Progress], Awaitable[object]]) -> None:
        self._rebuild = rebuild
        self._task: asyncio.Task[None] | None = None
        self._state: Literal["idle", "running", "done", "failed"] = "idle"
        self._done = self._total = 0
        self._error: StackChanError | None = None

    def state(self) -> dict[str, Any]:
        """`{"state": idle | running | done | failed, "done", "total", "error"}`, of this or the last one."""
        error = None if self._error is None else told(self._error)
        return {"state": self._state, "done": self._done, "total": self._total, "error": error}

    def start(self) -> None:
        """Begin. Raises `BusyError` (`rebuild_running`)."""
        if self._task is not None and not self._task.done():
            raise BusyError(
                "The vectors are being made anew already.", code="rebuild_running", hint="GET /v1/memory/rebuild"
            )
        self._state, self._done, self._total, self._error = "running", 0, 0, None
        self._task = asyncio.create_task(self._run(), name="memory-rebuild")

    async def wait(self) -> None:
        """Until the one that runs is over; it has failed if `state` says so."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Break off what runs. Safe to call twice and before `start`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._rebuild(self._tell)
        except asyncio.CancelledError:
            self._state = "failed"
            self._error = StackChanError("The server went down before the end.", code="stopping", retryable=True)
            raise
        except StackChanError as error:
            _log.error("the rebuild failed: %s", error.code)
            self._state, self._error = "failed", error
        except Exception as error:
            _log.error("the rebuild failed by a defect", exc_info=error)
            self._state = "failed"
            self._error = StackChanError("Something went wrong inside the server; its log says what.")
        else:
            self._state = "done"

    def _tell(self, done: int, total: int) -> None:
        self._done, self._total = done, total


def told(error: StackChanError) -> dict[str, Any]:
    """An error as every answer tells it."""
    return {"code": error.code, "message": error.message, "retryable": error.retryable, "hint": error.next_step}
