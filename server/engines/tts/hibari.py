"""English speech from hibari-tts and its bundled voice, 24 kHz. Japanese characters are silent here.

A feeling changes the speed alone; the voice has no pitch control. A fixed seed makes the same text the same sound.
"""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from server.audio.levels import to_pcm16
from server.engines.base import SpeechRequest, TtsCapabilities
from server.engines.tts.prosody import PROSODY_OF_EMOTION, Prosody
from server.engines.tts.scripts import pieces_to_speak
from server.engines.worker import ModelThread
from server.errors import ModelError, TtsError
from server.events import AudioChunk

_LEVEL = 1.65
"""Brings the voice's active RMS (measured 0.058-0.062 of full scale) near 0.1, where both voices meet."""


class HibariTts:
    """Implements `TtsEngine` for English. `voice`: None is the bundled one; another must already be downloaded."""

    name = "hibari"
    capabilities = TtsCapabilities(languages=("en",), streams=True)
    sample_rate_hz = 24_000

    def __init__(
        self, voice: str | None = None, *, seed: int = 7, prosody: Mapping[str, Prosody] | None = None
    ) -> None:
        self._voice = voice
        self._seed = seed
        self._prosody = PROSODY_OF_EMOTION if prosody is None else prosody
        self._thread = ModelThread(self.name, TtsError)
        self._model: Any = None

    async def start(self) -> None:
        await self._thread.start(self._load)

    async def close(self) -> None:
        await self._thread.close()
        self._model = None

    async def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        """One chunk a sentence, int16 mono at 24 kHz. Raises `TtsError`."""
        speed = self._prosody.get(request.emotion, Prosody()).speed
        for piece in pieces_to_speak(request.text):
            chunk = await self._thread.call(self._speak, piece, speed)
            if len(chunk.samples):
                yield chunk

    def _load(self) -> None:
        import hibari
        from hibari.voices import DEFAULT, VOICES, voice_path

        voice = self._voice or DEFAULT
        if voice not in VOICES:
            raise TtsError(f"hibari has no voice {voice!r}.", hint=f"Choose one of {', '.join(sorted(VOICES))}.")
        try:
            path = voice_path(voice, download_missing=False)
        except FileNotFoundError as error:
            raise ModelError(
                f"The voice {voice!r} of hibari is not on this machine.", hint=f"Run: hibari Hello --voice {voice}."
            ) from error
        self._model = hibari.Hibari(voice=voice, model=path, threads=1)
        self._speak("Hi.", 1.0)

    def _speak(self, text: str, speed: float) -> AudioChunk:
        readable = unicodedata.normalize("NFKC", text)  # its number reader knows "°C", not "℃"
        return AudioChunk(to_pcm16(self._model(readable, speed=speed, seed=self._seed), _LEVEL), self.sample_rate_hz)
