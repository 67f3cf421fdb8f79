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
from starlette.routing import Match, Mount

from server import errors
from server.errors import StackChanError
from server.log_context import error_fields
from server.next_steps import next_step

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
        "idempotency_key_reused": 422,
        "method_not_allowed": 405,
        "text_empty": 422,
        "device_forbidden": 403,
        "origin_forbidden": 403,
        "device_revoked": 403,
        "starting": 503,
        "start_failed": 503,
        "stopping": 503,
        "storage_full": 507,
        "arguments_invalid": 422,
        "after_unknown": 422,
        "import_format": 422,
        "import_version": 422,
        "import_line_invalid": 422,
        "import_truncated": 422,
        "import_duplicate": 422,
        "import_line_too_long": 413,
        "import_too_large": 413,
        "body_too_large": 413,
        "index_closed": 503,
        "index_busy": 503,
        "index_locked": 503,
        "index_mismatch": 503,
        "index_unavailable": 503,
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
    elif isinstance(error, errors.BusyError):
        headers["Retry-After"] = "1"
    elif status == 503 and error.retryable:
        headers["Retry-After"] = "2"
    body = {"code": error.code, "message": error.message, "retryable": error.retryable, "hint": error.next_step}
    return JSONResponse({"error": body}, status_code=status, headers=headers)


def _and_close_unsent(request: Request, response: JSONResponse) -> JSONResponse:
    # A client that was not told to send its body may send its next request instead, and nobody could tell them apart.
    if request.headers.get("expect", "").lower() == "100-continue":
        response.headers["Connection"] = "close"
    return response


def _allowed_methods(request: Request) -> list[str]:
    """What the endpoints of this path take. The page's files are mounted over every path and hide that."""
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]
    return [
        method
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


def install_problem_handlers(app: FastAPI) -> None:
    """Make every failure of `app` answer in this one form."""

    async def known(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, StackChanError)
        # A client that polls while the models load would fill the log.
        if status_of(error) >= 500 and status_of(error) != 503:
            _log.error("answered with %s", error.code, extra=error_fields(error))
        return _and_close_unsent(request, problem(error))

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first: dict[str, Any] = dict(error.errors()[0]) if error.errors() else {}
        where = ".".join(str(part) for part in first.get("loc", ()))
        message = f"{where}: {first.get('msg', 'not valid')}"
        return _and_close_unsent(request, problem(errors.RequestError(message, code="body_invalid")))

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        status, message, headers = error.status_code, str(error.detail), dict(error.headers or {})
        allowed = _allowed_methods(request) if status in (404, 405) else []
        if allowed:
            status, message, headers = 405, f"{request.method} is not for this path.", {"Allow": ", ".join(allowed)}
        code = {404: "not_found", 405: "method_not_allowed"}.get(status, "http_error")
        body = {"code": code, "message": message, "retryable": False, "hint": next_step(code)}
        return _and_close_unsent(request, JSONResponse({"error": body}, status_code=status, headers=headers))

    async def defect(request: Request, error: Exception) -> JSONResponse:
        # The route, not what was asked for: a path may hold anything.
        route = getattr(request.scope.get("route"), "path", "") or "the page"
        _log.error("defect while answering %s %s", request.method, route, exc_info=error)
        return problem(StackChanError("Something went wrong inside the server; its log says what.", code="internal"))

    app.add_exception_handler(StackChanError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, defect)
