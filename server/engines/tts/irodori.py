"""Irodori-TTS-Server as the voice: Japanese, 48 kHz, with the feeling as an emoji before the words.

Its model makes one utterance at a time and nothing of it is heard before its end, so every sentence is a request of
its own, and only one is on the way: what is needed next goes first, and a sentence that nobody wants any more is either
never sent, or the only one that the server still has. The answer is asked for as events, because then the server
drops what waits there for a connection that is gone; an older one is asked for the plain file.

Which emoji a feeling is, the persona says; it is part of no text but the request's.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from server.engines import sse
from server.engines.base import SpeechRequest, TtsCapabilities
from server.engines.http_endpoint import HttpEndpoint
from server.engines.http_service import Call, FieldRefused, HttpService
from server.engines.one_at_a_time import OneAtATime
from server.engines.tts.http_speech import SoundReader
from server.engines.tts.scripts import pieces_to_speak
from server.errors import TtsError
from server.events import AudioChunk

log = logging.getLogger(__name__)

DEFAULT_MODEL = "irodori-tts"
DEFAULT_VOICE = "none"
"""Its name for the model's own voice, without a recording to be like."""
_EVENT_BYTES = 32 * 1024**2
"""The longest sentence is some 2 MB of base64."""
_EVENTS = "text/event-stream"


class IrodoriTts:
    """Implements `TtsEngine` for Japanese. `emoji`: feeling -> what stands before the words; others have none.

    `seed`: the voice without a recording is another one for each; a fixed one keeps it.
    """

    name = "irodori"
    capabilities = TtsCapabilities(languages=("ja",), streams=True)

    def __init__(
        self,
        endpoint: HttpEndpoint,
        *,
        voice: str | None = None,
        emoji: Mapping[str, str] | None = None,
        seed: int = 7,
        timeout_seconds: float = 20.0,
        connect_timeout_seconds: float = 5.0,
    ) -> None:
        self._service = HttpService(
            endpoint, TtsError, timeout_seconds=timeout_seconds, connect_timeout_seconds=connect_timeout_seconds
        )
        self._fields: dict[str, Any] = {
            "model": endpoint.model or DEFAULT_MODEL,
            "voice": voice or DEFAULT_VOICE,
            "response_format": "wav",
            "stream_format": "sse",
            # The sentences are cut here already; its own cutting waits for 80 characters.
            "irodori": {"seed": seed, "chunking_enabled": False},
        }
        self._emoji = dict(emoji or {})
        self._turns = OneAtATime()

    async def start(self) -> None:
        """Make the client. A server that is away is noticed when it is asked."""
        await self._service.start()
        log.info("voice: irodori at %s", self._service.endpoint.base_url)

    async def close(self) -> None:
        await self._service.close()

    async def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        """One chunk or more a sentence, int16 mono. Raises `TtsError`."""
        emoji = self._emoji.get(request.emotion, "")
        for piece in pieces_to_speak(request.text):
            async with self._turns.turn(request.need):
                chunks = await self._speak(f"{emoji}{piece}")
            for chunk in chunks:
                yield chunk

    async def _speak(self, text: str) -> list[AudioChunk]:
        while True:
            call = Call("/audio/speech", json=self._fields | {"input": text}, private=(text,))
            refused = ""
            try:
                return await self._service.tried(partial(self._ask, call))
            except FieldRefused as error:
                refused = error.field
            self._fields.pop("stream_format")
            log.info("the voice at %s sends no events (%s): plain files", self._service.endpoint.base_url, refused)

    async def _ask(self, call: Call, ends_at: float) -> list[AudioChunk]:
        dispensable = ("stream_format", "sse") if "stream_format" in self._fields else ()
        answer = _Answer(self._service, call.private)
        async with aclosing(self._service.once(call, ends_at, answer.head, dispensable=dispensable)) as pieces:
            return await answer.read(pieces)


class _Answer:
    """Reads one answer: events with a file each, or the file itself."""

    def __init__(self, service: HttpService[TtsError], private: tuple[str, ...]) -> None:
        self._service = service
        self._private = private
        self._type = ""
        self._chunks: list[AudioChunk] = []

    def head(self, media_type: str) -> None:
        self._type = media_type

    async def read(self, pieces: AsyncIterator[bytes]) -> list[AudioChunk]:
        first = await anext(pieces, b"")
        if self._type != _EVENTS or first.startswith(b"RIFF"):
            reader = self._reader()
            self._keep(reader.push(first))
            async for piece in pieces:
                self._keep(reader.push(piece))
            self._keep(reader.finish())
            return self._chunks
        ended = False
        events = sse.event_data(_joined(first, pieces), _EVENT_BYTES, self._service.without_end)
        async with aclosing(events):
            async for data in events:
                ended = self._event(data) or ended
        if not ended:
            raise TtsError(
                f"{self._service.endpoint.where} broke off before its last event.", code="tts_cut", retryable=True
            )
        return self._chunks

    def _event(self, data: str) -> bool:
        """Take one event; whether it is the last. Raises `TtsError` for one that tells of a failure, or is damaged."""
        fields: Any = None
        with suppress(ValueError, RecursionError):
            fields = json.loads(data)
        if not isinstance(fields, dict):
            raise TtsError(f"{self._service.endpoint.where} sends an event that cannot be read.")
        if fields.get("error"):
            raise self._service.told(fields, self._private)
        sound = fields.get("audio_base64")
        if isinstance(sound, str):
            reader = self._reader()
            self._keep(reader.push(_decoded(sound)))
            self._keep(reader.finish())
        return "chunks" in fields

    def _reader(self) -> SoundReader:
        return SoundReader(self._service, private=self._private)

    def _keep(self, chunk: AudioChunk | None) -> None:
        if chunk is not None:
            self._chunks.append(chunk)


def _decoded(text: str) -> bytes:
    """The bytes that `text` stands for; what is no base64 becomes itself, which is no sound."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")


async def _joined(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for piece in pieces:
        yield piece
