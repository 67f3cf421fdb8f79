"""Fake servers that speak and hear, shaped like Irodori-TTS-Server, VOICEVOX and OpenAI's audio interface.

    with running(IrodoriServer()) as voice:
        ... point an engine at voice.url ...
        voice.said                                      # the texts it was given
        voice.play(fail(503), speak())                  # bad moments, see `http_replies.py`

What a good answer sounds like is `TONE` at `RATE_HZ`; what a hearing server has heard is `hears`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from server.audio.codec import encode_wav
from tests.fakes.http_replies import fail
from tests.fakes.http_server import Behaviour, Connection, HttpServer, Recorded

RATE_HZ = 48_000
TONE = np.round(9_000 * np.sin(np.arange(RATE_HZ // 5) * 0.05)).astype(np.int16)
WAV = encode_wav(TONE, RATE_HZ)
WAV_TYPE = {"Content-Type": "audio/wav"}
HEARD = "公園で紅葉の写真を撮ったよ。"
SPEAKERS = [
    {"name": "四国めたん", "styles": [{"name": "ノーマル", "id": 2}, {"name": "あまあま", "id": 0, "type": "talk"}]},
    {
        "name": "白上虎太郎",
        "styles": [
            {"name": "ふつう", "id": 12, "type": "talk"},
            {"name": "わーい", "id": 32, "type": "talk"},
            {"name": "びえーん", "id": 35, "type": "talk"},
            {"name": "うた", "id": 3012, "type": "sing"},
        ],
    },
]


def wav(body: bytes = WAV) -> Behaviour:
    """A whole WAV file."""

    async def behave(connection: Connection) -> None:
        await connection.answer(200, body, WAV_TYPE)

    return behave


def events(*values: Mapping[str, Any]) -> Behaviour:
    """Irodori's events, as they come."""

    async def behave(connection: Connection) -> None:
        await connection.begin()
        for value in values:
            await connection.event(value)
        await connection.end()

    return behave


def sound_event(body: bytes = WAV) -> dict[str, Any]:
    return {"index": 0, "format": "wav", "audio_base64": base64.b64encode(body).decode(), "seed": 7}


def heard(text: str = HEARD, **more: Any) -> Behaviour:
    """A transcription."""

    async def behave(connection: Connection) -> None:
        await connection.answer(200, json.dumps({"text": text, **more}, ensure_ascii=False).encode())

    return behave


async def _list(connection: Connection, value: object) -> None:
    await connection.answer(200, json.dumps(value, ensure_ascii=False).encode())


@dataclass
class SpeechServer(HttpServer):
    """`POST /v1/audio/speech` answers `TONE` as WAV; voices and models are listed, unless None."""

    voices: list[str] | None = field(default_factory=lambda: ["alloy", "nova"])
    models: list[str] | None = field(default_factory=lambda: ["tts-1"])

    @property
    def said(self) -> list[str]:
        return [request.json["input"] for request in self.asked]

    async def usual(self, connection: Connection) -> None:
        path = connection.request.path
        if path.endswith("/audio/voices") and self.voices is not None:
            await _list(connection, {"data": [{"id": voice} for voice in self.voices]})
        elif path.endswith("/models") and self.models is not None:
            await _list(connection, {"data": [{"id": model} for model in self.models]})
        elif path.endswith("/audio/speech"):
            await self.speak(connection)
        else:
            await fail(404, "Not Found")(connection)

    async def speak(self, connection: Connection) -> None:
        await wav()(connection)


@dataclass
class IrodoriServer(SpeechServer):
    """Its own fields; events where they are asked for, unless `streams` is off, as in older versions."""

    voices: list[str] | None = field(default_factory=lambda: ["none", "sample"])
    models: list[str] | None = field(default_factory=lambda: ["irodori-tts"])
    streams: bool = True

    async def speak(self, connection: Connection) -> None:
        asked = connection.request.json
        if asked.get("voice") not in (self.voices or []):
            await fail(400, f"Unknown voice={asked.get('voice')!r}.")(connection)
        elif "stream_format" not in asked:
            await wav()(connection)
        elif self.streams:
            await events(sound_event(), {"chunks": 1})(connection)
        else:
            await fail(400, "stream_format='sse' is not supported by this server.")(connection)

    def matters(self, request: Recorded) -> bool:
        refused = not self.streams and "stream_format" in (request.json if request.method == "POST" else {})
        return super().matters(request) and not refused


@dataclass
class VoicevoxServer(HttpServer):
    """Speakers, readings and sound; `asked` are the syntheses, and only these follow the script."""

    path_prefix: str = ""
    speakers: Any = field(default_factory=lambda: SPEAKERS)

    def matters(self, request: Recorded) -> bool:
        return request.path.startswith("/synthesis")

    @property
    def said(self) -> list[str]:
        return [request.json["text"] for request in self.asked]

    @property
    def styles(self) -> list[int]:
        return [int(_query(request)["speaker"]) for request in self.asked]

    async def usual(self, connection: Connection) -> None:
        request = connection.request
        if request.path == "/speakers":
            await _list(connection, self.speakers)
        elif request.path.startswith("/audio_query"):
            reading = {"accent_phrases": [], "speedScale": 1, "outputSamplingRate": RATE_HZ}
            await _list(connection, reading | {"text": _query(request)["text"]})
        else:
            await wav()(connection)


@dataclass
class HearingServer(HttpServer):
    """`POST /v1/audio/transcriptions` hears `hears`; refuses `verbose_json` unless `tells_more`."""

    hears: str = HEARD
    models: list[str] | None = field(default_factory=lambda: ["Qwen/Qwen3-ASR-0.6B"])
    tells_more: bool = True

    def matters(self, request: Recorded) -> bool:
        return super().matters(request) and not self._refuses(request)

    def form(self, index: int = -1) -> dict[str, str]:
        """The fields of one request that mattered, its file apart."""
        return form_of(self.asked[index])

    async def usual(self, connection: Connection) -> None:
        request = connection.request
        if request.path.endswith("/models") and self.models is not None:
            await _list(connection, {"data": [{"id": model} for model in self.models]})
        elif not request.path.endswith("/audio/transcriptions"):
            await fail(404, "Not Found")(connection)
        elif self._refuses(request):
            await fail(400, "Currently do not support verbose_json for this model")(connection)
        else:
            await heard(self.hears)(connection)

    def _refuses(self, request: Recorded) -> bool:
        return not self.tells_more and b"verbose_json" in request.body


def form_of(request: Recorded) -> dict[str, str]:
    """The text fields of a multipart form."""
    found = re.findall(rb'name="([a-z_]+)"\r\n(?:[^\r]+\r\n)*\r\n(.*?)\r\n--', request.body, re.DOTALL)
    return {name.decode(): value.decode() for name, value in found if name != b"file"}


def file_of(request: Recorded) -> bytes:
    """The file in a multipart form."""
    found = re.search(rb'name="file"; filename="[^"]+"\r\n[^\r]+\r\n\r\n(.*?)\r\n--', request.body, re.DOTALL)
    assert found is not None
    return found[1]


def _query(request: Recorded) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
