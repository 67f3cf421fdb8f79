"""The hearing part of a turn: from what came in, sound or typed text, to the user's words, or to none.

Knows the VAD and ASR Protocols; not what becomes of the words, nor what makes a transcription unbelievable.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from server.engines.base import AsrStream, Engines, Transcription
from server.errors import AsrError, VadError
from server.events import Utterance
from server.persona import Persona
from server.pipeline.bounded import engine_work
from server.pipeline.hearing_guards import Hearing, Reason, why_not_believed
from server.pipeline.listening import find_utterance
from server.pipeline.parts import TurnSettings
from server.pipeline.request import Heard, TurnRequest
from server.pipeline.trace import TurnTrace
from server.storage.types import clean_text

_log = logging.getLogger(__name__)


async def hear(
    request: TurnRequest,
    engines: Engines,
    persona: Persona,
    settings: TurnSettings,
    trace: TurnTrace,
    hot_words: Sequence[str] = (),
) -> Heard | None:
    """The user's words, or None when there are none to answer. `hot_words`: words to expect.

    Raises `VadError` or `AsrError`, and nothing else, whatever the engines do.
    """
    if request.text is not None:
        text = clean_text(request.text).strip()
        return Heard(text, written_language(text, persona.languages)) if text else None
    assert request.samples is not None
    with trace.span("vad"):
        finding = find_utterance(engines.vad, request.samples, settings.segmenter)
        found = await engine_work(finding, settings.asr_timeout_seconds, VadError)
    if found is None:
        return None
    trace.facts["speech_start_ms"], trace.facts["speech_end_ms"] = found.start_ms, found.end_ms
    return await understand(found.utterance, engines, persona, settings, trace, hot_words)


async def understand(
    utterance: Utterance,
    engines: Engines,
    persona: Persona,
    settings: TurnSettings,
    trace: TurnTrace,
    hot_words: Sequence[str] = (),
    stream: AsrStream | None = None,
) -> Heard | None:
    """The words of an utterance, or None when they are not to be believed. Raises `AsrError`, and nothing else.

    `stream`: has heard the utterance while it was spoken. One that fails costs nothing but its work.
    """
    with trace.span("asr"):
        hearing = _transcribe(engines, utterance, persona.languages, hot_words, stream)
        transcription = await engine_work(hearing, settings.asr_timeout_seconds, AsrError)
    text, reason = words_of(transcription, utterance.duration_seconds, persona, hot_words)
    if reason is not None:
        trace.facts["asr_dropped"] = reason
        return None
    known = transcription.language in persona.languages
    language = transcription.language if known else written_language(text, persona.languages)
    return Heard(text, language, round(utterance.duration_seconds * 1000))


def words_of(
    transcription: Transcription, seconds: float, persona: Persona, hot_words: Sequence[str]
) -> tuple[str, Reason | None]:
    """The text of a transcription of so much sound, and why it is not to be believed, if it is not."""
    text = clean_text(transcription.text).strip()
    hearing = Hearing(
        text=text,
        seconds=seconds,
        no_speech_probability=_number(transcription.no_speech_probability),
        average_log_probability=_number(transcription.average_log_probability),
    )
    return text, why_not_believed(hearing, hot_words, languages=persona.languages)


async def _transcribe(
    engines: Engines,
    utterance: Utterance,
    languages: Sequence[str],
    hot_words: Sequence[str],
    stream: AsrStream | None,
) -> Transcription:
    transcription: Transcription | None = None
    if stream is not None:
        try:
            transcription = await stream.transcribe(len(utterance.samples))
        except AsrError as error:
            _log.warning("an utterance is heard in one piece after all: %s", error.code)
    if transcription is None:
        transcription = await engines.asr.transcribe(utterance.samples, languages=languages, hot_words=hot_words)
    # An engine's own mistake must not pass for words, nor for silence.
    if not isinstance(transcription, Transcription) or not isinstance(transcription.text, str):
        raise AsrError("The hearing engine gave something that is no transcription.")
    return transcription


def _number(value: object) -> float:
    """An engine's number; 0, which is what engines without one say, when it is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def written_language(text: str, languages: Sequence[str]) -> str:
    """The language of typed text: Japanese when it has kana or kanji, else English."""
    japanese = any("\u3040" <= c <= "\u30ff" or "\u4e00" <= c <= "\u9fff" for c in text)
    guess = "ja" if japanese else "en"
    return guess if guess in languages else languages[0]
