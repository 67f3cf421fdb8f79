"""`GET /next-steps.json`: what to do after each error, in both languages, for the page to show in the reader's.

Open to everybody, as the page itself is: it says nothing of anybody.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from server.next_steps import NEXT_STEPS


def page_words_router() -> APIRouter:
    """The endpoint: `{code: [English, Japanese]}`."""
    router = APIRouter()

    @router.get("/next-steps.json", include_in_schema=False)
    async def steps() -> JSONResponse:
        return JSONResponse(dict(NEXT_STEPS), headers={"Cache-Control": "no-cache"})

    return router
