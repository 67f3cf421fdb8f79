"""The controller of turns: one call takes one open turn to its end, whatever happens on the way.

Two promises. The user's words are stored before any reply is made. A model that fails becomes an apology and a stored
error, never silence and never a lost word. What the stages are is `run.py`'s matter.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from server.engines.base import Engines
from server.errors import StackChanError, StorageError
from server.events import TurnEnded
from server.persona import Persona
from server.pipeline.apology_clips import ApologyClips
from server.pipeline.parts import Emit, HotWords, Journal, KeepRecording, TurnSettings
from server.pipeline.request import OpenTurn, TurnObserver, TurnRequest, TurnResult
from server.pipeline.run import TurnRun
from server.pipeline.thinking import Thinker
from server.pipeline.tool_loop import Tool
from server.pipeline.trace import TurnTrace

__all__ = ["Emit", "Journal", "TurnController", "TurnSettings"]

_log = logging.getLogger(__name__)


class TurnController:
    """Runs turns, one call of `run` each; holds no state between them."""

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
        clips: ApologyClips | None = None,
        keep_recording: KeepRecording | None = None,
        hot_words: HotWords | None = None,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.settings = settings
        self._engines = engines
        self._persona = persona
        self._journal = journal
        self._clock = clock
        self._observers = tuple(observers)
        self._clips = clips or ApologyClips()
        self._keep_recording = keep_recording
        self._hot_words = hot_words
        self._monotonic = monotonic
        self._thinker = Thinker(engines.llm, persona, settings, tuple(tools))

    async def run(self, turn: OpenTurn, request: TurnRequest, emit: Emit, trace: TurnTrace | None = None) -> TurnResult:
        """Take one open turn to its end and return what the device gets.

        `trace`: begun when the request was received, by whoever received it; None: the turn begins now.
        Engine failures end in the result; only `StorageError` (the words could not be kept) and cancellation leave
        here as exceptions.
        """
        trace = trace or TurnTrace(self._monotonic)
        run = TurnRun(
            self._engines,
            self._persona,
            self._journal,
            self.settings,
            self._thinker,
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
        stored = trace.as_dict()
        await self._journal.ended(turn, result, stored, self._clock())
        self._tell(request, result, stored)
        await run.device.move("idle")
        await run.device.emit(TurnEnded(turn.turn_id, result.outcome or "failed"))
        return result

    def _tell(self, request: TurnRequest, result: TurnResult, trace: Mapping[str, Any]) -> None:
        for observe in self._observers:
            try:
                observe(request, result, trace)
            except Exception as error:  # the turn is over; who looks on must not undo that
                _log.error("an observer of turns failed", exc_info=error)
