"""Starts turns and keeps them: one a device, a few at a time, the rest in line; finished even when nobody waits.

A device is admitted before its upload is read, so that nobody sends four megabytes to be refused. Connects a turn's
voice to the speech store. Knows no wire format; what a device sends and gets is `devices`' matter.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType

from server.errors import BusyError, OverloadError, StackChanError, StorageError
from server.events import SpeechProduced, TurnEvent, TurnStatus
from server.log_context import bind_turn, error_fields
from server.pipeline.journal import StoredTurn, TurnJournal
from server.pipeline.progress import Progress, StartedTurn, stopping
from server.pipeline.request import OpenTurn, TurnRequest, TurnResult
from server.pipeline.slots import Claim, Slots
from server.pipeline.trace import TurnTrace
from server.pipeline.turn import Emit, TurnController
from server.storage.speech import SpeechStore

__all__ = ["Admission", "StartedTurn", "TurnRunner", "stopping"]

_log = logging.getLogger(__name__)

_MOST_EXPECTED_BACK = 1000
_LAST_STEPS_SECONDS = 5.0


class Admission:
    """A device's place, from before its upload until its turn is over. Leaving the block without a turn frees it."""

    def __init__(self, runner: TurnRunner, device_id: str, idempotency_key: str | None) -> None:
        self._runner = runner
        self.device_id = device_id
        self.idempotency_key = idempotency_key
        self.started = False
        self.stored = False
        self.only_plays = False
        """The turn needs no model any more."""
        self.trace: TurnTrace | None = None

    def __enter__(self) -> Admission:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.started:
            self._runner.release(self)

    def received(self) -> None:
        """The upload has come in whole: the turn's times count from here, not from how fast the network was."""
        self.trace = self._runner.new_trace()


class TurnRunner:
    """Owns the turns of one process that are uploaded, wait, or run."""

    def __init__(
        self,
        controller: TurnController,
        journal: TurnJournal,
        speech: SpeechStore,
        *,
        running_turns: int,
        queued_turns: int,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._controller = controller
        self._journal = journal
        self._speech = speech
        self._capacity = running_turns + queued_turns
        self._slots = Slots(running_turns, monotonic)
        self._clock = clock
        self._monotonic = monotonic
        self._places: dict[str, Admission] = {}
        self._sent_away: dict[str, float] = {}
        self._plays_until: dict[str, float] = {}
        self._opening: dict[int, asyncio.Future[StartedTurn]] = {}
        self._live: dict[int, StartedTurn] = {}
        self._tasks: set[asyncio.Task[TurnResult]] = set()
        self._closing = False
        self._close: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """Turns that use the models."""
        return self._slots.held

    @property
    def queued(self) -> int:
        """Turns that wait for them."""
        return self._slots.waiting

    def is_in_turn(self, device_id: str) -> bool:
        """Whether a turn of this device is uploaded, waits or runs, or an uploaded one is being listened to."""
        return device_id in self._places or self._monotonic() < self._plays_until.get(device_id, 0.0)

    def new_trace(self, received_seconds_ago: float = 0.0) -> TurnTrace:
        return TurnTrace(self._monotonic, received_seconds_ago)

    def admit(self, device_id: str, idempotency_key: str | None = None) -> Admission:
        """Reserve a place for a device's next turn; use it as a `with` block around the upload and `start`.

        Raises `BusyError` while this device is in a turn or uploads one (`idempotency_in_progress`: the same one),
        `OverloadError` when every place is taken.
        """
        if self._closing:
            raise stopping()
        held = self._places.get(device_id)
        if held is not None:
            if idempotency_key is not None and held.idempotency_key == idempotency_key and not held.stored:
                raise BusyError(
                    "This request is being sent already.",
                    code="idempotency_in_progress",
                    hint="Try again when the first one has arrived; it will be the same turn.",
                )
            raise BusyError(
                f"Device {device_id} is still in a turn.", hint="Send the next one when this one has ended."
            )
        # Who listens to an answer that is made holds up nobody.
        in_need = sum(not admission.only_plays for admission in self._places.values())
        if in_need >= self._capacity:
            waiting = in_need - self._slots.held
            raise OverloadError(
                f"The models are busy: {self._slots.held} turns run and {waiting} wait.",
                retry_after_seconds=self._come_back_seconds(device_id, waiting),
            )
        admission = Admission(self, device_id, idempotency_key)
        self._places[device_id] = admission
        return admission

    def _come_back_seconds(self, device_id: str, waiting: int) -> int:
        """When a place should be free for one more, after those in line and those who were sent away before.

        Told the same time, two hundred would all come back in the same second.
        """
        now = self._monotonic()
        self._sent_away = {other: until for other, until in self._sent_away.items() if until > now}
        self._sent_away.pop(device_id, None)
        seconds = self._slots.seconds_for(waiting + len(self._sent_away) + 1)
        if len(self._sent_away) < _MOST_EXPECTED_BACK:
            self._sent_away[device_id] = now + seconds
        return seconds

    def release(self, admission: Admission) -> None:
        if self._places.get(admission.device_id) is admission:
            del self._places[admission.device_id]

    async def start(self, admission: Admission, request: TurnRequest, emit: Emit | None = None) -> StartedTurn:
        """Store a new turn and set it going, or in line; returns when it is stored.

        From here on it goes to its end, whoever waits for it. Raises `StorageError`, `AuthError`, `KeyTakenError`.
        """
        if self._closing:
            raise stopping()
        # Before the first await: who asks first is served first, and two requests of a device cannot both pass.
        claim = self._slots.claim()
        admission.started = True
        opened: asyncio.Future[StartedTurn] = asyncio.get_running_loop().create_future()
        trace = admission.trace or self.new_trace()
        task = asyncio.create_task(self._take(admission, claim, request, trace, emit, opened), name="turn")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_read_outcome)
        return await asyncio.shield(opened)

    async def find(self, turn_id: int) -> StartedTurn | None:
        """A turn that has not ended, if it is one of this process."""
        opening = self._opening.get(turn_id)
        if opening is not None:
            # Others may see it in the database a moment before this process knows that it is there.
            await asyncio.wait((opening,))
        return self._live.get(turn_id)

    async def read(self, turn_id: int) -> StoredTurn | None:
        """A turn as it is stored, with what is known so far of one that still runs; None when there is none."""
        live = self._live.get(turn_id)
        stored = await self._journal.read(turn_id)
        if live is None or stored is None:
            return stored
        if stored.ended_at is not None:
            # Who sees the end may speak again at once: the device's place is free by then.
            await live.wait(_LAST_STEPS_SECONDS)
            return stored
        return replace(stored, result=live.progress.over(stored.result), speaks=live.progress.speaks)

    def ask_again_seconds(self, turn_id: int) -> int:
        """When it is worth asking for a turn that has not ended."""
        live = self._live.get(turn_id)
        if live is None or live.claim.held_since is not None:
            return 1
        return self._slots.seconds_for(self._slots.position(live.claim) + 1)

    async def _take(
        self,
        admission: Admission,
        claim: Claim,
        request: TurnRequest,
        trace: TurnTrace,
        emit: Emit | None,
        opened: asyncio.Future[StartedTurn],
    ) -> TurnResult:
        """One turn from storing it to its end. Its place, slot and speech are given back whatever happens."""
        turn_id, keep = 0, False
        try:
            # The number first: from the moment the turn can be seen, its speech can be waited for.
            turn_id = await self._journal.next_turn_id()
            bind_turn(turn_id, request.device_id)
            progress = Progress()
            self._opening[turn_id] = opened
            self._speech.begin(turn_id, self._controller.settings.speech_sample_rate_hz)
            status: TurnStatus = "queued" if claim.held_since is None else "running"
            task = asyncio.current_task()
            assert task is not None
            turn = await self._journal.begin(turn_id, request, self._clock(), status=status)
            started = StartedTurn(turn, task, claim, progress)
            self._live[turn_id] = started
            del self._opening[turn_id]
            admission.stored = True
            opened.set_result(started)
            trace.taken_in()
            if request.live is not None:
                request.live.models_free = partial(_only_plays, admission, claim)
            result = await self._run(started, status, request, trace, emit)
            keep = result.speech_duration_ms is not None
            if request.live is None and result.speech_duration_ms:
                self._plays_until[request.device_id] = self._monotonic() + result.speech_duration_ms / 1000
            return result
        except BaseException as error:
            if not opened.done():
                opened.set_exception(stopping() if isinstance(error, asyncio.CancelledError) else error)
                opened.exception()  # nobody may be waiting
            raise
        finally:
            self._opening.pop(turn_id, None)
            claim.release()
            await self._speech.end(turn_id, keep=keep)
            self._live.pop(turn_id, None)
            self.release(admission)

    async def _run(
        self, started: StartedTurn, status: TurnStatus, request: TurnRequest, trace: TurnTrace, emit: Emit | None
    ) -> TurnResult:
        turn = started.turn

        async def pass_on(event: TurnEvent) -> None:
            started.progress.take(event)
            if isinstance(event, SpeechProduced):
                await self._speech.append(turn.turn_id, event.chunk)
            if emit is not None:
                await emit(event)

        try:
            if status == "queued":
                with trace.span("queued"):
                    if request.live is None:
                        await started.claim.wait()
                    else:
                        await request.live.unless_interrupted(started.claim.wait())
                await self._journal.started(turn)
            return await self._controller.run(turn, request, pass_on, trace)
        except asyncio.CancelledError:
            await self._abandon(turn, request, stopping(), trace)
            raise
        except StackChanError as error:
            if isinstance(error, StorageError):
                _log.error("the turn could not be stored: %s", error.code, extra=error_fields(error))
            await self._abandon(turn, request, error, trace)
            raise
        except GeneratorExit:  # the loop is gone: nothing can be stored any more, the next start closes the turn
            raise
        except BaseException as error:
            _log.exception("the turn ended on a defect")
            defect = StackChanError("Something went wrong inside the server.", code="internal")
            await self._abandon(turn, request, defect, trace)
            if not isinstance(error, Exception):
                raise  # somebody wants the process to end
            raise defect from error
        finally:
            started.progress.end()

    async def _abandon(self, turn: OpenTurn, request: TurnRequest, error: StackChanError, trace: TurnTrace) -> None:
        self._controller.torn(turn, request, error, trace)
        try:
            await self._journal.abandon(turn, error, self._clock(), trace.as_dict())
        except StackChanError as again:
            _log.error("the turn stays open until something can be stored: %s", again.code, extra=error_fields(again))

    def begin_close(self, grace_seconds: float) -> None:
        """Start `close` in the background."""
        if self._close is None:
            self._close = asyncio.create_task(self.close(grace_seconds), name="stop-turns")

    async def close(self, grace_seconds: float) -> None:
        """Take no more turns; those in line end as failed, those that run may end within the grace, then are cut."""
        self._closing = True
        self._slots.close(stopping())
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=grace_seconds)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)


def _only_plays(admission: Admission, claim: Claim) -> None:
    admission.only_plays = True
    claim.release()


def _read_outcome(task: asyncio.Task[TurnResult]) -> None:
    # A turn that nobody waits for is no forgotten error: its end is stored, and was logged.
    if not task.cancelled():
        task.exception()
