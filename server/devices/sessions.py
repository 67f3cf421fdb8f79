"""`/v1/sessions` over HTTP: ending a conversation before its idle time has run out.

Knows who may end which; what a session is and what is done with its words afterwards is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi import Path as PathParam
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field

from server.devices import openapi
from server.devices.endpoint import CallerOf, live_service
from server.errors import NotFoundError

SessionId = Annotated[str, PathParam(description="`session_id` of an answer.", max_length=128)]


class EndedSession(BaseModel):
    """A conversation that is over."""

    session_id: str
    closed_at: datetime = Field(description="When it ended; asked again, the same.")


def sessions_router(session_ended: Callable[[str], Awaitable[None]], clock: Callable[[], datetime]) -> APIRouter:
    """The endpoint. `session_ended` is told of every session that was ended here, once it is stored."""
    router = APIRouter(prefix="/v1/sessions", tags=["turns"], dependencies=[Depends(HTTPBearer(auto_error=False))])

    @router.post(
        "/{session_id}/end", response_model=EndedSession, summary="End a conversation", responses=openapi.END_SESSION
    )
    async def end_session(request: Request, session_id: SessionId, caller: CallerOf) -> EndedSession:
        """What was said in it is taken in for memory now, and the next words begin another.

        For the owner and for the device it was held with. A session that has ended stays as it is.
        """
        journal = live_service(request).journal
        found = await journal.find_session(session_id)
        # Somebody else's session looks like none.
        if found is None or not (caller.device_id is None or caller.device_id == found.device_id):
            raise NotFoundError("There is no such session.", code="session_not_found")
        if found.closed_at is not None:
            return EndedSession(session_id=session_id, closed_at=found.closed_at)
        closed_at = await journal.end_session(session_id, clock())
        await session_ended(session_id)
        return EndedSession(session_id=session_id, closed_at=closed_at)

    return router
