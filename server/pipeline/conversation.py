"""One device's live conversation: what it hears becomes turns, and a turn under way may be ended by a word.

Owns the device's state between turns, the open ears, what is done ahead of an utterance's end, and interruption. Its
methods are called one at a time, in the order in which things arrive; each returns soon. Knows no wire format and no
socket: what the device gets goes to a `ConversationOut`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from server.errors import AuthError, BusyError, StackChanError
from server.events import Samples, StateChanged, TurnEvent, TurnState
from server.log_context import error_fields
from server.pipeline.ahead import Ahead
from server.pipeline.announcing import Announcer, Announcing
from server.pipeline.foresight import Foresight
from server.pipeline.live import LiveTurn, Playback
from server.pipeline.live_listener import ListenMode, LiveListener, Said
from server.pipeline.progress import StartedTurn, stopping
from server.pipeline.request import OpenTurn, TurnRequest, TurnResult
from server.pipeline.runner import TurnRunner
from server.pipeline.speech_ahead import HeldAnswer
from server.pipeline.state import StateMachine

_log = logging.getLogger(__name__)

_LAST_STEPS_SECONDS = 5.0
_NOTHING_COMES_SECONDS = 3.0
"""A microphone from which nothing has come for so long is one at which nobody speaks, whatever was said last."""


@dataclass(frozen=True, slots=True)
class ConversationSettings:
    """What a conversation does about the robot's own voice. Times in seconds."""

    guard_seconds: float = 0.5
    """After it, a microphone without echo cancellation is not believed for so long."""
    interrupting_speech_seconds: float = 0.5
    """So much speech ends it; less is a nod of the voice."""


class ConversationOut(Protocol):
    """The way to the device. Nothing here may raise or wait for a slow device."""

    async def emit(self, event: TurnEvent) -> None:
        """What a turn shows and says; states come by `show` instead."""

    async def show(self, state: TurnState) -> None: ...

    def show_words(self, text: str) -> None:
        """What is being said, as far as it is heard; it may still change, and there need not come a turn of it."""

    async def tell(self, result: TurnResult) -> None:
        """A turn has ended."""

    async def complain(self, error: StackChanError) -> None: ...

    async def admit(self) -> None:
        """Raises `AuthError` when the device may not speak any more, `StorageError` when that cannot be told."""

    def playback(self) -> Playback:
        """For the turn that begins now."""

    def hush(self) -> None:
        """Drop all sound that has not been played, at once."""


class Conversation:
    """`device`: who is in it, without words. `echo_cancel`: its microphone does not hear its own voice."""

    def __init__(
        self,
        device: TurnRequest,
        out: ConversationOut,
        runner: TurnRunner,
        listener: LiveListener,
        foresight: Foresight,
        settings: ConversationSettings,
        announcer: Announcer,
        *,
        echo_cancel: bool,
        monotonic: Callable[[], float],
    ) -> None:
        self._device = device
        self._out = out
        self._runner = runner
        self._listener = listener
        self._foresight = foresight
        self._settings = settings
        self._echo_cancel = echo_cancel
        self._monotonic = monotonic
        self._state = StateMachine()
        self._mode: ListenMode | None = None
        """None: the microphone is shut."""
        self._expected: OpenTurn | None = None
        self._live: LiveTurn | None = None
        """Of the turn that runs, from the moment the device is shown that there will be one."""
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._following: asyncio.Task[None] | None = None
        self._deaf_until = 0.0
        self._heard_at = 0.0  # when something came of the microphone, or of the finger that opens it
        self._is_deaf = False  # hearing has failed, and the device was told
        self._is_over = False
        self.announcing = Announcing(self, out, announcer)
        listener.on_words = out.show_words

    @property
    def state(self) -> TurnState:
        return self._state.state

    @property
    def in_turn(self) -> bool:
        return self._live is not None

    async def begin(self) -> str:
        """Open or find the conversation's session and return its id. Raises `AuthError`, `StorageError`."""
        self._expected = await self._foresight.expect(self._device)
        return self._expected.session_id

    # --- what the device does ---

    async def listen(self, mode: ListenMode) -> None:
        """The microphone is open from now on. Raises `VadError`."""
        self._mode, self._heard_at = mode, self._monotonic()
        if mode == "manual":  # a press; the others may come by themselves
            self.announcing.attend()
            await self.announcing.over()
        if not self.in_turn and not self.announcing.is_audible:
            await self._listener.open()
            await self._move("listening")

    async def stop_listening(self) -> None:
        """The microphone is shut; what was being said ends here and is answered."""
        mode, self._mode = self._mode, None
        said = None if mode is None or self._is_speaking else await self._listener.finish(mode)
        if said is not None and len(said.samples):
            await self._ended(said)
        elif not self.in_turn and not self.announcing.is_audible:
            await self._listener.shut()
            await self._move("idle")

    async def hear(self, samples: Samples) -> None:
        """Take microphone sound: float32 mono at 16 kHz, any length. Sound that is not listened to is dropped."""
        self._heard_at = self._monotonic()
        if not self.listens:
            await self._listener.shut()
            return
        assert self._mode is not None
        try:
            if not self._listener.is_open:
                await self._listener.open()
            said = await self._listener.hear(samples, self._mode, None if self.in_turn else self._expected)
        except StackChanError as error:
            await self._listener.shut()
            was_deaf, self._is_deaf = self._is_deaf, True
            if not was_deaf:  # each frame of sound will fail, fifty a second
                await self._out.complain(error)
            return
        self._is_deaf = False
        self.announcing.stir()
        if self._is_speaking and self._listener.speech_seconds >= self._settings.interrupting_speech_seconds:
            self.interrupt("speech")
        for utterance in said:
            await self._ended(utterance)

    def interrupt(self, reason: str) -> None:
        """Be silent now; the turn that runs ends with what was played of it."""
        if not self._is_over:
            self.announcing.attend()
        if self._live is not None and not self._live.interrupted.is_set():
            self._out.hush()
            if self.state == "speaking":
                self._deaf_until = self._monotonic() + self._settings.guard_seconds
            self._live.interrupt(reason)

    async def abort(self, reason: str) -> None:
        """As `interrupt`; with nothing to end, what is being said is not listened to any more."""
        is_speaking = self.in_turn or self.announcing.is_audible
        self.interrupt(reason)
        if not is_speaking:
            self._mode = None
            await self._listener.shut()
            await self._move("idle")

    async def close(self) -> None:
        """The device is gone. A turn that runs goes to its end."""
        self._mode = None
        self.announcing.leave()
        await self._listener.shut()

    async def end(self, reason: str) -> None:
        """Nobody comes back to it: a turn that runs is interrupted, and none begins. Returns when it has ended."""
        self._is_over = True
        await self.close()
        self.interrupt(reason)
        await self.settled(_LAST_STEPS_SECONDS)

    # --- unasked ---

    @property
    def is_quiet(self) -> bool:
        """Nobody speaks, and no turn runs, uploaded or live. A finger on the button is about to."""
        uploaded = self._runner.is_in_turn(self._device.device_id)
        if uploaded or self._live is not None or self.state not in ("idle", "listening"):
            return False
        speaks = self._mode == "manual" or self._listener.speech_seconds
        return not speaks or self._monotonic() - self._heard_at >= _NOTHING_COMES_SECONDS

    async def begin_announcement(self) -> None:
        if self._mode != "manual":
            await self._listener.shut()  # half a word, after which nothing has come
        await self._move("idle")
        await self._move("speaking")

    async def end_announcement(self) -> None:
        self._deaf_until = self._monotonic() + self._settings.guard_seconds
        await self._rest()

    # --- turns ---

    @property
    def listens(self) -> bool:
        """Whether sound that comes now is heard."""
        if self._mode is None:
            return False
        if self._is_speaking:
            return self._listens_while_speaking
        # Who presses means to speak, and has made it silent.
        return self._echo_cancel or self._mode == "manual" or self._monotonic() >= self._deaf_until

    @property
    def _is_speaking(self) -> bool:
        """A turn runs or something is announced, and nobody has ended it."""
        in_turn = self._live is not None and not self._live.interrupted.is_set()
        return in_turn or self.announcing.is_audible

    @property
    def _listens_while_speaking(self) -> bool:
        return self._echo_cancel and self._mode == "realtime"

    async def _ended(self, said: Said) -> None:
        """An utterance is over. During a turn it counts only when it was enough to interrupt it."""
        if self._live is not None:
            if not self._live.interrupted.is_set():
                return await _give_up(said.ahead)
            await self.settled(_LAST_STEPS_SECONDS)
        if self._mode == "manual":
            self._mode = None  # one press, one utterance
        if not self._listens_while_speaking:
            await self._listener.shut()
        said.trace.mark("endpoint")
        await self._begin_turn(said, said.ahead)

    async def _begin_turn(self, said: Said, ahead: Ahead | None) -> None:
        """Begin a turn, or tell the device why there is no place for it. Raises `AuthError`: it may not speak."""
        request = replace(self._device, samples=said.samples, heard_early=None if ahead is None else ahead.heard)
        self.announcing.attend()
        await self.announcing.over()
        await self._move("listening")
        await self._move("thinking")
        live = self._live = LiveTurn(self._out.playback(), too_long=said.too_long)
        live.held = ahead.keep() if ahead is not None else None
        self._at_rest.clear()
        try:
            if self._is_over:
                raise stopping()
            with self._runner.admit(request.device_id) as admission:
                await self._out.admit()
                admission.trace = said.trace
                started = await self._runner.start(admission, replace(request, live=live), self._pass_on)
        except BaseException as error:
            self._live = None
            self._at_rest.set()
            await _give_up(ahead, live.held)
            if isinstance(error, AuthError) or not isinstance(error, StackChanError):
                raise
            _log_unless_busy(error)
            await self._out.complain(error)
            return await self._rest()
        self._following = asyncio.create_task(self._follow(started), name=f"live-{started.turn.turn_id}")
        self._following.add_done_callback(lambda task: self._at_rest.set())

    async def _follow(self, started: StartedTurn) -> None:
        """Wait for the turn's end and go on from there."""
        try:
            result = await started.result()
        except StackChanError as error:
            await self._out.complain(error)
        else:
            if result.speech_duration_ms:
                self._deaf_until = self._monotonic() + self._settings.guard_seconds
            await self._out.tell(result)
        self._expected = replace(started.turn, turn_id=0, heard=None)
        self._live = None
        await self._rest()

    async def _rest(self) -> None:
        """No turn runs: listen where the microphone is open."""
        await self._move("idle" if self._mode is None else "listening")

    async def settled(self, seconds: float | None = None) -> None:
        """Return when no turn runs any more, or after `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._at_rest.wait(), seconds)

    async def _pass_on(self, event: TurnEvent) -> None:
        if not isinstance(event, StateChanged):
            await self._out.emit(event)
        elif event.state not in ("listening", "idle"):  # where a turn begins and ends is the conversation's to show
            await self._move(event.state)

    async def _move(self, state: TurnState) -> None:
        if self._state.move(state):
            await self._out.show(state)
        self.announcing.stir()


async def _give_up(ahead: Ahead | None, held: HeldAnswer | None = None) -> None:
    if held is not None:
        await held.drop()
    if ahead is not None:
        await ahead.drop()


def _log_unless_busy(error: StackChanError) -> None:
    if not isinstance(error, BusyError):
        _log.warning("a live turn could not begin: %s", error.code, extra=error_fields(error))
