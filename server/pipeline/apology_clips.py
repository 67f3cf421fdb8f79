"""The apologies as sound, made once with the chosen voice, so that the robot can still say them when its voice fails.

Knows the TTS Protocol; not when an apology is due.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from server.engines.base import SpeechRequest, TtsEngine
from server.errors import TtsError
from server.events import Pcm16
from server.log_context import error_fields
from server.persona import Persona
from server.pipeline.apology import APOLOGIES, Fault, apology_emotion
from server.pipeline.bounded import engine_work
from server.pipeline.speakable import speakable
from server.pipeline.speaking import synthesized

_log = logging.getLogger(__name__)


class ApologyClips:
    """Sound for each fault and language; empty until `make_for` has run."""

    def __init__(self) -> None:
        self._clips: dict[tuple[Fault, str], Pcm16] = {}
        self._made = asyncio.Event()

    def find(self, fault: Fault, language: str) -> Pcm16 | None:
        """The clip, int16 mono at the rate it was made for; None when there is none (yet)."""
        return self._clips.get((fault, language))

    async def make_for(self, persona: Persona, tts: TtsEngine, sample_rate_hz: int, *, timeout_seconds: float) -> None:
        """Speak every apology in the persona's languages, doubtfully.

        `timeout_seconds`: for one of them. A voice that fails is told in the log and not asked again; without a clip
        the apology is spoken live.
        """
        try:
            for fault, texts in APOLOGIES.items():
                for language in persona.languages:
                    if language in texts:
                        work = _whole(tts, texts[language], language, apology_emotion(persona), sample_rate_hz)
                        self._clips[fault, language] = await engine_work(work, timeout_seconds, TtsError)
        except TtsError as error:
            _log.warning("apologies are not prepared: %s", error.code, extra=error_fields(error))
        finally:
            self._made.set()

    async def wait(self, seconds: float) -> None:
        """Return when `make_for` has ended, or after `seconds`: a slow voice goes on beside the first turns."""
        try:
            async with asyncio.timeout(seconds):
                await self._made.wait()
        except TimeoutError:
            _log.warning("the voice is slow: apologies are still being prepared")


async def _whole(tts: TtsEngine, text: str, language: str, emotion: str, sample_rate_hz: int) -> Pcm16:
    request = SpeechRequest(speakable(text, language), language, emotion)
    pieces = [piece async for piece in synthesized(tts, request, sample_rate_hz)]
    if not pieces:
        raise TtsError("The voice gave no sound for an apology.")
    return np.concatenate(pieces)
