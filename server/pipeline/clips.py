"""What the robot may have to say at once, as sound, made beforehand with the chosen voice.

The apologies, so that it can still say them when its voice fails, and the fillers, which are of no use when they come
late. Knows the TTS Protocol; not when one of them is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import numpy as np

from server.engines.base import Need, SpeechRequest, TtsEngine
from server.errors import TtsError
from server.events import Pcm16
from server.log_context import error_fields
from server.persona import Persona
from server.pipeline.apology import APOLOGIES, Fault, apology_emotion
from server.pipeline.bounded import engine_work
from server.pipeline.filler import FILLERS, THAT_WAS_LONG
from server.pipeline.speakable import speakable
from server.pipeline.speaking import synthesized

_log = logging.getLogger(__name__)


class VoiceClips:
    """Sound for known sentences: int16 mono at the rate it was made for; empty until `make_for` has run."""

    def __init__(self) -> None:
        self._clips: dict[tuple[str, str], Pcm16] = {}
        self._made = asyncio.Event()

    def apology(self, fault: Fault, language: str) -> Pcm16 | None:
        """The sound of an apology; None when there is none (yet)."""
        return self._clips.get((APOLOGIES[fault].get(language, ""), language))

    def filler(self, language: str, turn_id: int) -> Pcm16 | None:
        """The sound of a filler, another one from turn to turn; None when there is none (yet)."""
        texts = FILLERS.get(language, ())
        return self._clips.get((texts[turn_id % len(texts)], language)) if texts else None

    def that_was_long(self, language: str) -> Pcm16 | None:
        """The sound of `THAT_WAS_LONG`; None when there is none (yet)."""
        return self._clips.get((THAT_WAS_LONG.get(language, ""), language))

    async def make_for(self, persona: Persona, tts: TtsEngine, sample_rate_hz: int, *, timeout_seconds: float) -> None:
        """Speak every sentence in the persona's languages, doubtfully; the apologies first.

        `timeout_seconds`: for one of them. A voice that fails is told in the log and not asked again; without a clip
        an apology is spoken live, and a filler is not.
        """
        try:
            for text, language in _sentences(persona):
                work = _whole(tts, text, language, apology_emotion(persona), sample_rate_hz)
                self._clips[text, language] = await engine_work(work, timeout_seconds, TtsError)
        except TtsError as error:
            _log.warning("apologies and fillers are not prepared: %s", error.code, extra=error_fields(error))
        finally:
            self._made.set()

    async def wait(self, seconds: float) -> bool:
        """Return when `make_for` has ended, or after `seconds`: then False."""
        try:
            async with asyncio.timeout(seconds):
                await self._made.wait()
        except TimeoutError:
            return False
        return True


def _sentences(persona: Persona) -> Iterator[tuple[str, str]]:
    for texts in APOLOGIES.values():
        for language in persona.languages:
            if language in texts:
                yield texts[language], language
    for language in persona.languages:
        for text in (*FILLERS.get(language, ()), *filter(None, (THAT_WAS_LONG.get(language),))):
            yield text, language


async def _whole(tts: TtsEngine, text: str, language: str, emotion: str, sample_rate_hz: int) -> Pcm16:
    request = SpeechRequest(speakable(text, language), language, emotion, Need.KEPT)
    pieces = [piece async for piece in synthesized(tts, request, sample_rate_hz)]
    if not pieces:
        raise TtsError("The voice gave no sound for a sentence that is to be prepared.")
    return np.concatenate(pieces)
