"""`/v1/turns` over HTTP: the simplest way for a device to talk.

Turns requests into `TurnRequest`s and results into JSON or sound. Decides nothing about a turn itself; errors leave
here as exceptions and become answers in `api/problems.py`.
"""

from __future__ import annotations

import asyncio
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi import Path as PathParam
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from server.audio.codec import decode_upload
from server.devices.auth import Authorizer, Caller, device_of, session_label_of
from server.devices.schemas import Problem, TextTurn, TraceAnswer, TurnAnswer, turn_answer
from server.devices.speech_formats import CONTENT_TYPES, SpeechFormat, content_length, default_rate, encode
from server.errors import AudioError, NotFoundError, RequestError, StackChanError
from server.pipeline.journal import StoredTurn, TurnJournal
from server.pipeline.request import TurnRequest
from server.pipeline.runner import TurnRunner
from server.storage.speech import SpeechStore

SpeechFormatParam = Annotated[SpeechFormat, Query(description="`pcm`: 16-bit little-endian mono without a header.")]
SpeechRate = Annotated[
    Literal["16000", "24000"] | None, Query(description="Samples a second; without it as it was made.")
]
TurnId = Annotated[int, PathParam(description="`turn_id` of an answer.", examples=[384])]


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """What one request may bring. Bytes, seconds, characters."""

    upload_bytes: int
    upload_seconds: float
    text_characters: int


@dataclass(frozen=True, slots=True)
class TurnService:
    """What the endpoints need; there once the server is ready."""

    authorizer: Authorizer
    runner: TurnRunner
    journal: TurnJournal
    speech: SpeechStore
    limits: UploadLimits
    speech_sample_rate_hz: int


_UPLOAD_TIMEOUT_SECONDS = 60.0
_AUDIO_BODY = {"schema": {"type": "string", "format": "binary"}}
_REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A recording of one utterance (at most 60 s and 4 MiB as shipped), or typed text.",
        "content": {
            "audio/wav": _AUDIO_BODY,
            "audio/pcm;rate=16000": _AUDIO_BODY,
            "audio/flac": _AUDIO_BODY,
            "audio/ogg": _AUDIO_BODY,
            "audio/mpeg": _AUDIO_BODY,
            "application/json": {"schema": TextTurn.model_json_schema()},
        },
    }
}
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "`device_id_missing`, `device_id_invalid`, `session_id_invalid`"},
    401: {"model": Problem, "description": "`token_missing`, `token_invalid`"},
    403: {"model": Problem, "description": "`device_forbidden`, `device_revoked`"},
    409: {"model": Problem, "description": "`device_busy`: this device is still in a turn"},
    413: {"model": Problem, "description": "`audio_too_large`, `audio_too_long`, `text_too_long`"},
    415: {"model": Problem, "description": "`audio_unsupported`, `body_unsupported`"},
    422: {"model": Problem, "description": "`audio_invalid`, `audio_empty`, `body_invalid`, `text_empty`"},
    429: {"model": Problem, "description": "`overloaded`: try again after `Retry-After` seconds"},
    503: {"model": Problem, "description": "`starting`: the models are still loading; `start_failed`: they never will"},
    507: {"model": Problem, "description": "`storage_full`: the words could not be kept, so nothing was answered"},
}


def live_service(request: Request) -> TurnService:
    """The service of this application; `app.state.turn_service` raises a `starting` error until it is ready."""
    service: TurnService = request.app.state.turn_service()
    return service


async def current_caller(request: Request) -> Caller:
    return await live_service(request).authorizer.caller(request.headers.get("authorization"))


CallerOf = Annotated[Caller, Depends(current_caller)]


async def stored_turn(request: Request, turn_id: TurnId, caller: CallerOf) -> StoredTurn:
    """The turn a path names, if this caller may see it. Raises `NotFoundError`."""
    stored = await live_service(request).journal.read(turn_id) if 0 < turn_id < 2**63 else None
    # Somebody else's turn looks like none: a token must not find out which numbers are in use.
    if stored is None or not caller.may_see(stored.device_id):
        raise NotFoundError(f"There is no turn {turn_id}.", code="turn_not_found")
    return stored


StoredTurnOf = Annotated[StoredTurn, Depends(stored_turn)]


def turns_router() -> APIRouter:
    """The endpoints; they find their service through `live_service`."""
    router = APIRouter(prefix="/v1/turns", tags=["turns"], dependencies=[Depends(HTTPBearer(auto_error=False))])

    @router.post(
        "",
        response_model=TurnAnswer,
        summary="Say something to the robot",
        responses={**_PROBLEMS, 200: {"description": "The finished turn; `no_speech` and `failed` turns too."}},
        openapi_extra=_REQUEST_BODY,
    )
    async def create_turn(
        request: Request,
        caller: CallerOf,
        device_id: Annotated[
            str | None, Header(description="Which device speaks. The owner's token may name a new one.")
        ] = None,
        session_id: Annotated[
            str | None,
            Header(description="The device's own label for its conversation. A new label starts a new conversation."),
        ] = None,
    ) -> TurnAnswer:
        """Send one utterance and wait for the whole answer.

        The reply's sound is at `audio.url`; it can be fetched while it is still being made. Silence is not an error:
        the answer is 200 with `outcome: no_speech`, and the model is not asked. The user's words are stored before the
        reply is made; a model that fails gives 200 with `outcome: failed`, a spoken apology, and `error`.
        """
        live = live_service(request)
        device, label = device_of(caller, device_id), session_label_of(session_id)
        turn_request = await _read_request(request, live.limits, device, label)
        started = await live.runner.start(turn_request)
        return turn_answer(await started.result(), live.speech_sample_rate_hz)

    not_found: dict[int | str, dict[str, Any]] = {
        401: _PROBLEMS[401],
        404: {"model": Problem, "description": "`turn_not_found`"},
        422: {"model": Problem, "description": "`body_invalid`: the number, format or rate is not understood"},
        503: _PROBLEMS[503],
    }

    @router.get("/{turn_id}", response_model=TurnAnswer, summary="Read a turn again", responses=not_found)
    async def get_turn(request: Request, stored: StoredTurnOf) -> TurnAnswer:
        """The same object that `POST` gave; while the turn runs, `status` is `running` and the reply is empty."""
        live = live_service(request)
        result = stored.result
        if live.speech.has_expired(stored.ended_at.timestamp() if stored.ended_at else float("inf")):
            answer = turn_answer(result, live.speech_sample_rate_hz)
            return answer.model_copy(update={"audio": None})
        return turn_answer(result, live.speech_sample_rate_hz)

    @router.get("/{turn_id}/trace", response_model=TraceAnswer, summary="Where the time went", responses=not_found)
    async def get_trace(stored: StoredTurnOf) -> TraceAnswer:
        """Stage times in milliseconds since the request was received, tokens and model calls. Holds no words."""
        return TraceAnswer(turn_id=stored.result.turn_id, trace=dict(stored.trace))

    @router.get(
        "/{turn_id}/audio",
        summary="Hear the reply",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "The sound; streams while it is being made.",
                "content": dict.fromkeys(("audio/wav", "audio/pcm", "audio/ogg"), _AUDIO_BODY),
            },
            **not_found,
            404: {"model": Problem, "description": "`turn_not_found`, `audio_not_found`"},
            410: {"model": Problem, "description": "`audio_expired`: speech is kept for an hour"},
        },
    )
    async def get_audio(
        request: Request, stored: StoredTurnOf, format: SpeechFormatParam = "wav", rate: SpeechRate = None
    ) -> StreamingResponse:
        """The reply as WAV, raw 16-bit PCM or Ogg-Opus, mono. It may be asked for while the turn still runs."""
        live = live_service(request)
        try:
            stream = await live.speech.open(stored.result.turn_id)
        except NotFoundError:
            if stored.result.speech_duration_ms is not None:
                raise live.speech.expired() from None
            raise
        rate_hz = int(rate) if rate else default_rate(stream, format)
        length = content_length(stream, format, rate_hz)
        headers = {"Cache-Control": "private, no-store"} | ({"Content-Length": str(length)} if length else {})
        return StreamingResponse(
            encode(stream, format, rate_hz), media_type=CONTENT_TYPES[format].format(rate=rate_hz), headers=headers
        )

    return router


async def _read_request(
    request: Request, limits: UploadLimits, device_id: str, session_label: str | None
) -> TurnRequest:
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    body = await _read_body(request, limits.upload_bytes)
    if kind == "application/json":
        typed = _read_text(body, limits.text_characters)
        return TurnRequest(device_id, text=typed.text, session_label=session_label, speaker_id=typed.speaker)
    if not (kind.startswith("audio/") or kind in ("", "application/octet-stream", "application/ogg", "video/ogg")):
        raise RequestError(
            f"A body of type {kind[:80]} is not understood.",
            code="body_unsupported",
            hint='Send audio/wav, audio/pcm;rate=16000, audio/flac, audio/ogg or audio/mpeg, or JSON {"text": "…"}.',
        )
    samples = await asyncio.to_thread(decode_upload, body, content_type or None, max_seconds=limits.upload_seconds)
    return TurnRequest(device_id, samples=samples, session_label=session_label)


async def _read_body(request: Request, limit_bytes: int) -> bytes:
    """The body, refused as soon as it is known to be too large."""
    too_large = AudioError(f"The body is larger than {limit_bytes} bytes.", code="audio_too_large")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_UPLOAD_TIMEOUT_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > limit_bytes:
                    raise too_large
    except TimeoutError:
        raise RequestError(
            f"The body did not arrive within {_UPLOAD_TIMEOUT_SECONDS:g} seconds.", code="body_timeout", retryable=True
        ) from None
    except ClientDisconnect:  # nobody is left to read this, and it is no defect
        raise RequestError("The connection ended within the body.", code="body_incomplete", retryable=True) from None
    return bytes(body)


def _read_text(body: bytes, limit_characters: int) -> TextTurn:
    try:
        typed = TextTurn.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise RequestError(f"{where}: {first['msg']}", code="body_invalid", hint='Send {"text": "…"}.') from None
    if len(typed.text) > limit_characters:
        raise RequestError(f"text is longer than {limit_characters} characters.", code="text_too_long")
    # Spaces, control and zero-width characters say nothing.
    if all(unicodedata.category(character)[0] in "CZ" for character in typed.text):
        raise RequestError("text is empty.", code="text_empty")
    return typed


def not_ready(error: StackChanError | None) -> StackChanError:
    """What the endpoints answer before the server is ready."""
    if error is not None:
        return StackChanError(f"The server could not start: {error.message}", code="start_failed", hint=error.hint)
    return StackChanError(
        "The models are still loading.", code="starting", retryable=True, hint="Try again in a few seconds."
    )
