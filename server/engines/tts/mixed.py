"""One voice for mixed text: every language is spoken by its own engine, and the parts are joined to one sound.

Each part is resampled to one rate, its silence cut to 20 ms before and 60 ms after the sound, its edges faded, and a
pause set by its last punctuation mark. So the first sound of a sentence starts about a quarter of a second sooner
than the engines alone would give it. Which part is whose is decided in `scripts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

import numpy as np

from server.audio.levels import fade_edges, trim_silence
from server.audio.resample import resample
from server.engines.base import SpeechRequest, TtsCapabilities, TtsEngine
from server.engines.tts.latin import LatinReader
from server.engines.tts.scripts import Run, has_latin, pieces_to_speak, split_runs
from server.events import AudioChunk

_KEEP_BEFORE_SECONDS = 0.02
_KEEP_AFTER_SECONDS = 0.06
_SILENCE_LEVEL = 0.004
_FADE_SECONDS = 0.005

_SENTENCE_PAUSE_SECONDS = 0.22
_CLAUSE_PAUSE_SECONDS = 0.12
_JOIN_PAUSE_SECONDS = 0.02
"""Between two languages inside a clause: heard as one."""


class MixedTts:
    """Implements `TtsEngine` over one engine a language. `readings`: Latin words and their kana (persona.yaml).

    `latin`: reads the other Latin words of a Japanese sentence as kana; without it the English engine says them.
    `engines`: by ISO 639-1 code; parts in a language without an engine are spoken by the first one. `name`: what
    settings call the whole.
    """

    sample_rate_hz = 24_000

    def __init__(
        self,
        engines: Mapping[str, TtsEngine],
        readings: Mapping[str, str] | None = None,
        latin: LatinReader | None = None,
        *,
        name: str = "openjtalk-hibari",
    ) -> None:
        self.name = name
        if not engines:
            raise ValueError("MixedTts needs at least one engine.")
        self._engines = dict(engines)
        self._readings = dict(readings or {})
        self._latin = latin
        self._fallback = next(iter(self._engines))
        self.capabilities = TtsCapabilities(languages=tuple(self._engines), streams=True)

    async def start(self) -> None:
        try:
            for engine in self._engines.values():
                await engine.start()
            if self._latin is not None:
                await self._latin.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        closing = [engine.close() for engine in self._engines.values()]
        if self._latin is not None:
            closing.append(self._latin.close())
        await asyncio.gather(*closing)

    async def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        """One chunk for each part, int16 mono at 24 kHz. Nothing speakable yields nothing. Raises `TtsError`."""
        runs = [run for piece in pieces_to_speak(request.text) for run in await self._runs(piece, request.language)]
        for index, run in enumerate(runs):
            language = run.language if run.language in self._engines else self._fallback
            part = replace(request, text=run.text, language=language)
            pause_seconds = pause_after(run, last=index == len(runs) - 1)
            # Collected before anything is given away, so that a caller who stops early leaves no generator open.
            for chunk in [chunk async for chunk in self._engines[language].synthesize(part)]:
                shaped = self._shape(chunk, pause_seconds)
                if len(shaped.samples):
                    yield shaped

    async def _runs(self, piece: str, language: str) -> list[Run]:
        if self._latin is not None and has_latin(piece):
            return await self._latin.runs(piece, language, self._readings)
        return split_runs(piece, language, self._readings)

    def _shape(self, chunk: AudioChunk, pause_seconds: float) -> AudioChunk:
        samples = resample(chunk.samples, chunk.sample_rate_hz, self.sample_rate_hz)
        sound = trim_silence(
            samples,
            self.sample_rate_hz,
            keep_before_seconds=_KEEP_BEFORE_SECONDS,
            keep_after_seconds=_KEEP_AFTER_SECONDS,
            level=_SILENCE_LEVEL,
        )
        if len(sound) == 0:
            return AudioChunk(sound, self.sample_rate_hz)
        sound = fade_edges(sound, self.sample_rate_hz, seconds=_FADE_SECONDS)
        pause = np.zeros(round(pause_seconds * self.sample_rate_hz), np.int16)
        return AudioChunk(np.concatenate([sound, pause]), self.sample_rate_hz)


def pause_after(run: Run, *, last: bool) -> float:
    """Seconds of silence to put behind a run."""
    mark = run.text.rstrip("」』）)]\"'”’ ")[-1:]
    if mark in ("。", ".", "!", "?", "…"):
        return _SENTENCE_PAUSE_SECONDS
    return _CLAUSE_PAUSE_SECONDS if last or mark in ("、", ",", ";", ":") else _JOIN_PAUSE_SECONDS
