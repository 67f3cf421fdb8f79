"""An event loop on which time passes only when nothing else can happen: an hour of waiting takes no time.

    def test_it_gives_up_after_a_minute():
        assert in_virtual_time(scenario()) == ...

`asyncio.sleep`, `timeout` and `wait` work as usual, `loop.time()` tells the virtual time. Not for code that uses
threads or sockets: while they work, time would fly.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Selector(selectors.SelectSelector):
    """Instead of waiting, moves the clock."""

    now_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing will ever happen: every task waits for another")
            self.now_seconds += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_seconds


def in_virtual_time(scenario: Coroutine[Any, Any, Result]) -> Result:
    """The result of `scenario`. Fails when it leaves a task behind."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_alone(scenario))


async def _alone(scenario: Coroutine[Any, Any, Result]) -> Result:
    result = await scenario
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks were left behind: {sorted(task.get_name() for task in left)}"
    return result
