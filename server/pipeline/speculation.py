"""Work of a model that was begun before it was asked for, held until it is known to be the right one.

While an endpoint is still waited for, the words may be whole already; the model may then write at once, and the voice
speak its first clause. What comes of it is only kept: nothing is shown, played or called. It is used where a turn asks
for exactly the same, and is otherwise thrown away. Knows the LLM Protocol; not turns, nor when it is worth beginning.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from server.engines.base import LlmDelta, LlmEngine, LlmRequest, SpeechRequest
from server.events import Pcm16

MOST_HELD = 4096
"""Pieces that wait for a reader; a model that makes more is held up until somebody reads."""

Piece = TypeVar("Piece")


class Held(Generic[Piece]):
    """One stream on its way. Begins when it is made; must end in `take` or `drop`."""

    def __init__(self, stream: AsyncGenerator[Piece, None]) -> None:
        self.used = False
        """Somebody took it."""
        self._stream = stream
        self._held: deque[Piece] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._task = asyncio.create_task(self._read(), name="speculation")

    @property
    def failed(self) -> bool:
        """It has come to nothing: whoever needs it had better ask anew."""
        task = self._task
        return task.done() and not self._held and (task.cancelled() or task.exception() is not None)

    async def take(self) -> AsyncGenerator[Piece, None]:
        """All of it from the start, as if it were asked for now; raises what it raised. Once.

        Closing the iterator early cancels the work.
        """
        if self.used:
            raise RuntimeError("what is held is taken once")
        self.used = True
        try:
            while True:
                while self._held:
                    piece = self._held.popleft()
                    self._room.set()
                    yield piece
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

    def _notice(self, piece: Piece) -> None:
        """A piece has come; nobody has read it yet."""

    async def _read(self) -> None:
        try:
            async with aclosing(self._stream) as pieces:
                async for piece in pieces:
                    if len(self._held) >= MOST_HELD:
                        self._room.clear()
                        await self._room.wait()
                    self._held.append(piece)
                    self._changed.set()
                    self._notice(piece)
        finally:
            # The task is done only after this has returned.
            asyncio.get_running_loop().call_soon(self._changed.set)


class HeldCompletion(Held[LlmDelta]):
    """A completion. `notice`: told of each delta until somebody takes it; must not raise."""

    def __init__(
        self, llm: LlmEngine, request: LlmRequest, notice: Callable[[LlmDelta], None] = lambda delta: None
    ) -> None:
        self.request = request
        self._tell = notice
        super().__init__(llm.generate(request))

    def _notice(self, piece: LlmDelta) -> None:
        if not self.used:
            self._tell(piece)


class HeldSpeech(Held[Pcm16]):
    """The sound of one piece of text, int16 mono."""

    def __init__(self, request: SpeechRequest, sound: AsyncGenerator[Pcm16, None]) -> None:
        self.request = request
        super().__init__(sound)
