"""`/healthz`: the process lives. `/readyz`: a turn can be taken. No token needed, nothing private told.

Why a start failed may name folders: only the owner's token reads more than its code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from server.errors import StackChanError

_COULD_NOT_START = "The server could not start."
_WHERE_IT_IS_TOLD = "Its log says why, and so does `stackchan doctor` on its machine."


class StartError(BaseModel):
    """Why the server could not start; `message` and `hint` say more to the owner's token than to others."""

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


def health_router(
    readiness: ReadinessView, version: str, authorize: Callable[[str | None], Awaitable[None]]
) -> APIRouter:
    """The two health endpoints. `authorize` takes the `Authorization` header and raises a `StackChanError`."""
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
    async def readyz(authorization: Annotated[str | None, Header(include_in_schema=False)] = None) -> JSONResponse:
        """200 `ready` when every model is loaded and warm; 503 with `starting` or `failed` otherwise.

        What went wrong is told in full to the owner's token, which is not needed otherwise.
        """
        body: dict[str, Any] = {"status": readiness.state}
        if readiness.error is not None:
            error = readiness.error
            told = (
                (error.message, error.next_step)
                if await is_owner(authorization)
                else (_COULD_NOT_START, _WHERE_IT_IS_TOLD)
            )
            body["error"] = {"code": error.code, "message": told[0], "hint": told[1]}
        return JSONResponse(body, status_code=200 if readiness.state == "ready" else 503)

    async def is_owner(authorization: str | None) -> bool:
        try:
            await authorize(authorization)
        except StackChanError:  # also when no database is open to tell: then only the secrets of this boot are known
            return False
        return True

    return router
