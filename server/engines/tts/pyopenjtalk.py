"""Japanese speech from Open JTalk (pyopenjtalk-plus and its bundled voice): robotic, instant, 48 kHz.

A feeling changes speed and pitch a little. Latin words are spelled letter by letter here; `mixed` knows better. The
library takes a third of a second of speech for every letter of a run-away word, so text arrives in bounded pieces.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from server.audio.levels import to_pcm16
from server.engines.base import SpeechRequest, TtsCapabilities
from server.engines.tts.prosody import PROSODY_OF_EMOTION, Prosody
from server.engines.tts.scripts import pieces_to_speak
from server.engines.worker import ModelThread
from server.errors import TtsError
from server.events import AudioChunk

_LEVEL = 0.62
"""Brings the voice's active RMS (measured 0.13-0.23 of full scale) near 0.1, where both voices meet, and its peaks
(up to 1.17) below full scale."""


class PyopenjtalkTts:
    """Implements `TtsEngine` for Japanese. `prosody`: replaces `PROSODY_OF_EMOTION`."""

    name = "pyopenjtalk"
    capabilities = TtsCapabilities(languages=("ja",), streams=True)
    sample_rate_hz = 48_000

    def __init__(self, prosody: Mapping[str, Prosody] | None = None) -> None:
        self._prosody = PROSODY_OF_EMOTION if prosody is None else prosody
        self._thread = ModelThread(self.name, TtsError)

    async def start(self) -> None:
        await self._thread.start(lambda: self._speak("はい。", Prosody()))

    async def close(self) -> None:
        await self._thread.close()

    async def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        """One chunk a sentence, int16 mono at 48 kHz. Raises `TtsError`."""
        prosody = self._prosody.get(request.emotion, Prosody())
        for piece in pieces_to_speak(request.text):
            chunk = await self._thread.call(self._speak, piece, prosody)
            if len(chunk.samples):
                yield chunk

    def _speak(self, text: str, prosody: Prosody) -> AudioChunk:
        import pyopenjtalk

        samples, sample_rate_hz = pyopenjtalk.tts(text, speed=prosody.speed, half_tone=prosody.half_tones)
        # The library gives float64 with the scale of int16.
        return AudioChunk(to_pcm16(samples / 32768.0, _LEVEL), int(sample_rate_hz))
