"""Starts turns and keeps them: one a device, bounded in number, finished even when the device is gone.

Connects a turn's voice to the speech store. Knows no wire format; what a device sends and gets is `devices`' matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from server.errors import BusyError, OverloadError, StackChanError
from server.events import SpeechProduced, TurnEvent
from server.log_context import bind_turn, error_fields
from server.pipeline.journal import TurnJournal
from server.pipeline.request import OpenTurn, TurnRequest, TurnResult
from server.pipeline.turn import Emit, TurnController
from server.storage.speech import SpeechStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A turn on its way. Awaiting `task` gives its result; cancelling the waiter does not stop the turn."""

    turn: OpenTurn
    task: asyncio.Task[TurnResult]

    async def result(self) -> TurnResult:
        """The turn's end. Raises `StackChanError` (`stopping`) when the server stopped during it."""
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.task.cancelled():
                raise stopping() from None
            raise


def stopping() -> StackChanError:
    return StackChanError("The server is stopping.", code="stopping", retryable=True, hint="Try again in a minute.")


class TurnRunner:
    """Owns the running turns of one process."""

    def __init__(
        self,
        controller: TurnController,
        journal: TurnJournal,
        speech: SpeechStore,
        *,
        max_turns: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._controller = controller
        self._journal = journal
        self._speech = speech
        self._max_turns = max_turns
        self._clock = clock
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[TurnResult]] = set()
        self._closing = False
        self._close: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """Turns in progress."""
        return len(self._busy)

    async def start(self, request: TurnRequest, emit: Emit | None = None) -> StartedTurn:
        """Store a new turn as `running` and set it going.

        Raises `BusyError` while this device is in a turn, `OverloadError` when too many are.
        """
        if self._closing:
            raise stopping()
        if request.device_id in self._busy:
            raise BusyError(
                f"Device {request.device_id} is still in a turn.", hint="Send the next one when this one has ended."
            )
        if len(self._busy) >= self._max_turns:
            raise OverloadError(f"The models are busy with {len(self._busy)} turns already.", retry_after_seconds=3)
        # Taken before the first await, so that two requests of one device cannot both pass.
        self._busy.add(request.device_id)
        try:
            turn = await self._journal.begin(request, self._clock())
        except BaseException:
            self._busy.discard(request.device_id)
            raise
        self._speech.begin(turn.turn_id, self._controller.settings.speech_sample_rate_hz)
        task = asyncio.create_task(self._run(turn, request, emit), name=f"turn-{turn.turn_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return StartedTurn(turn, task)

    async def _run(self, turn: OpenTurn, request: TurnRequest, emit: Emit | None) -> TurnResult:
        bind_turn(turn.turn_id, turn.device_id)

        async def pass_on(event: TurnEvent) -> None:
            if isinstance(event, SpeechProduced):
                await self._speech.append(turn.turn_id, event.chunk)
            if emit is not None:
                await emit(event)

        keep = False
        try:
            result = await self._controller.run(turn, request, pass_on)
            keep = result.speech_duration_ms is not None
            return result
        except StackChanError as error:
            _log.error("the turn could not be stored: %s", error.code, extra=error_fields(error))
            with contextlib.suppress(StackChanError):
                await self._journal.abandon(turn, error, self._clock())
            raise
        finally:
            await self._speech.end(turn.turn_id, keep=keep)
            self._busy.discard(request.device_id)

    def begin_close(self, grace_seconds: float) -> None:
        """Start `close` in the background."""
        if self._close is None:
            self._close = asyncio.create_task(self.close(grace_seconds), name="stop-turns")

    async def close(self, grace_seconds: float) -> None:
        """Take no more turns; let those that run end within the grace, then cancel the rest."""
        self._closing = True
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=grace_seconds)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
