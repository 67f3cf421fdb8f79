"""What a device sends: one utterance as sound or as typed words, read within limits and made a `TurnRequest`.

What can be refused by the head alone is refused before the body is read. Sound is decoded by a few threads only, so
that many uploads at once do not stop everything else. Starts no turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from server.audio.codec import decode_upload
from server.devices.headers import TurnHeaders
from server.devices.schemas import TextTurn
from server.errors import AudioError, RequestError
from server.events import Samples
from server.pipeline.request import TurnRequest
from server.pipeline.visible import is_visible

_UPLOAD_TIMEOUT_SECONDS = 60.0
# A body that hardly comes holds a place that others need: slower than this, it is refused.
_PROGRESS_BYTES = 1024
_PROGRESS_SECONDS = 5.0
_PATIENCE_SECONDS = 5.0
_KEY_CHARACTERS = 80
_DECODER_THREADS = 2
_OTHER_AUDIO_TYPES = ("", "application/octet-stream", "application/ogg", "video/ogg")


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """What one request may bring. Bytes, seconds, characters."""

    upload_bytes: int
    upload_seconds: float
    text_characters: int


class Decoder:
    """Turns recordings into samples, a few at a time."""

    def __init__(self, limits: UploadLimits) -> None:
        self._max_seconds = limits.upload_seconds
        self._threads = ThreadPoolExecutor(_DECODER_THREADS, thread_name_prefix="decode")

    async def decode(self, body: bytes, content_type: str | None) -> Samples:
        """See `decode_upload`. Raises `AudioError`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._decode, body, content_type)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _decode(self, body: bytes, content_type: str | None) -> Samples:
        return decode_upload(body, content_type, max_seconds=self._max_seconds)


class Upload:
    """The body of one request. Raises `RequestError` or `AudioError` at once for what its head forbids."""

    def __init__(self, request: Request, limits: UploadLimits, headers: TurnHeaders) -> None:
        self._request = request
        self._limits = limits
        self._headers = headers
        self._content_type = request.headers.get("content-type", "")
        self._kind = self._content_type.partition(";")[0].strip().lower()
        self._check_head()
        # Everything that makes two requests the same one; length and limits of each part cannot be confused in JSON.
        self._hash = hashlib.sha256(
            json.dumps(["".join(self._content_type.lower().split()), headers.session_label]).encode()
        )
        self._was_read = False

    async def read(self) -> bytes:
        """The whole body, refused as soon as it is known to be too large."""
        body = bytearray()
        await self._receive(body.extend)
        return bytes(body)

    async def digest(self) -> str:
        """Of the whole request, whether its body was read before or not; it is not kept."""
        if not self._was_read:
            await self._receive(lambda piece: None)
        return self._hash.hexdigest()

    async def turn_request(self, body: bytes, decoder: Decoder) -> TurnRequest:
        """What was sent, understood. Raises `RequestError`, `AudioError`."""
        headers = self._headers
        text: TextTurn | None = None
        samples: Samples | None = None
        if self._kind == "application/json":
            text = _read_text(body, self._limits.text_characters)
        else:
            samples = await decoder.decode(body, self._content_type or None)
        return TurnRequest(
            headers.device_id,
            samples=samples,
            text=text.text if text else None,
            session_label=headers.session_label,
            speaker_id=text.speaker if text else None,
            idempotency_key=headers.idempotency_key,
            request_digest=await self.digest() if headers.idempotency_key else None,
        )

    def _check_head(self) -> None:
        encoding = self._request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise RequestError(
                f"A body in the encoding {encoding[:40]} is not taken here.",
                code="body_unsupported",
                hint="Send it as it is, without Content-Encoding.",
            )
        if not (self._kind.startswith("audio/") or self._kind in ("application/json", *_OTHER_AUDIO_TYPES)):
            raise RequestError(
                f"A body of type {self._kind[:80]} is not understood.",
                code="body_unsupported",
                hint='Send audio/wav, audio/pcm;rate=16000, audio/flac, audio/ogg, audio/mpeg, or JSON {"text": "…"}.',
            )
        declared = self._request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._limits.upload_bytes:
            raise self._too_large()

    def _too_large(self) -> AudioError:
        return AudioError(f"The body is larger than {self._limits.upload_bytes} bytes.", code="audio_too_large")

    async def _receive(self, take: Callable[[bytes], None]) -> None:
        self._was_read = True
        length = seen = 0
        now = asyncio.get_running_loop().time
        patience, end = now() + _PATIENCE_SECONDS, now() + _UPLOAD_TIMEOUT_SECONDS
        try:
            async with asyncio.timeout_at(min(end, patience + _PROGRESS_SECONDS)) as limit:
                async for piece in self._request.stream():
                    length += len(piece)
                    if length - seen >= _PROGRESS_BYTES:
                        seen = length
                        limit.reschedule(min(end, max(now(), patience) + _PROGRESS_SECONDS))
                    if length > self._limits.upload_bytes:
                        raise self._too_large()
                    self._hash.update(piece)
                    take(piece)
        except TimeoutError:
            raise RequestError(
                f"The body came too slowly, or did not arrive within {_UPLOAD_TIMEOUT_SECONDS:g} seconds.",
                code="body_timeout",
                retryable=True,
                hint=f"Send at least {_PROGRESS_BYTES} bytes every {_PROGRESS_SECONDS:g} seconds.",
            ) from None
        except ClientDisconnect:  # nobody is left to read this, and it is no defect
            raise RequestError(
                "The connection ended within the body.", code="body_incomplete", retryable=True
            ) from None


def _read_text(body: bytes, limit_characters: int) -> TextTurn:
    try:
        typed = TextTurn.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        where = where if len(where) <= _KEY_CHARACTERS else f"{where[:_KEY_CHARACTERS]}…"
        raise RequestError(f"{where}: {first['msg']}", code="body_invalid", hint='Send {"text": "…"}.') from None
    if len(typed.text) > limit_characters:
        raise RequestError(f"text is longer than {limit_characters} characters.", code="text_too_long")
    if not is_visible(typed.text):
        raise RequestError("text is empty.", code="text_empty")
    return typed
