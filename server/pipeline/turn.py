"""The controller of turns: one call takes one open turn to its end, whatever happens on the way.

Two promises. The user's words are stored before any reply is made. A model that fails becomes an apology and a stored
error, never silence and never a lost word. What the stages are is `run.py`'s matter.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from server.engines.base import Engines
from server.errors import StackChanError, StorageError
from server.events import TurnEnded
from server.memory.worker import TurnGate
from server.persona import Persona
from server.pipeline.bounded import bounded
from server.pipeline.clips import VoiceClips
from server.pipeline.parts import AfterTurn, Emit, HotWords, Journal, KeepRecording, TurnSettings
from server.pipeline.request import OpenTurn, TurnError, TurnObserver, TurnRequest, TurnResult
from server.pipeline.run import TurnRun
from server.pipeline.thinking import Thinker
from server.pipeline.tool_loop import Tool
from server.pipeline.trace import TurnTrace

__all__ = ["Emit", "Journal", "TurnController", "TurnSettings"]

_log = logging.getLogger(__name__)

FOLLOWING_SECONDS = 60.0
"""What follows a turn is given up after this; it holds nobody, but should not be there for ever."""


class TurnController:
    """Runs turns, one call of `run` each; holds nothing of them but what still follows their ends."""

    def __init__(
        self,
        engines: Engines,
        persona: Persona,
        journal: Journal,
        settings: TurnSettings,
        *,
        clock: Callable[[], datetime],
        tools: Sequence[Tool] = (),
        observers: Sequence[TurnObserver] = (),
        clips: VoiceClips | None = None,
        keep_recording: KeepRecording | None = None,
        hot_words: HotWords | None = None,
        gate: TurnGate | None = None,
        after_turn: AfterTurn | None = None,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.settings = settings
        self._engines = engines
        self._persona = persona
        self._journal = journal
        self._clock = clock
        self._observers = tuple(observers)
        self._clips = clips or VoiceClips()
        self._keep_recording = keep_recording
        self._hot_words = hot_words
        self._gate = gate or TurnGate()
        self._after_turn = after_turn
        self._following: set[asyncio.Task[None]] = set()
        self._monotonic = monotonic
        self.thinker = Thinker(engines.llm, persona, settings, tuple(tools))

    async def run(self, turn: OpenTurn, request: TurnRequest, emit: Emit, trace: TurnTrace | None = None) -> TurnResult:
        """Take one open turn to its end and return what the device gets.

        `trace`: begun when the request was received, by whoever received it; None: the turn begins now.
        Engine failures end in the result; only `StorageError` (the words could not be kept) and cancellation leave
        here as exceptions. What follows a turn goes on beside what comes next; `close` waits for it.
        """
        with self._gate.turn():
            result = await self._run(turn, request, emit, trace)
        # Behind the gate: what follows may use what waits for turns. As a task: the device's answer is made of the
        # result, and does not wait for it.
        if self._after_turn is not None:
            following = asyncio.create_task(self._follow(self._after_turn, turn, result), name=f"after-{turn.turn_id}")
            self._following.add(following)
            following.add_done_callback(self._following.discard)
        return result

    async def close(self, grace_seconds: float) -> None:
        """Wait for what follows turns that have ended; what takes longer is cut off."""
        if self._following:
            _, pending = await asyncio.wait(self._following, timeout=grace_seconds)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _follow(self, after_turn: AfterTurn, turn: OpenTurn, result: TurnResult) -> None:
        try:
            await bounded(_done(after_turn, turn, result), FOLLOWING_SECONDS)
        except TimeoutError:
            _log.error("what follows a turn took longer than %g s", FOLLOWING_SECONDS)
        except Exception as error:  # the turn is over; what follows must not undo that
            _log.error("what follows a turn failed", exc_info=error)

    async def _run(self, turn: OpenTurn, request: TurnRequest, emit: Emit, trace: TurnTrace | None) -> TurnResult:
        trace = trace or TurnTrace(self._monotonic)
        run = TurnRun(
            self._engines,
            self._persona,
            self._journal,
            self.settings,
            self.thinker,
            turn=turn,
            request=request,
            trace=trace,
            clock=self._clock,
            emit=emit,
            clips=self._clips,
            keep_recording=self._keep_recording,
            hot_words=self._hot_words,
        )
        try:
            result = await run.stages()
        except (StorageError, asyncio.CancelledError):
            raise
        except StackChanError as error:
            result = await run.apologize(error)
        except Exception as error:  # a defect: the turn still ends, is stored, and says so
            _log.exception("the turn failed on a defect")
            result = await run.apologize(StackChanError(f"{type(error).__name__} in the turn.", code="internal"))
        trace.mark("done")
        result = replace(result, latency_ms=trace.latency_ms())
        await self._journal.ended(turn, result, trace.as_dict(), self._clock())
        self._tell(request, result, trace)
        await run.device.move("idle")
        await run.device.emit(TurnEnded(turn.turn_id, result.outcome or "failed"))
        return result

    def torn(self, turn: OpenTurn, request: TurnRequest, error: StackChanError, trace: TurnTrace) -> None:
        """Tell the observers of a turn that was not taken to its end, unless they know of it."""
        if trace.told:
            return
        result = TurnResult(
            turn_id=turn.turn_id,
            session_id=turn.session_id,
            status="failed",
            outcome="failed",
            latency_ms=trace.latency_ms(),
            error=TurnError(error.code, error.message, error.retryable),
        )
        self._tell(request, result, trace)

    def _tell(self, request: TurnRequest, result: TurnResult, trace: TurnTrace) -> None:
        trace.told = True
        facts = trace.as_dict()
        for observe in self._observers:
            try:
                observe(request, result, facts)
            except Exception as error:  # the turn is over; who looks on must not undo that
                _log.error("an observer of turns failed", exc_info=error)


async def _done(after_turn: AfterTurn, turn: OpenTurn, result: TurnResult) -> None:
    await after_turn(turn, result)
