"""The voice of one turn: pieces of text become sound, one after another, while the model writes the next.

A voice that fails is noticed once; the rest of the answer stays unspoken. Knows the TTS Protocol, not which voice it
is, nor how the text was found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

import numpy as np

from server.audio.resample import StreamResampler
from server.engines.base import Need, SpeechRequest, TtsEngine
from server.errors import StackChanError, TtsError
from server.events import AudioChunk, Pcm16, SentenceStarted, SpeechProduced
from server.log_context import error_fields
from server.pipeline.bounded import engine_work
from server.pipeline.device_link import DeviceLink
from server.pipeline.parts import TurnSettings
from server.pipeline.played import SpokenWords
from server.pipeline.speakable import speakable, surely_has_words
from server.pipeline.speech_ahead import SpeechAhead
from server.pipeline.trace import TurnTrace

_log = logging.getLogger(__name__)

# Pieces that wait for the voice. More than an answer has: the model's time-out must not run while it waits for a voice.
_PIECES_AHEAD = 256
# A piece of text is cut after about a dozen seconds of speech; more than this is a voice that runs away.
_LONGEST_PIECE_SECONDS = 60.0
# Chunks of a hundredth of a second; more of them, or empty ones, is a voice that does not get on.
_MOST_CHUNKS_OF_PIECE = 6_000
_MOST_EMPTY_CHUNKS = 200
_RATES_HZ = range(4_000, 192_001)

Piece = tuple[str, str]
"""Text to say, and the emotion to say it with."""
Pieces = asyncio.Queue[Piece | None]
"""None ends it."""


def new_pieces() -> Pieces:
    return asyncio.Queue(_PIECES_AHEAD)


class Voice:
    """Speaks in one turn. `error`: what silenced it."""

    def __init__(
        self,
        tts: TtsEngine,
        settings: TurnSettings,
        turn_id: int,
        device: DeviceLink,
        trace: TurnTrace,
        ahead: SpeechAhead | None = None,
    ) -> None:
        self.error: StackChanError | None = None
        self._tts = tts
        self._settings = settings
        self._turn_id = turn_id
        self._device = device
        self._trace = trace
        self._ahead = ahead
        """The first piece, which may be sound already."""
        self.words = SpokenWords(settings.speech_sample_rate_hz)
        """What was said with how much sound, to tell what was heard of it."""
        self._replayed = False

    @property
    def duration_ms(self) -> int | None:
        """How much was spoken; None when nothing was, when the voice failed part-way, or nobody is there to hear it.

        Half a sentence is no audio: a device shows the text rather than stop in its middle. A clip that was played
        after it is audio, and counts with all that was sent before it.
        """
        failed = self.error is not None and not self._replayed
        if self.words.duration_ms == 0 or failed or self._device.gone:
            return None
        return self.words.duration_ms

    async def speak(self, pieces: Pieces, language: str) -> None:
        """Speak pieces until the end mark; after a failure take the rest silently, so that the model is not blocked.

        `language`: ISO 639-1.
        """
        while (item := await pieces.get()) is not None:
            text, emotion = item
            await self.say(text, language, emotion)

    async def say(self, text: str, language: str, emotion: str) -> None:
        """Speak one piece; what cannot be spoken is left out. Never raises but for a cancelled turn."""
        if self.error is not None or self._device.gone:
            return
        with self._trace.span("tts"):
            try:
                await engine_work(
                    self._synthesize(text, language, emotion), self._settings.tts_timeout_seconds, TtsError
                )
            except TtsError as error:
                self.error = error
                _log.error("no voice: %s", error.code, extra=error_fields(error))

    async def replay(self, text: str, samples: Pcm16) -> None:
        """Play a clip that says `text`; it needs no engine. `samples`: int16 mono at the speech rate."""
        await self._begin_sentence(text)
        await self._send(samples)
        self._replayed = True

    async def fill(self, samples: Pcm16) -> None:
        """Play a clip before the answer that is no part of it. `samples`: int16 mono at the speech rate."""
        await self._device.move("speaking")
        await self._send(samples)

    async def _synthesize(self, text: str, language: str, emotion: str) -> None:
        spoken = speakable(text, language)
        if not spoken:
            return
        need = Need.NEXT if self.words.duration_ms else Need.NOW
        request = SpeechRequest(text=spoken, language=language, emotion=emotion, need=need)
        begun = False
        sound = await self._ahead.sound_of(request) if self._ahead is not None else None
        self._ahead = None
        sound = sound or synthesized(self._tts, request, self._settings.speech_sample_rate_hz)
        async with aclosing(sound) as pieces:
            async for samples in pieces:
                if self.error is not None:
                    return  # too late: this synthesis was given up
                if not begun:
                    begun = True
                    await self._begin_sentence(text)
                await self._send(samples)
        if not begun and surely_has_words(spoken):
            raise TtsError("The voice gave no sound for words that can be spoken.")

    async def _begin_sentence(self, text: str) -> None:
        self._trace.mark("first_audio")
        await self._device.move("speaking")
        self.words.sentence(text)
        await self._device.emit(SentenceStarted(self._turn_id, text))

    async def _send(self, samples: Pcm16) -> None:
        self.words.samples(len(samples))
        chunk = AudioChunk(samples, self._settings.speech_sample_rate_hz)
        await self._device.emit(SpeechProduced(self._turn_id, chunk))


async def synthesized(tts: TtsEngine, request: SpeechRequest, sample_rate_hz: int) -> AsyncGenerator[Pcm16, None]:
    """A piece of text as int16 mono at `sample_rate_hz`, chunk by chunk, none of them empty.

    Raises `TtsError`, also for a voice that gives something else than sound, or does not stop.
    """
    seconds, chunk_count, empty_count = 0.0, 0, 0
    # One for all chunks: converted alone, each would begin and end with a click.
    rate_hz = sample_rate_hz
    resampler = StreamResampler(rate_hz, sample_rate_hz, np.int16)
    async with aclosing(tts.synthesize(request)) as chunks:
        async for chunk in chunks:
            _check(chunk)
            seconds += chunk.duration_seconds
            chunk_count += 1
            empty_count += len(chunk.samples) == 0
            if chunk_count > _MOST_CHUNKS_OF_PIECE or empty_count > _MOST_EMPTY_CHUNKS:
                raise TtsError("The voice does not get on: it gives empty or tiny chunks without end.")
            if seconds > _LONGEST_PIECE_SECONDS:
                raise TtsError("The voice does not stop: one piece of text became more than a minute.")
            if chunk.sample_rate_hz != rate_hz:
                if len(rest := resampler.finish()):
                    yield rest
                rate_hz = chunk.sample_rate_hz
                resampler = StreamResampler(rate_hz, sample_rate_hz, np.int16)
            if len(samples := resampler.push(chunk.samples)):
                yield samples
    if len(rest := resampler.finish()):
        yield rest


def _check(chunk: object) -> None:
    if not isinstance(chunk, AudioChunk) or not isinstance(chunk.samples, np.ndarray):
        raise TtsError("The voice gave something that is no sound.")
    if chunk.samples.dtype != np.int16 or chunk.samples.ndim != 1:
        raise TtsError(f"The voice gave {chunk.samples.dtype} of shape {chunk.samples.shape}, not int16 mono.")
    if not isinstance(chunk.sample_rate_hz, int | np.integer) or chunk.sample_rate_hz not in _RATES_HZ:
        raise TtsError(f"The voice gave a sample rate of {chunk.sample_rate_hz} Hz.")
