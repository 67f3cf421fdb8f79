"""How the engines that are servers are made from settings and persona: their addresses, names and feelings.

Beside `registry`, which knows all engines; imports no client before one is made.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from server.config import Settings
from server.engines.base import TtsEngine
from server.errors import EngineError
from server.persona import Persona


def openai_asr(settings: Settings, persona: Persona) -> Any:
    from server.engines.asr.openai_transcription import OpenAiTranscriptionAsr, resolve_hearing_server

    return OpenAiTranscriptionAsr(
        resolve_hearing_server(settings.asr),
        timeout_seconds=settings.asr.timeout_seconds,
        connect_timeout_seconds=settings.asr.connect_timeout_seconds,
    )


def irodori(settings: Settings, persona: Persona) -> Any:
    from server.engines.tts.endpoints import resolve_voice_server
    from server.engines.tts.irodori import IrodoriTts

    japanese = IrodoriTts(
        resolve_voice_server("irodori", settings.tts),
        voice=settings.tts.voice,
        emoji=persona.voice_emoji,
        seed=settings.tts.seed,
        timeout_seconds=settings.tts.timeout_seconds,
        connect_timeout_seconds=settings.tts.connect_timeout_seconds,
    )
    return _with_english(japanese, settings, persona)


def voicevox(settings: Settings, persona: Persona) -> Any:
    return _voicevox("voicevox", settings, persona)


def aivisspeech(settings: Settings, persona: Persona) -> Any:
    return _voicevox("aivisspeech", settings, persona)


def openai_speech(settings: Settings, persona: Persona) -> Any:
    from server.engines.tts.endpoints import resolve_voice_server
    from server.engines.tts.openai_speech import OpenAiSpeechTts

    return OpenAiSpeechTts(
        resolve_voice_server("openai-speech", settings.tts),
        voice=settings.tts.voice,
        format=settings.tts.format,
        raw_sample_rate_hz=settings.tts.pcm_sample_rate_hz,
        timeout_seconds=settings.tts.timeout_seconds,
        connect_timeout_seconds=settings.tts.connect_timeout_seconds,
    )


def _voicevox(name: str, settings: Settings, persona: Persona) -> Any:
    from server.engines.tts.endpoints import resolve_voice_server
    from server.engines.tts.voicevox import VoicevoxTts

    japanese = VoicevoxTts(
        name,
        resolve_voice_server(name, settings.tts),
        voice=settings.tts.voice,
        styles=persona.voice_styles,
        timeout_seconds=settings.tts.timeout_seconds,
        connect_timeout_seconds=settings.tts.connect_timeout_seconds,
    )
    return _with_english(japanese, settings, persona)


def _with_english(japanese: TtsEngine, settings: Settings, persona: Persona) -> TtsEngine:
    """A Japanese voice that leaves English to hibari, and is given Latin words as kana, as far as that is installed."""
    from server.engines.tts.hibari import HibariTts
    from server.engines.tts.latin import LatinReader
    from server.engines.tts.mixed import MixedTts

    wanted, has_english = settings.tts.english_engine, _is_installed("hibari")
    if wanted == "hibari" and not has_english:
        raise EngineError(
            "The English voice hibari needs a package that is not installed.",
            code="engine_unavailable",
            hint="Run `pip install 'stackchan-server[embedded]'`, or set tts.english_engine to same.",
        )
    voices: dict[str, TtsEngine] = {"ja": japanese}
    if wanted != "same" and has_english:
        voices["en"] = HibariTts(seed=settings.tts.seed)
    latin = LatinReader() if _is_installed("kanalizer") else None
    return MixedTts(voices, persona.readings, latin, name=japanese.name)


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
