"""`/v1/turns` over HTTP: the simplest way for a device to talk.

Turns requests into `TurnRequest`s and results into JSON or sound. Decides nothing about a turn itself; errors leave
here as exceptions and become answers in `api/problems.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi import Path as PathParam
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer

from server.devices import openapi
from server.devices.auth import Authorizer, Caller
from server.devices.headers import Preferences, TurnHeaders, preferences_of, turn_headers
from server.devices.schemas import TraceAnswer, TurnAnswer, turn_answer
from server.devices.speech_formats import CONTENT_TYPES, SpeechFormat, content_length, default_rate, encode
from server.devices.uploads import Decoder, Upload, UploadLimits
from server.errors import BusyError, NotFoundError, OverloadError, RequestError, StackChanError
from server.pipeline.journal import KeyTakenError, StoredTurn, TurnJournal
from server.pipeline.runner import StartedTurn, TurnRunner
from server.storage.speech import SpeechStore

SpeechFormatParam = Annotated[SpeechFormat, Query(description="`pcm`: 16-bit little-endian mono without a header.")]
SpeechRate = Annotated[
    Literal["16000", "24000"] | None, Query(description="Samples a second; without it as it was made.")
]
TurnId = Annotated[int, PathParam(description="`turn_id` of an answer.", examples=[384])]
Until = Annotated[
    Literal["end", "speech"],
    Query(description="What `Prefer: wait` waits for: the turn's end, or the first sound (or the end without one)."),
]
PreferHeader = Annotated[
    str | None,
    Header(description="`wait=N`: the answer may take up to N seconds (at most 30).", examples=["wait=20"]),
]
_PRIVATE = {"Cache-Control": "private, no-store"}


@dataclass(frozen=True, slots=True)
class TurnService:
    """What the endpoints need; there once the server is ready."""

    authorizer: Authorizer
    runner: TurnRunner
    journal: TurnJournal
    speech: SpeechStore
    limits: UploadLimits
    decoder: Decoder
    speech_sample_rate_hz: int

    def answer(self, stored: StoredTurn) -> TurnAnswer:
        """A turn read from storage, without the address of speech that is gone."""
        answer = turn_answer(stored.result, self.speech_sample_rate_hz, speaks=stored.speaks)
        if stored.ended_at is not None and self.speech.has_expired(stored.ended_at.timestamp()):
            return answer.model_copy(update={"audio": None})
        return answer


def live_service(request: Request) -> TurnService:
    """The service of this application; `app.state.turn_service` raises a `starting` error until it is ready."""
    service: TurnService = request.app.state.turn_service()
    return service


async def current_caller(request: Request) -> Caller:
    return await live_service(request).authorizer.caller(request.headers.get("authorization"))


CallerOf = Annotated[Caller, Depends(current_caller)]


async def stored_turn(request: Request, turn_id: TurnId, caller: CallerOf) -> StoredTurn:
    """The turn a path names, if this caller may see it. Raises `NotFoundError`."""
    stored = await live_service(request).runner.read(turn_id) if 0 < turn_id < 2**63 else None
    # Somebody else's turn looks like none: a token must not find out which numbers are in use.
    if stored is None or not caller.may_see(stored.device_id):
        raise NotFoundError(f"There is no turn {turn_id}.", code="turn_not_found")
    return stored


StoredTurnOf = Annotated[StoredTurn, Depends(stored_turn)]


async def headers_of(
    request: Request,
    caller: CallerOf,
    device_id: Annotated[
        str | None,
        Header(
            description="Which device speaks: 1 to 64 letters, digits and `. _ : -`. The owner's token may name a new "
            "one; a device's token needs none.",
            json_schema_extra={"pattern": r"^[A-Za-z0-9._:-]{1,64}$"},
        ),
    ] = None,
    session_id: Annotated[
        str | None,
        Header(
            description="The device's own label for its conversation. A new label starts a new conversation.",
            json_schema_extra={"pattern": r"^[\x21-\x7e]{1,128}$"},
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="A random text for this request. Sent again with the same key and content, it is answered with "
            "the same turn.",
            json_schema_extra={"pattern": r"^[\x21-\x7e]{1,255}$"},
        ),
    ] = None,
    prefer: Annotated[
        str | None,
        Header(
            description="`respond-async`: answer 202 as soon as the turn is stored; with `wait=N`, only when it has "
            "not ended within N seconds (at most 30).",
            examples=["respond-async, wait=10"],
        ),
    ] = None,
) -> TurnHeaders:
    """The checked headers; declared one by one for the API page, read from the request to notice a double one."""
    return turn_headers(request.headers, caller)


def turns_router() -> APIRouter:
    """The endpoints; they find their service through `live_service`."""
    router = APIRouter(prefix="/v1/turns", tags=["turns"], dependencies=[Depends(HTTPBearer(auto_error=False))])

    @router.post(
        "",
        response_model=TurnAnswer,
        summary="Say something to the robot",
        responses=openapi.CREATE,
        openapi_extra=openapi.REQUEST_BODY,
    )
    async def create_turn(
        request: Request, response: Response, headers: Annotated[TurnHeaders, Depends(headers_of)]
    ) -> TurnAnswer:
        """Send one utterance and wait for the whole answer, or with `Prefer: respond-async` come back for it.

        The reply's sound is at `audio.url`; it can be fetched while it is still being made. Silence is not an error:
        the answer is 200 with `outcome: no_speech`, and the model is not asked. The user's words are stored before the
        reply is made; a model that fails gives 200 with `outcome: failed`, a spoken apology, and `error`.
        """
        live = live_service(request)
        response.headers.update(_PRIVATE)
        upload = Upload(request, live.limits, headers)
        begun = await _begin(live, upload, headers)
        if isinstance(begun, StoredTurn):
            response.headers["Idempotency-Replayed"] = "true"
            started = await live.runner.find(begun.result.turn_id)
            if started is None:
                return await _answer_later(live, response, begun.result.turn_id, Preferences())
        else:
            started = begun
        wanted = headers.preferences
        if wanted.respond_async and not await started.wait(wanted.wait_seconds or 0):
            return await _answer_later(live, response, started.turn.turn_id, wanted)
        if wanted.respond_async:
            response.headers["Preference-Applied"] = wanted.applied()
        return turn_answer(await started.result(), live.speech_sample_rate_hz)

    @router.head("/{turn_id}", include_in_schema=False)
    @router.get("/{turn_id}", response_model=TurnAnswer, summary="Read a turn again", responses=openapi.READ_TURN)
    async def get_turn(
        request: Request, response: Response, stored: StoredTurnOf, until: Until = "end", prefer: PreferHeader = None
    ) -> TurnAnswer:
        """The same object that `POST` gave; of a turn that has not ended, what is known so far."""
        live = live_service(request)
        turn_id = stored.result.turn_id
        seconds = preferences_of(request.headers.getlist("prefer")).wait_seconds
        if stored.ended_at is None and seconds is not None:
            started = await live.runner.find(turn_id)
            if started is not None and until == "speech":
                await started.progress.wait_for_speech(seconds)
            elif started is not None:
                await started.wait(seconds)
            # Also when it is not found any more: it has ended since it was read.
            stored = await live.runner.read(turn_id) or stored
        response.headers.update(_PRIVATE)
        if seconds is not None:
            response.headers["Preference-Applied"] = Preferences(wait_seconds=seconds).applied()
        if stored.ended_at is None:
            response.headers["Retry-After"] = str(live.runner.ask_again_seconds(turn_id))
        return live.answer(stored)

    @router.head("/{turn_id}/trace", include_in_schema=False)
    @router.get("/{turn_id}/trace", response_model=TraceAnswer, summary="Where the time went", responses=openapi.READ)
    async def get_trace(stored: StoredTurnOf) -> TraceAnswer:
        """Stage times in milliseconds since the request was received, tokens and model calls. Holds no words."""
        return TraceAnswer(turn_id=stored.result.turn_id, trace=dict(stored.trace))

    @router.head("/{turn_id}/audio", include_in_schema=False, response_class=StreamingResponse)
    @router.get(
        "/{turn_id}/audio",
        summary="Hear the reply",
        response_class=StreamingResponse,
        responses=openapi.READ_AUDIO,
    )
    async def get_audio(
        request: Request, stored: StoredTurnOf, format: SpeechFormatParam = "wav", rate: SpeechRate = None
    ) -> StreamingResponse:
        """The reply as WAV, raw 16-bit PCM or Ogg-Opus, mono.

        Of a turn that still waits or runs, the answer begins with the first sound and streams as it is made; should
        the voice fail on the way, the sound ends there.
        """
        live = live_service(request)
        try:
            stream = await live.speech.open(stored.result.turn_id)
        except NotFoundError:
            if stored.result.speech_duration_ms is not None:
                raise live.speech.expired() from None
            raise
        rate_hz = int(rate) if rate else default_rate(stream, format)
        length = content_length(stream, format, rate_hz)
        return StreamingResponse(
            _nothing() if request.method == "HEAD" else encode(stream, format, rate_hz),
            media_type=CONTENT_TYPES[format].format(rate=rate_hz),
            headers=_PRIVATE | ({"Content-Length": str(length)} if length else {}),
        )

    return router


async def _begin(live: TurnService, upload: Upload, headers: TurnHeaders) -> StartedTurn | StoredTurn:
    """The turn this request starts, or the one that its key started before.

    A key that is known needs no place: it is answered even when the device is busy or every place is taken.
    """
    device_id, key = headers.device_id, headers.idempotency_key
    known = await live.journal.find(device_id, key) if key is not None else None
    if known is None:
        try:
            with live.runner.admit(device_id, key) as admission:
                body = await upload.read()
                admission.received()
                return await live.runner.start(admission, await upload.turn_request(body, live.decoder))
        except (BusyError, OverloadError, KeyTakenError):
            # Another request with this key may have come in since the look above.
            known = await live.journal.find(device_id, key) if key is not None else None
            if known is None:
                raise
    if known.request_digest not in (None, await upload.digest()):
        raise RequestError(
            "This Idempotency-Key was used for another request.",
            code="idempotency_key_reused",
            hint="Use a new key for each new request.",
        )
    return known


async def _answer_later(live: TurnService, response: Response, turn_id: int, wanted: Preferences) -> TurnAnswer:
    """What is known of a turn now: 202 with where to read the rest, or 200 when it has ended after all."""
    stored = await live.runner.read(turn_id)
    if stored is None:
        raise StackChanError(f"Turn {turn_id} is gone.", code="internal")
    if wanted.respond_async:
        response.headers["Preference-Applied"] = wanted.applied()
    if stored.ended_at is None:
        response.status_code = 202
        response.headers["Location"] = f"/v1/turns/{turn_id}"
        response.headers["Retry-After"] = str(live.runner.ask_again_seconds(turn_id))
    return live.answer(stored)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def not_ready(error: StackChanError | None) -> StackChanError:
    """What the endpoints answer before the server is ready.

    Nobody can be told apart yet, and what went wrong may name folders: that is for the log.
    """
    if error is not None:
        return StackChanError(
            "The server could not start.",
            code="start_failed",
            hint="Its log says why, and so does `stackchan doctor` on its machine.",
        )
    return StackChanError(
        "The models are still loading.", code="starting", retryable=True, hint="Try again in a few seconds."
    )
