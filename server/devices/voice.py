"""The robot's voice on its way to one device: cut into frames, sent at the pace of playing, stopped at once.

What a turn says is put in as it is made and leaves a little ahead of its playing; sentences and mouth levels go in
order with the sound they belong to. For a device that is away for a moment, what was not sent waits, and goes on with a
new start. Knows no wire format (messages go to a function) and no turn but its number.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np

from server.audio.frames import FrameCutter
from server.audio.levels import MouthLevels
from server.audio.pacing import Pacer
from server.audio.resample import StreamResampler
from server.devices.wire import AudioFormat, Levels, Sentence, SpeechFrame, SpeechStart, SpeechStop, ToDevice
from server.events import AudioChunk, Pcm16

Send = Callable[[ToDevice], Awaitable[bool]]
"""Sends to the device; False: it is not there."""

LEVEL_STEP_MS = 40
_GRACE_SECONDS = 0.3
"""A device plays a little later than it is sent: it is told to be silent so long after the clock says it is."""
_BURST_MS = 40
"""So much sound goes to a device at a time, where its frames are shorter: each time costs the same."""
_LAST_WORD_SECONDS = 0.15
_AWAY_SECONDS = 2.0
"""A device that tells what it plays and from which nothing comes for so long, though it owes a word, is away."""
_PIECE_SECONDS = 0.12
"""So much sound is converted and encoded in one go: one device's sentence must not hold up the others."""


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """Times in seconds. `lead_frames`: what a device is given ahead of its playing."""

    lead_frames: int = 5
    resume_seconds: float = 120.0
    """So long a turn waits for a device that is away to hear the rest; afterwards nothing of it is sent."""


class TurnVoice:
    """One turn's, from its first sound to the last; implements `Playback`. Made by `LiveVoice.begin`.

    `changed`: for the sender: something was put in, or the voice was stopped. `levels`: the device wants mouth levels.
    """

    def __init__(
        self,
        audio: AudioFormat,
        settings: VoiceSettings,
        monotonic: Callable[[], float],
        changed: asyncio.Event,
        *,
        levels: bool,
        away_since: float | None = None,
    ) -> None:
        self.turn_id = 0
        self._changed = changed
        self._progressed = asyncio.Event()
        self._last_word = asyncio.Event()
        self._monotonic = monotonic
        self._settings = settings
        self._audio = audio
        self._waiting: deque[str | Pcm16] = deque()
        self._ready: deque[ToDevice] = deque()
        self._cutter = FrameCutter(audio.format, audio.sample_rate_hz, audio.frame_ms)
        self._wants_levels = levels
        self._levels = MouthLevels(audio.sample_rate_hz, LEVEL_STEP_MS)
        self._level_steps = 0
        self._resampler: StreamResampler | None = None
        burst_frames = max(1, min(_BURST_MS // audio.frame_ms, settings.lead_frames // 2))
        self._pacer = Pacer(audio.frame_ms, settings.lead_frames, burst_frames)
        self._whole = self._stopped = self._open = False
        """`_open`: the device was told that it speaks, on this connection, and not yet that it is silent."""
        self._start_ms = 0
        """How much had been sent when it was told so: the device counts from there."""
        self._away_since = away_since
        self._acknowledged: tuple[float, float] | None = None
        """How much the device says it has played, in milliseconds, and when it said so."""
        self._owes_since: float | None = None
        """Since when it has had something to tell that it has not told; None: it has told all."""
        self._frozen_ms: float | None = None
        self._silent_at = 0.0
        """When the device has played what it got, by the clock."""

    # --- the turn puts in ---

    def sentence(self, turn_id: int, text: str) -> None:
        """The sound that follows says `text`."""
        self.turn_id = turn_id
        self._put(text)

    def sound(self, turn_id: int, chunk: AudioChunk) -> None:
        """The next piece of the voice."""
        self.turn_id = turn_id
        if self._resampler is None:
            self._resampler = StreamResampler(chunk.sample_rate_hz, self._audio.sample_rate_hz, np.int16)
        step = max(1, round(_PIECE_SECONDS * chunk.sample_rate_hz))
        for start in range(0, len(chunk.samples), step):
            self._put(chunk.samples[start : start + step])

    def _wake(self) -> None:
        self._changed.set()
        self._progressed.set()

    def _put(self, item: str | Pcm16) -> None:
        if not self._stopped:
            self._waiting.append(item)
            self._wake()

    def stop(self) -> None:
        """Drop what was not sent; what was played until now stays what was played."""
        if not self._stopped:
            self._frozen_ms = self.played_ms()
            self._stopped = self._whole = True
            self._waiting.clear()
            self._ready.clear()
            self._wake()

    # --- the device ---

    def acknowledge(self, ms: float) -> None:
        """The device says that it has played so much since it was told that it speaks."""
        ms = min(float(ms) + self._start_ms, float(self._pacer.sent_ms))
        self.is_there()
        if ms >= self._pacer.sent_ms:
            self._owes_since = None
        if self._frozen_ms is not None:
            # Its last word: it knows better when it fell silent.
            self._frozen_ms = min(ms, self._frozen_ms)
            self._last_word.set()
        elif self._acknowledged is None or ms > self._acknowledged[0]:
            self._acknowledged = ms, self._monotonic()
            self._wake()

    def is_there(self) -> None:
        """Something has come of the device."""
        was_lost, owes = self._is_lost, self._owes_since is not None
        self._owes_since = self._monotonic() if owes else None
        if was_lost:
            self._wake()

    @property
    def _is_lost(self) -> bool:
        """Its network takes what is sent, and nothing comes of it any more: what goes out now may reach nobody."""
        if self._acknowledged is None or self._owes_since is None:
            return False
        return self._monotonic() - self._owes_since > _AWAY_SECONDS

    def away(self, since: float | None) -> None:
        """The device has gone, at that time, or come back: then it has to be told again that it is spoken to."""
        self._away_since = since
        self._owes_since = None
        self._open = False
        self._wake()

    # --- as `Playback` ---

    def played_ms(self) -> float:
        """Not more than the device can have played since it got it, nor than follows from what it says itself."""
        if self._frozen_ms is not None:
            return self._frozen_ms
        now = self._monotonic()
        played = float(self._pacer.played_ms(now))
        if self._acknowledged is not None:
            ms, at = self._acknowledged
            played = min(played, ms + min(now - at, _AWAY_SECONDS) * 1000)
        return played

    async def final_ms(self) -> float:
        """After it was stopped: how much was played. A device that tells so is given a moment for its last word."""
        if self._acknowledged is not None and self._away_since is None:
            try:
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    await self._last_word.wait()
            except TimeoutError:
                pass
        return self.played_ms()

    async def played_out(self) -> None:
        """Return when all sound was played, when it was stopped, or when the device has been away for too long.

        Nothing is sent afterwards.
        """
        self._whole = True
        self._wake()
        while (seconds := self._still_seconds()) is None or seconds > 0:
            self._progressed.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._progressed.wait()
            except TimeoutError:
                continue
        self.stop()

    def _still_seconds(self) -> float | None:
        """How long until all is played; None: until something changes; 0: it is over."""
        now = self._monotonic()
        if self._stopped:
            return 0.0
        is_left = bool(self._waiting or self._ready)
        if self._away_since is not None:
            until = self._away_since + self._settings.resume_seconds if is_left else self._silent_at
            return max(0.0, until - now)
        if is_left or self._open:
            return None
        return 0.0  # nothing was sent, or the device was told to be silent when it was

    # --- the sender takes out ---

    def next(self) -> tuple[ToDevice | None, float | None]:
        """What goes next and in how many seconds; (None, None): nothing until something changes."""
        if self._stopped:
            return self._closing()
        while not self._ready and self._waiting:
            self._prepare(self._waiting.popleft())
        if not self._ready:
            if not self._whole:
                return None, None
            self._flush()
            if not self._ready:
                return self._closing()
        if not self._open:
            return SpeechStart(self.turn_id), 0.0
        if self._is_lost:
            return None, None
        message = self._ready[0]
        if isinstance(message, Levels):
            return replace(message, start_ms=max(0, message.start_ms - self._start_ms)), 0.0
        delay = self._pacer.delay_seconds(self._monotonic()) if isinstance(message, SpeechFrame) else 0.0
        return message, delay

    def sent(self, message: ToDevice) -> None:
        """It went out."""
        if isinstance(message, SpeechStop):
            self._open = False
            self._wake()
        elif isinstance(message, SpeechStart):
            self._open, self._start_ms = True, self._pacer.sent_ms
        elif self._ready:  # it was stopped meanwhile: nothing is left
            self._ready.popleft()
            if isinstance(message, SpeechFrame):
                now = self._monotonic()
                self._pacer.sent(now)
                if self._owes_since is None:
                    self._owes_since = now
                self._silent_at = now + self._pacer.unplayed_seconds(now)

    def _closing(self) -> tuple[ToDevice | None, float | None]:
        """To a device the end is to be silent: it comes when all is played, or at once when it was stopped."""
        if not self._open:
            return None, None
        if self._stopped:
            return SpeechStop(self.turn_id), 0.0
        return SpeechStop(self.turn_id), self._until_silence()

    def _until_silence(self) -> float:
        """Seconds until the device has played all, by its own word or by the clock and some grace."""
        if self._acknowledged is not None and self._acknowledged[0] >= self._pacer.sent_ms:
            return 0.0
        return max(0.0, self._silent_at + _GRACE_SECONDS - self._monotonic())

    def _prepare(self, item: str | Pcm16) -> None:
        if isinstance(item, str):
            self._ready.append(Sentence(self.turn_id, item))
            return
        assert self._resampler is not None
        self._add(self._resampler.push(item))

    def _add(self, samples: Pcm16) -> None:
        if self._wants_levels:
            self._add_levels(self._levels.push(samples))
        self._ready.extend(SpeechFrame(frame) for frame in self._cutter.push(samples))

    def _add_levels(self, levels: list[float]) -> None:
        if levels:
            self._ready.append(Levels(self.turn_id, self._level_steps * LEVEL_STEP_MS, tuple(levels), LEVEL_STEP_MS))
            self._level_steps += len(levels)

    def _flush(self) -> None:
        """Everything was put in: what is held back comes out, once."""
        resampler, self._resampler = self._resampler, None
        if resampler is not None:
            self._add(resampler.finish())
            if self._wants_levels:
                self._add_levels(self._levels.finish())
            self._ready.extend(SpeechFrame(frame) for frame in self._cutter.finish())


class LiveVoice:
    """A device's voice across turns and connections. `levels`: the device wants mouth levels."""

    def __init__(
        self, audio: AudioFormat, settings: VoiceSettings, monotonic: Callable[[], float], *, levels: bool
    ) -> None:
        self._audio = audio
        self._settings = settings
        self._monotonic = monotonic
        self._wants_levels = levels
        self._turn: TurnVoice | None = None
        self._changed = asyncio.Event()
        """Of any turn. Only the sender waits for it and clears it: of two that do both, one may miss it."""
        self._away_since: float | None = None

    def begin(self) -> TurnVoice:
        """The voice of the turn that begins now; what is left of the one before is dropped."""
        if self._turn is not None:
            self._turn.stop()
        self._turn = TurnVoice(
            self._audio,
            self._settings,
            self._monotonic,
            self._changed,
            levels=self._wants_levels,
            away_since=self._away_since,
        )
        self._changed.set()
        return self._turn

    def sentence(self, turn_id: int, text: str) -> None:
        """The sound that follows says `text`."""
        if (turn := self._of(turn_id)) is not None:
            turn.sentence(turn_id, text)

    def sound(self, turn_id: int, chunk: AudioChunk) -> None:
        """The next piece of the voice; of a turn that is over, it is dropped."""
        if (turn := self._of(turn_id)) is not None:
            turn.sound(turn_id, chunk)

    def _of(self, turn_id: int) -> TurnVoice | None:
        turn = self._turn
        return turn if turn is not None and turn.turn_id in (0, turn_id) else None

    def hush(self) -> None:
        """Drop all that was not sent."""
        if self._turn is not None:
            self._turn.stop()

    def acknowledge(self, turn_id: int, ms: float) -> None:
        """The device has played so much of that turn; of another one it is of no interest any more."""
        if (turn := self._of(turn_id)) is not None:
            turn.acknowledge(ms)

    def is_there(self) -> None:
        """Something has come of the device."""
        if self._turn is not None:
            self._turn.is_there()

    def away(self, is_away: bool) -> None:
        """The device has gone, or come back."""
        self._away_since = self._monotonic() if is_away else None
        if self._turn is not None:
            self._turn.away(self._away_since)

    @property
    def waits_seconds(self) -> float:
        """How long a device that is away may still come back; 0: what was left of its turn is not sent any more."""
        if self._away_since is None:
            return self._settings.resume_seconds
        return max(0.0, self._away_since + self._settings.resume_seconds - self._monotonic())

    async def run(self, send: Send) -> None:
        """Send until the device is gone, or for ever. One call at a time."""
        while True:
            turn = self._turn
            message, delay = (None, None) if turn is None else turn.next()
            if turn is None or message is None or delay != 0.0:
                await self._wait(delay)
            elif await send(message):
                turn.sent(message)
            else:
                return

    async def _wait(self, seconds: float | None) -> None:
        """Until something has changed, or so long."""
        self._changed.clear()
        # Not `asyncio.timeout`: it ends by an exception, fifty times a second.
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()
