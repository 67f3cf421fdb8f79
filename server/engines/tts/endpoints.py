"""Which voice server the settings mean: the address, key and names of each kind. Pure; contacts nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from server.config_sections import TtsSettings
from server.engines.http_endpoint import HttpEndpoint, Service, resolve_access
from server.errors import ConfigError

OPENAI_SPEECH = "openai-speech"
VOICEVOX = Service("tts", "The voice", "it is the address without a path")
SPEECH = Service("tts", "The voice", "most end in /v1")


@dataclass(frozen=True, slots=True)
class _Usual:
    """A kind of server. `base_url`: where it is when nothing else is set; None: it has no usual address."""

    base_url: str | None
    to_start: str


_USUAL: Mapping[str, _Usual] = MappingProxyType(
    {
        "irodori": _Usual(
            "http://127.0.0.1:8088/v1",
            "Start Irodori-TTS-Server: `uv run python -m irodori_openai_tts --port 8088`. / "
            "Irodori-TTS-Server を起動してください。",
        ),
        "voicevox": _Usual(
            "http://127.0.0.1:50021", "Start VOICEVOX or its engine. / VOICEVOX（またはエンジン）を起動してください。"
        ),
        "aivisspeech": _Usual(
            "http://127.0.0.1:10101",
            "Start AivisSpeech or its engine. / AivisSpeech（またはエンジン）を起動してください。",
        ),
        OPENAI_SPEECH: _Usual(
            None, "Check that the voice's server runs. / 音声合成サーバーが動いているか確かめてください。"
        ),
    }
)
VOICE_SERVERS = tuple(_USUAL)
"""The engines that are servers."""


@dataclass(frozen=True, slots=True)
class SpeechEndpoint(HttpEndpoint):
    """A server with `/v1/audio/speech`."""

    service: ClassVar[Service] = SPEECH


@dataclass(frozen=True, slots=True)
class VoicevoxEndpoint(HttpEndpoint):
    """A server with VOICEVOX's interface."""

    service: ClassVar[Service] = VOICEVOX


def resolve_voice_server(name: str, settings: TtsSettings) -> HttpEndpoint:
    """The server that the engine `name` asks. Raises `ConfigError` when it has no address, or what cannot be sent."""
    usual = _USUAL[name]
    base_url = settings.base_url or usual.base_url
    if base_url is None:
        raise ConfigError(
            f"{SPEECH.setting('base_url')}: the engine {name} needs to know which server to ask.",
            hint="Write it like http://127.0.0.1:8880/v1.",
        )
    access = resolve_access("tts", base_url, settings.api_key)
    kind = VoicevoxEndpoint if name in ("voicevox", "aivisspeech") else SpeechEndpoint
    return kind(
        base_url=access.base_url,
        model=settings.model,
        authorization=access.authorization,
        secrets=access.secrets,
        name=name,
        to_start=usual.to_start,
    )
