"""The one place where an error becomes an HTTP answer: `{"error": {code, message, retryable, hint}}`.

Status follows the error's kind; a few codes have their own. Defects are answered without their details, which go to
the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from server import errors
from server.errors import StackChanError
from server.log_context import error_fields

_log = logging.getLogger(__name__)

_STATUS_BY_KIND: tuple[tuple[type[StackChanError], int], ...] = (
    (errors.AudioError, 422),
    (errors.RequestError, 400),
    (errors.AuthError, 401),
    (errors.NotFoundError, 404),
    (errors.GoneError, 410),
    (errors.BusyError, 409),
    (errors.OverloadError, 429),
)
_STATUS_BY_CODE: Mapping[str, int] = MappingProxyType(
    {
        "audio_unsupported": 415,
        "body_unsupported": 415,
        "audio_too_long": 413,
        "audio_too_large": 413,
        "text_too_long": 413,
        "body_invalid": 422,
        "body_timeout": 408,
        "text_empty": 422,
        "device_forbidden": 403,
        "device_revoked": 403,
        "starting": 503,
        "start_failed": 503,
        "stopping": 503,
        "storage_full": 507,
    }
)


def status_of(error: StackChanError) -> int:
    """The HTTP status of an error."""
    if error.code in _STATUS_BY_CODE:
        return _STATUS_BY_CODE[error.code]
    return next((status for kind, status in _STATUS_BY_KIND if isinstance(error, kind)), 500)


def problem(error: StackChanError) -> JSONResponse:
    """The answer for an error, with the headers HTTP asks for."""
    status = status_of(error)
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.OverloadError):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif status == 503 and error.retryable:
        headers["Retry-After"] = "2"
    body = {"code": error.code, "message": error.message, "retryable": error.retryable, "hint": error.hint}
    return JSONResponse({"error": body}, status_code=status, headers=headers)


def install_problem_handlers(app: FastAPI) -> None:
    """Make every failure of `app` answer in this one form."""

    async def known(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, StackChanError)
        # A client that polls while the models load would fill the log.
        if status_of(error) >= 500 and status_of(error) != 503:
            _log.error("answered with %s", error.code, extra=error_fields(error))
        return problem(error)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first: dict[str, Any] = dict(error.errors()[0]) if error.errors() else {}
        where = ".".join(str(part) for part in first.get("loc", ()))
        return problem(errors.RequestError(f"{where}: {first.get('msg', 'not valid')}", code="body_invalid"))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        body = {"code": code, "message": str(error.detail), "retryable": False, "hint": None}
        return JSONResponse({"error": body}, status_code=error.status_code, headers=error.headers)

    async def defect(request: Request, error: Exception) -> JSONResponse:
        _log.error("defect while answering %s %s", request.method, request.url.path, exc_info=error)
        return problem(StackChanError("Something went wrong inside the server; its log says what.", code="internal"))

    app.add_exception_handler(StackChanError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, defect)
