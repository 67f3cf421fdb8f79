"""The voice of one turn: pieces of text become sound, one after another, while the model writes the next.

A voice that fails is noticed once; the rest of the answer stays unspoken. Knows the TTS Protocol, not which voice it
is, nor how the text was found.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from server.audio.resample import resample
from server.engines.base import SpeechRequest, TtsEngine
from server.errors import StackChanError, TtsError
from server.events import AudioChunk, SentenceStarted, SpeechProduced
from server.log_context import error_fields
from server.pipeline.device_link import DeviceLink
from server.pipeline.parts import TurnSettings
from server.pipeline.speakable import speakable
from server.pipeline.trace import TurnTrace

_log = logging.getLogger(__name__)

# Pieces that wait for the voice; synthesis is much faster than generation, so this never fills in practice.
_PIECES_AHEAD = 8

Piece = tuple[str, str]
"""Text to say, and the emotion to say it with."""
Pieces = asyncio.Queue[Piece | None]
"""None ends it."""


def new_pieces() -> Pieces:
    return asyncio.Queue(_PIECES_AHEAD)


class Voice:
    """Speaks in one turn, in `language` (ISO 639-1). `error`: what silenced it."""

    def __init__(
        self, tts: TtsEngine, settings: TurnSettings, turn_id: int, device: DeviceLink, trace: TurnTrace
    ) -> None:
        self.error: StackChanError | None = None
        self._tts = tts
        self._settings = settings
        self._turn_id = turn_id
        self._device = device
        self._trace = trace
        self._samples = 0

    @property
    def duration_ms(self) -> int | None:
        """How much was spoken; None when nothing was, or when the voice failed part-way.

        Half a sentence is no audio: a device shows the text rather than stop in its middle.
        """
        if self._samples == 0 or self.error is not None:
            return None
        return round(self._samples * 1000 / self._settings.speech_sample_rate_hz)

    async def speak(self, pieces: Pieces, language: str) -> None:
        """Speak pieces until the end mark; after a failure take the rest silently, so that the model is not blocked."""
        while (item := await pieces.get()) is not None:
            text, emotion = item
            await self.say(text, language, emotion)

    async def say(self, text: str, language: str, emotion: str) -> None:
        """Speak one piece; what cannot be spoken is left out."""
        if self.error is not None:
            return
        rate_hz = self._settings.speech_sample_rate_hz
        spoken = speakable(text, language)
        if not spoken:
            return
        request = SpeechRequest(text=spoken, language=language, emotion=emotion)
        try:
            with self._trace.span("tts"):
                async with (
                    asyncio.timeout(self._settings.tts_timeout_seconds),
                    aclosing(self._tts.synthesize(request)) as chunks,
                ):
                    started = False
                    async for chunk in chunks:
                        if not started:
                            started = True
                            await self._begin_sentence(text)
                        await self._send(AudioChunk(resample(chunk.samples, chunk.sample_rate_hz, rate_hz), rate_hz))
        except TimeoutError:
            self.error = TtsError("Speaking took too long.", code="tts_timeout", retryable=True)
        except TtsError as error:
            self.error = error
        if self.error is not None:
            _log.error("no voice: %s", self.error.code, extra=error_fields(self.error))

    async def _begin_sentence(self, text: str) -> None:
        self._trace.mark("first_audio")
        await self._device.move("speaking")
        await self._device.emit(SentenceStarted(self._turn_id, text))

    async def _send(self, chunk: AudioChunk) -> None:
        if len(chunk.samples) == 0:
            return
        self._samples += len(chunk.samples)
        await self._device.emit(SpeechProduced(self._turn_id, chunk))
