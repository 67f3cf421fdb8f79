"""What the OpenAPI page tells of `/v1/turns` beside the schemas: bodies, headers, and every status with its codes."""

from __future__ import annotations

from typing import Any

from server.devices.schemas import Problem, TextTurn, TurnAnswer

Responses = dict[int | str, dict[str, Any]]

AUDIO_BODY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A recording of one utterance (at most 60 s and 4 MiB as shipped), or typed text.",
        "content": {
            "audio/wav": AUDIO_BODY,
            "audio/pcm;rate=16000": AUDIO_BODY,
            "audio/flac": AUDIO_BODY,
            "audio/ogg": AUDIO_BODY,
            "audio/mpeg": AUDIO_BODY,
            "application/json": {"schema": TextTurn.model_json_schema()},
        },
    }
}


def _header(description: str, kind: str = "string") -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


_RETRY_AFTER = {"Retry-After": _header("Seconds until it is worth asking again.", "integer")}
_APPLIED = {"Preference-Applied": _header("What was done of `Prefer`.")}
_REPLAYED = {"Idempotency-Replayed": _header("`true`: the turn of an earlier request with this key.")}


def _problem(codes: str, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"model": Problem, "description": codes, **({"headers": headers} if headers else {})}


_EVERYWHERE: Responses = {
    401: _problem("`token_missing`, `token_invalid`", {"WWW-Authenticate": _header("`Bearer`")}),
    500: _problem("`internal`, `storage_failed`: a fault of the server; its log says more"),
    503: _problem(
        "`starting`: the models are still loading; `stopping`: the server goes down; `start_failed`: it never came up",
        _RETRY_AFTER,
    ),
}

CREATE: Responses = {
    **_EVERYWHERE,
    200: {
        "description": "The finished turn; `no_speech` and `failed` turns too.",
        "headers": {**_APPLIED, **_REPLAYED},
    },
    202: {
        "model": TurnAnswer,
        "description": "Asked for by `Prefer: respond-async`: the turn is stored and goes on; read it at `Location`.",
        "headers": {
            "Location": _header("The turn's address."),
            **_APPLIED,
            **_RETRY_AFTER,
            **_REPLAYED,
        },
    },
    400: _problem(
        "`device_id_missing`, `device_id_invalid`, `session_id_invalid`, `idempotency_key_invalid`, `body_incomplete`"
    ),
    403: _problem("`device_forbidden`, `device_revoked`"),
    408: _problem("`body_timeout`: the body took longer than a minute, or hardly came"),
    409: _problem(
        "`device_busy`: this device is still in a turn; `idempotency_in_progress`: the first request with this key is "
        "still arriving",
        _RETRY_AFTER,
    ),
    413: _problem("`audio_too_large`, `audio_too_long`, `text_too_long`"),
    415: _problem("`audio_unsupported`, `body_unsupported`"),
    422: _problem("`audio_invalid`, `audio_empty`, `body_invalid`, `text_empty`, `idempotency_key_reused`"),
    429: _problem("`overloaded`: every place is taken", _RETRY_AFTER),
    507: _problem("`storage_full`: the words could not be kept, so nothing was answered"),
}

READ: Responses = {
    **_EVERYWHERE,
    404: _problem("`turn_not_found`"),
    422: _problem("`body_invalid`: the number or a parameter is not understood"),
}

END_SESSION: Responses = {
    **_EVERYWHERE,
    404: _problem("`session_not_found`"),
    422: _problem("`body_invalid`: the id is not understood"),
    507: _problem("`storage_full`: the end could not be kept"),
}

READ_TURN: Responses = {
    **READ,
    200: {"description": "The turn, as far as it is.", "headers": {**_APPLIED, **_RETRY_AFTER}},
}

READ_AUDIO: Responses = {
    **READ,
    200: {
        "description": "The sound; streams while it is being made.",
        "content": dict.fromkeys(("audio/wav", "audio/pcm", "audio/ogg"), AUDIO_BODY),
    },
    404: _problem("`turn_not_found`, `audio_not_found`"),
    409: _problem("`audio_pending`: half a minute has passed and the robot has not begun to speak", _RETRY_AFTER),
    410: _problem("`audio_expired`: speech is kept for an hour"),
}
