"""The checks of `stackchan doctor` that ask a voice's or hearing's server: does it answer, and have what is wanted?

They ask with the engines' own connections, so that what is told here is what a turn would meet. Nothing is spoken or
heard: `doctor --bench` does that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from server.commands.doctor_checks import Finding
from server.config import Settings
from server.engines.http_client import names_in
from server.engines.http_endpoint import HttpEndpoint
from server.engines.http_service import HttpService
from server.errors import AsrError, EngineError, TtsError

Kind = TypeVar("Kind", bound=EngineError)

_SECONDS = 5.0
_SHOWN = 8


def check_voice_server(settings: Settings) -> Finding:
    """Whether the voice's server answers, takes the key and has the voice. Raises `ConfigError`."""
    from server.engines.registry import engine_names
    from server.engines.tts.endpoints import resolve_voice_server

    name = engine_names(settings)["tts"]
    endpoint = resolve_voice_server(name, settings.tts)
    look = _look_at_styles if name in ("voicevox", "aivisspeech") else _look_at_voices
    try:
        return asyncio.run(_asked(endpoint, TtsError, lambda service: look(service, settings)))
    except TtsError as error:
        return _failed("Voice", error)


def check_hearing_server(settings: Settings) -> Finding:
    """Whether the hearing's server answers, takes the key and has the model. Raises `ConfigError`."""
    from server.engines.asr.openai_transcription import resolve_hearing_server

    endpoint = resolve_hearing_server(settings.asr)
    try:
        return asyncio.run(_asked(endpoint, AsrError, _look_at_hearing))
    except AsrError as error:
        return _failed("Hearing", error)


async def _asked(
    endpoint: HttpEndpoint, error: type[Kind], look: Callable[[HttpService[Kind]], Awaitable[Finding]]
) -> Finding:
    service = HttpService(endpoint, error, timeout_seconds=_SECONDS, connect_timeout_seconds=_SECONDS)
    await service.start()
    try:
        return await look(service)
    finally:
        await service.close()


async def _look_at_styles(service: HttpService[TtsError], settings: Settings) -> Finding:
    from server.engines.tts.voicevox import read_styles, usual_style

    offered = read_styles(await service.document("/speakers"))
    chosen = usual_style(offered, settings.tts.voice, service.endpoint)
    return Finding("Voice", "ok", f"{service.endpoint.name} at {service.endpoint.base_url}, {chosen.shown}")


async def _look_at_voices(service: HttpService[TtsError], settings: Settings) -> Finding:
    endpoint = service.endpoint
    where = f"{endpoint.name} at {endpoint.base_url}"
    listed = await _listed(service, "/audio/voices", ("voices", "data"))
    model_problem = await _model_problem("Voice", service, where)
    if model_problem is not None:
        return model_problem
    voice = settings.tts.voice or ("none" if endpoint.name == "irodori" else None)
    if listed is None or voice is None:
        detail = f"{where}, {'it lists no voices' if listed is None else 'no voice is set'}"
        if voice is None and listed:
            todo = f"Set tts.voice (STACKCHAN_TTS__VOICE) to one of / これらから選んでください: {_few(listed)}"
            return Finding("Voice", "warn", detail, todo)
        return Finding("Voice", "ok", f"{detail}, voice {voice}" if voice else detail)
    if voice not in listed:
        todo = f"Set tts.voice (STACKCHAN_TTS__VOICE) to one it has / これらから選んでください: {_few(listed)}"
        return Finding("Voice", "fail", f"{where} has no voice {voice}", todo)
    return Finding("Voice", "ok", f"{where}, voice {voice}")


async def _look_at_hearing(service: HttpService[AsrError]) -> Finding:
    from server.engines.asr.openai_transcription import choose_hearing_model

    where = f"{service.endpoint.name} at {service.endpoint.base_url}"
    problem = await _model_problem("Hearing", service, where)
    if problem is not None:
        return problem
    listed = await _listed(service, "/models", ("data",))
    model = service.endpoint.model or choose_hearing_model(listed or ())
    return Finding("Hearing", "ok", f"{where}, model {model}")


async def _model_problem(check: str, service: HttpService[Kind], where: str) -> Finding | None:
    """What is wrong with the model that the settings name, where the server says which it has."""
    model = service.endpoint.model
    listed = await _listed(service, "/models", ("data",)) if model is not None else None
    if not listed or model in listed:
        return None
    section = service.endpoint.service.section
    todo = f"Set {section}.model (STACKCHAN_{section.upper()}__MODEL) to one it has / これらから選んでください: "
    return Finding(check, "warn", f"{where} does not list the model {model}", todo + _few(listed))


async def _listed(service: HttpService[Kind], path: str, keys: tuple[str, ...]) -> list[str] | None:
    """The names in a list that servers need not have; None when this one has none. Raises for any other failure."""
    value: Any = None
    try:
        value = await service.document(path)
    except service.error as error:
        if not error.code.endswith("_refused"):
            raise
    if not isinstance(value, Mapping):
        return None
    listed = next((value[key] for key in keys if key in value), None)
    if isinstance(listed, list) and listed and all(isinstance(name, str) for name in listed):
        return [str(name) for name in listed]
    return names_in(listed)


def _failed(check: str, error: EngineError) -> Finding:
    return Finding(check, "warn" if error.code.endswith("_rate_limited") else "fail", error.message, error.next_step)


def _few(names: list[str]) -> str:
    more = f" (+{len(names) - _SHOWN})" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
