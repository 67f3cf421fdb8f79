"""What the robot says unasked, as that a timer is over: made into sound, and played when nobody speaks.

An announcement has a number of a turn, for the device, and is none: nothing of it is stored, and no memory is made of
it. Knows the TTS Protocol; not what is announced, and not the conversation but for a few questions to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from server.engines.base import SpeechRequest, TtsEngine
from server.errors import TtsError
from server.events import AudioChunk, Pcm16, SentenceStarted, SpeechProduced, TurnEvent
from server.pipeline.bounded import engine_work
from server.pipeline.live import Playback
from server.pipeline.speakable import speakable
from server.pipeline.speaking import synthesized

_LOOK_AGAIN_SECONDS = 1.0

Outcome = Literal["played", "attended", "gone"]
"""Heard to its end; cut off by somebody who touched the robot or spoke; the device has gone."""


class Announcer:
    """Makes the sound. `next_turn_id`: a number that no turn has."""

    def __init__(
        self, tts: TtsEngine, next_turn_id: Callable[[], Awaitable[int]], sample_rate_hz: int, timeout_seconds: float
    ) -> None:
        self.next_turn_id = next_turn_id
        self.sample_rate_hz = sample_rate_hz
        self._tts = tts
        self._timeout_seconds = timeout_seconds

    async def sound(self, text: str, language: str) -> list[Pcm16]:
        """`text` as int16 mono at `sample_rate_hz`. Raises `TtsError`, also when there is nothing to hear."""
        pieces = await engine_work(self._synthesize(text, language), self._timeout_seconds, TtsError)
        if not pieces:
            raise TtsError("The voice gave no sound for an announcement.")
        return pieces

    async def _synthesize(self, text: str, language: str) -> list[Pcm16]:
        request = SpeechRequest(speakable(text, language), language)
        return [piece async for piece in synthesized(self._tts, request, self.sample_rate_hz)]


class Room(Protocol):
    """The conversation that it is made in, as far as an announcement needs it."""

    @property
    def is_quiet(self) -> bool:
        """Nobody speaks, and no turn runs."""

    async def begin_announcement(self) -> None:
        """The robot speaks from now on."""

    async def end_announcement(self) -> None:
        """And does not any more."""


class Out(Protocol):
    """The way to the device."""

    async def emit(self, event: TurnEvent) -> None: ...
    def playback(self) -> Playback: ...
    def hush(self) -> None: ...


class Announcing:
    """The announcements of one conversation, one after another."""

    def __init__(self, room: Room, out: Out, announcer: Announcer) -> None:
        self._room = room
        self._out = out
        self._announcer = announcer
        self._one_at_a_time = asyncio.Lock()
        self._speaking = False
        self._cut: Outcome | None = None
        self._stirred = asyncio.Event()
        self._over = asyncio.Event()
        self._left = 0
        """How often the device has gone."""
        self._attention = 0
        self._attended = asyncio.Event()

    @property
    def is_audible(self) -> bool:
        """Something is being said that nobody has ended."""
        return self._speaking and self._cut is None

    # --- the conversation tells ---

    def stir(self) -> None:
        """Something has changed: it may be quiet now."""
        self._stirred.set()

    def attend(self) -> bool:
        """Somebody touches the robot or speaks to it: what it says unasked ends. Whether it said something."""
        self._attention += 1
        self._attended.set()
        return self._end("attended")

    def leave(self) -> None:
        """The device has gone."""
        self._left += 1
        self._attended.set()
        self._end("gone")

    async def over(self) -> None:
        """Return when nothing is being said any more."""
        while self._speaking:
            self._over.clear()
            await self._over.wait()

    def _end(self, outcome: Outcome) -> bool:
        audible = self.is_audible
        if audible:
            self._cut = outcome
            self._out.hush()
        self._stirred.set()
        return audible

    # --- whoever has something to say ---

    async def attended(self, seconds: float) -> bool:
        """Whether somebody turns to the robot within `seconds`; False at once when the device goes."""
        before, left = self._attention, self._left
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._attention == before and self._left == left:
                    self._attended.clear()
                    await self._attended.wait()
        return self._attention != before

    async def announce(self, text: str, language: str) -> Outcome:
        """Say it as soon as nobody speaks, and return when it was heard. Raises `TtsError`, `StorageError`."""
        left = self._left
        async with self._one_at_a_time:
            sound = await self._announcer.sound(text, language)
            turn_id = await self._announcer.next_turn_id()
            while self._left == left and not self._room.is_quiet:
                self._stirred.clear()
                # Nothing tells that nothing comes any more, nor that an uploaded turn has ended.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stirred.wait(), _LOOK_AGAIN_SECONDS)
            if self._left != left:
                return "gone"
            self._speaking, self._cut = True, None
            try:
                return await self._say(turn_id, text, sound)
            except BaseException:
                self._out.hush()
                raise
            finally:
                await self._room.end_announcement()
                self._speaking = False
                self._over.set()
                self._stirred.set()

    async def _say(self, turn_id: int, text: str, sound: list[Pcm16]) -> Outcome:
        playback = self._out.playback()
        await self._room.begin_announcement()
        await self._out.emit(SentenceStarted(turn_id, text))
        for samples in sound:
            if self._cut is None:
                await self._out.emit(SpeechProduced(turn_id, AudioChunk(samples, self._announcer.sample_rate_hz)))
        await self._played(playback)
        return self._cut or "played"

    async def _played(self, playback: Playback) -> None:
        """Until all was heard, or it was ended."""
        playing = asyncio.ensure_future(playback.played_out())
        try:
            while self._cut is None and not playing.done():
                self._stirred.clear()
                stirred = asyncio.ensure_future(self._stirred.wait())
                await asyncio.wait({playing, stirred}, return_when=asyncio.FIRST_COMPLETED)
                stirred.cancel()
                await asyncio.gather(stirred, return_exceptions=True)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
