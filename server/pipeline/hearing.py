"""The hearing part of a turn: from what came in, sound or typed text, to the user's words, or to none.

Knows the VAD and ASR Protocols; not what becomes of the words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from server.engines.base import Engines
from server.errors import AsrError
from server.persona import Persona
from server.pipeline.listening import find_utterance
from server.pipeline.parts import TurnSettings
from server.pipeline.request import Heard, TurnRequest
from server.pipeline.trace import TurnTrace
from server.storage.types import clean_text


async def hear(
    request: TurnRequest, engines: Engines, persona: Persona, settings: TurnSettings, trace: TurnTrace
) -> Heard | None:
    """The user's words, or None when there are none to answer. Raises `VadError`, `AsrError`."""
    languages = persona.languages
    if request.text is not None:
        text = clean_text(request.text).strip()
        return Heard(text, written_language(text, languages)) if text else None
    assert request.samples is not None
    with trace.span("vad"):
        utterance = await find_utterance(engines.vad, request.samples, settings.segmenter)
    if utterance is None:
        return None
    with trace.span("asr"):
        try:
            async with asyncio.timeout(settings.asr_timeout_seconds):
                transcription = await engines.asr.transcribe(utterance.samples, languages=languages)
        except TimeoutError:
            raise AsrError("Hearing took too long.", code="asr_timeout", retryable=True) from None
    text = clean_text(transcription.text).strip()
    if not text:
        return None
    return Heard(text, transcription.language, round(utterance.duration_seconds * 1000))


def written_language(text: str, languages: Sequence[str]) -> str:
    """The language of typed text: Japanese when it has kana or kanji, else English."""
    japanese = any("\u3040" <= c <= "\u30ff" or "\u4e00" <= c <= "\u9fff" for c in text)
    guess = "ja" if japanese else "en"
    return guess if guess in languages else languages[0]
