"""`/healthz`: the process lives. `/readyz`: a turn can be taken. No token needed, nothing private told."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from server.errors import StackChanError


class StartError(BaseModel):
    """Why the server could not start."""

    code: str
    message: str
    hint: str | None = None


class ReadyAnswer(BaseModel):
    """How far the start has come."""

    status: Literal["starting", "ready", "failed"]
    error: StartError | None = None


class ReadinessView(Protocol):
    """What the health endpoints may know of the start."""

    @property
    def state(self) -> str: ...
    @property
    def error(self) -> StackChanError | None: ...


def health_router(readiness: ReadinessView, version: str) -> APIRouter:
    """The two health endpoints."""
    router = APIRouter(tags=["health"])

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", summary="Is the process alive?")
    async def healthz() -> dict[str, str]:
        """Always 200 while the server runs, also while its models still load."""
        return {"status": "ok", "version": version}

    @router.head("/readyz", include_in_schema=False)
    @router.get(
        "/readyz",
        summary="Can a turn be taken?",
        response_model=ReadyAnswer,
        responses={503: {"model": ReadyAnswer, "description": "`starting`, or `failed` with the error"}},
    )
    async def readyz() -> JSONResponse:
        """200 `ready` when every model is loaded and warm; 503 with `starting` or `failed` otherwise."""
        body: dict[str, Any] = {"status": readiness.state}
        if readiness.error is not None:
            error = readiness.error
            body["error"] = {"code": error.code, "message": error.message, "hint": error.hint}
        return JSONResponse(body, status_code=200 if readiness.state == "ready" else 503)

    return router
