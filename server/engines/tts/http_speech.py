"""From the pieces of a server's answer to chunks of sound, as they come.

What the answer is, its first bytes say rather than its declared type: servers send WAV as anything, and pages and
error objects as sound. Knows no server and no request.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

import numpy as np

from server.audio.wav_stream import PcmStream, WavStream
from server.engines.http_errors import url_hint, web_page
from server.engines.http_service import Call, HttpService
from server.errors import AudioError, TtsError
from server.events import AudioChunk, Pcm16

_CHUNK_SECONDS = 0.04
"""Of sound, at least, before it is given on: a network's pieces may be of a few bytes."""
_LONGEST_SECONDS = 120.0
"""Of sound for one request; a voice that goes on is running away."""
_MOST_TEXT_BYTES = 64 * 1024
_COMPRESSED = (b"ID3", b"OggS", b"fLaC")
_NO_SOUND = ("text/", "application/json", "application/problem")
_OTHER_SOUND = ("audio/mpeg", "audio/mp3", "audio/ogg", "audio/opus", "audio/aac", "audio/flac", "audio/mp4")


async def spoken(
    service: HttpService[TtsError], call: Call, *, raw_rate_hz: int | None = None, dispensable: tuple[str, ...] = ()
) -> AsyncGenerator[AudioChunk, None]:
    """The sound that answers one request, int16 mono, chunk by chunk. `raw_rate_hz`: of samples without a header.

    Raises `TtsError`, or `FieldRefused` for a field in `dispensable`.
    """
    reader = SoundReader(service, raw_rate_hz=raw_rate_hz, private=call.private)
    async with aclosing(service.stream(call, reader.head, dispensable=dispensable)) as pieces:
        async for piece in pieces:
            if (chunk := reader.push(piece)) is not None:
                yield chunk
    if (chunk := reader.finish()) is not None:
        yield chunk


class SoundReader:
    """Feed the bytes of one answer. `private`: what was said, which no error repeats."""

    def __init__(
        self, service: HttpService[TtsError], *, raw_rate_hz: int | None = None, private: tuple[str, ...] = ()
    ) -> None:
        self._service = service
        self._raw_rate_hz = raw_rate_hz
        self._private = private
        self._type = ""
        self._begin = b""
        """Bytes by which it is not told yet what this is; then the text of what is no sound."""
        self._sound: WavStream | PcmStream | None = None
        self._is_text = False
        self._ready: list[Pcm16] = []
        self._ready_samples = self._all_samples = 0

    def head(self, media_type: str) -> None:
        """The answer's declared type, in lower case."""
        self._type = media_type

    def push(self, data: bytes) -> AudioChunk | None:
        """What is ready after `data`. Raises `TtsError` for what is no sound, or has no end."""
        if self._sound is None:
            data = self._begin = self._begin + data
            if self._is_text:
                if len(data) > _MOST_TEXT_BYTES:
                    raise self._no_sound()
                return None
            if len(data) < 4:
                return None
            self._choose(data)
            if self._sound is None:
                return None
            self._begin = b""
        return self._take(data)

    def finish(self) -> AudioChunk | None:
        """The rest. Raises `TtsError` when the answer was no sound, or is cut; None when it was empty."""
        if self._sound is None:
            if self._begin:
                raise self._no_sound()
            return None
        if isinstance(self._sound, WavStream):
            try:
                self._sound.finish()
            except AudioError as error:
                cut = error.message
            else:
                cut = ""
            if cut:
                raise TtsError(f"{self._service.endpoint.where} broke off: {cut}", code="tts_cut", retryable=True)
        return self._chunk()

    def _choose(self, data: bytes) -> None:
        if data.startswith(b"RIFF"):
            self._sound = WavStream()
        elif (
            self._raw_rate_hz is None
            or self._type.startswith((*_NO_SOUND, *_OTHER_SOUND))
            or data.startswith(_COMPRESSED)
        ):
            self._is_text = True
        else:
            self._sound = PcmStream(self._raw_rate_hz)

    def _take(self, data: bytes) -> AudioChunk | None:
        assert self._sound is not None
        damage = ""
        samples = np.zeros(0, np.int16)
        try:
            samples = self._sound.push(data)
        except AudioError as error:
            damage = error.message
        if damage:
            raise TtsError(f"{self._service.endpoint.where} sends sound that cannot be used: {damage}")
        self._ready.append(samples)
        self._ready_samples += len(samples)
        self._all_samples += len(samples)
        rate_hz = self._sound.sample_rate_hz
        if rate_hz is None:
            return None
        if self._all_samples > _LONGEST_SECONDS * rate_hz:
            raise self._service.without_end()
        return self._chunk() if self._ready_samples >= _CHUNK_SECONDS * rate_hz else None

    def _chunk(self) -> AudioChunk | None:
        rate_hz = self._sound.sample_rate_hz if self._sound is not None else None
        samples = np.concatenate(self._ready) if self._ready else np.zeros(0, np.int16)
        self._ready, self._ready_samples = [], 0
        return AudioChunk(samples, rate_hz) if len(samples) and rate_hz is not None else None

    def _no_sound(self) -> TtsError:
        """The error of an answer with a good status that is something else."""
        endpoint = self._service.endpoint
        text = self._begin[:_MOST_TEXT_BYTES].decode("utf-8", "replace").strip()
        if self._type == "text/html" or text.startswith("<"):
            return web_page(TtsError, endpoint, "a voice")
        if (fields := _error_object(text)) is not None:
            return self._service.told(fields, self._private)
        if self._type.startswith(_OTHER_SOUND) or self._begin.startswith(_COMPRESSED):
            return TtsError(
                f"{endpoint.where} sends {self._type or 'compressed sound'}, which is not read here.",
                code="tts_refused",
                hint="Use a server that sends WAV, or raw PCM with tts.format (STACKCHAN_TTS__FORMAT) pcm.",
            )
        return TtsError(f"{endpoint.where} sends something that is no sound.", hint=url_hint(endpoint))


def _error_object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
