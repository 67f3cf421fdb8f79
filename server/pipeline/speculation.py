"""A completion that was begun before it was asked for, held until it is known to be the right one.

While an endpoint is still waited for, the words may be whole already; the model may then write at once. What it writes
is only kept: nothing is shown, spoken or called. It is used by the first call of a turn that asks for exactly the same,
and is otherwise thrown away. Knows the LLM Protocol; not turns, nor when it is worth beginning.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

from server.engines.base import LlmDelta, LlmEngine, LlmRequest

MOST_HELD = 4096
"""Deltas that wait for a reader; a model that writes more is held up until somebody reads."""


class HeldCompletion:
    """One completion on its way. Begins when it is made; must end in `take` or `drop`."""

    def __init__(self, llm: LlmEngine, request: LlmRequest) -> None:
        self.request = request
        self.used = False
        """Somebody took it."""
        self._llm = llm
        self._held: deque[LlmDelta] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._task = asyncio.create_task(self._read(), name="speculation")

    async def take(self) -> AsyncGenerator[LlmDelta, None]:
        """All of it from the start, as if it were asked for now; raises what it raised. Once.

        Closing the iterator early cancels the work.
        """
        if self.used:
            raise RuntimeError("a held completion is taken once")
        self.used = True
        try:
            while True:
                while self._held:
                    delta = self._held.popleft()
                    self._room.set()
                    yield delta
                if self._task.done():
                    if not self._held:
                        self._task.result()
                        return
                    continue
                self._changed.clear()
                if not self._held and not self._task.done():
                    await self._changed.wait()
        finally:
            await self.drop()

    async def drop(self) -> None:
        """Cancel it, and return when the engine has let go. Safe to call twice."""
        self._task.cancel()
        self._room.set()
        await asyncio.gather(self._task, return_exceptions=True)
        self._held.clear()

    async def _read(self) -> None:
        try:
            async with aclosing(self._llm.generate(self.request)) as deltas:
                async for delta in deltas:
                    if len(self._held) >= MOST_HELD:
                        self._room.clear()
                        await self._room.wait()
                    self._held.append(delta)
                    self._changed.set()
        finally:
            # The task is done only after this has returned.
            asyncio.get_running_loop().call_soon(self._changed.set)
