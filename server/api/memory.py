"""The owner's memory over HTTP: look, search, edit, forget, export, import, rebuild, audit, backup.

The owner's token only, checked before a body is read. Knows HTTP; what is done is in `server.memory` and `storage`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from server.api.memory_schemas import (
    AuditInfo,
    ForgottenInfo,
    ImportInfo,
    MemoryDetail,
    MemoryEdit,
    MemoryPage,
    MemoryStatusInfo,
    Problem,
    Queued,
    RebuildInfo,
    WouldForget,
)
from server.errors import RequestError, StackChanError
from server.log_context import error_fields
from server.memory.audit import SAMPLE_LIMIT, audit
from server.memory.owner import MemoryOwner, Wanted
from server.memory.recall import CANDIDATES_LIMIT
from server.memory.transfer import export_lines
from server.storage.backup import Archive
from server.storage.recall_tables import MemoryType

Backup = Callable[[], AbstractAsyncContextManager[Archive]]
"""Makes a copy of everything, there until the block ends."""
_EDIT_BYTES_LIMIT = 64 * 1024
_SILENCE_SECONDS = 30.0
"""A body that stops coming for so long is given up."""
_log = logging.getLogger(__name__)

_Responses = dict[int | str, dict[str, Any]]
_EVERYWHERE: _Responses = {
    401: {"model": Problem, "description": "`token_missing`, `token_invalid`"},
    403: {"model": Problem, "description": "`device_forbidden`: a device's token does not open this"},
    503: {"model": Problem, "description": "`starting`, `stopping`, `start_failed`"},
}


def _problem(codes: str) -> dict[str, Any]:
    return {"model": Problem, "description": codes}


_ONE: _Responses = {404: _problem("`memory_not_found`"), 410: _problem("`memory_forgotten`")}
_BAD: _Responses = {422: _problem("`arguments_invalid`, `body_invalid`, `after_unknown`")}
AlsoSource = Annotated[bool, Query(description="blank the exchanges it came from, too")]
_JSON_LINES, _TAR = "application/x-ndjson", "application/x-tar"


class _HeldResponse(StreamingResponse):
    """Ends what `held` keeps when the answer is over, also one that nobody read."""

    def __init__(self, content: AsyncIterator[bytes], held: AsyncExitStack, **options: Any) -> None:
        super().__init__(content, **options)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)


def memory_router(
    owner: Callable[[], MemoryOwner],
    owner_only: Callable[[str | None], Awaitable[None]],
    *,
    backup: Backup,
    version: str,
) -> APIRouter:
    """All endpoints. `owner` and `owner_only` (given the `Authorization` header) raise a `StackChanError`."""

    async def authorize(request: Request) -> None:
        await owner_only(request.headers.get("authorization"))

    router = APIRouter(
        tags=["memory"], dependencies=[Depends(HTTPBearer(auto_error=False)), Depends(authorize)], responses=_EVERYWHERE
    )

    @router.get("/v1/memory/status", summary="What is kept, what waits", response_model=MemoryStatusInfo)
    async def status() -> Any:
        """Counts of turns, memories and waiting work, what was given up and why, and the state of the index."""
        return await owner().status()

    @router.get("/v1/memories", summary="List or search", response_model=MemoryPage, responses=_BAD)
    async def find(
        query: Annotated[str | None, Query(max_length=1000, description="ranked by meaning and words")] = None,
        limit: Annotated[int, Query(ge=1, le=CANDIDATES_LIMIT)] = 20,
        after: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
        status: Literal["active", "superseded", "forgotten", "all"] = "active",
        memory_type: Annotated[MemoryType | None, Query(alias="type")] = None,
        entity: Annotated[str | None, Query(max_length=200, description="a name that it is about")] = None,
        date_from: Annotated[dt.date | None, Query(description="local day, YYYY-MM-DD")] = None,
        date_to: Annotated[dt.date | None, Query(description="local day, itself among them")] = None,
        speaker: Annotated[str | None, Query(max_length=200, description="id of who said it")] = None,
    ) -> Any:
        """With `query` the best matches first, each with its `retrieval_score`; without, the newest first, in pages."""
        wanted = Wanted(query, limit, after, status, memory_type, entity, date_from, date_to, speaker)
        return await owner().find(wanted)

    @router.get("/v1/memories/{memory_id}", summary="One memory", response_model=MemoryDetail, responses=_ONE)
    async def show(memory_id: str) -> Any:
        """All fields, the exact words it was made of, and its older and newer versions."""
        return await owner().show(memory_id)

    @router.patch(
        "/v1/memories/{memory_id}",
        summary="Correct a memory by hand",
        response_model=MemoryDetail,
        responses=_ONE | _BAD | {413: _problem("`body_too_large`")},
        openapi_extra=_body("application/json", MemoryEdit.model_json_schema()),
    )
    async def edit(memory_id: str, request: Request) -> Any:
        """Changes what is given; its vector follows in a moment. The exact words are never changed."""
        body = b"".join([piece async for piece in _pieces(request, _EDIT_BYTES_LIMIT)])
        try:
            changes = MemoryEdit.model_validate_json(body).changes()
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])[:100] or "body"
            raise RequestError(f"{where}: {first['msg']}", code="body_invalid") from None
        return await owner().edit(memory_id, changes)

    @router.get(
        "/v1/memories/{memory_id}/forgetting",
        summary="What forgetting it would take",
        response_model=WouldForget,
        responses={404: _ONE[404]},
    )
    async def would_forget(memory_id: str, also_source: AlsoSource = True) -> Any:
        """Changes nothing. The same numbers that `DELETE` gives, unless something is said in between."""
        return await owner().would_forget(memory_id, also_source=also_source)

    @router.delete(
        "/v1/memories/{memory_id}",
        summary="Forget for good",
        response_model=ForgottenInfo,
        responses={404: _ONE[404]},
    )
    async def forget(memory_id: str, also_source: AlsoSource = True) -> Any:
        """Forgets it and its older versions, then looks whether anything still finds them. No backup brings it back."""
        return await owner().forget(memory_id, also_source=also_source)

    @router.get(
        "/v1/memory/export",
        summary="All memories as JSON Lines",
        response_class=StreamingResponse,
        responses={200: {"content": {_JSON_LINES: {}}}},
    )
    async def export(request: Request) -> StreamingResponse:
        """What is remembered, with the exact words. A file without its last line, `{"end": …}`, was cut."""
        at = owner()
        headers = _download(f"stackchan-memory-{at.clock():%Y%m%d}.jsonl")
        if request.method == "HEAD":
            return StreamingResponse(_nothing(), media_type=_JSON_LINES, headers=headers)
        lines = export_lines(at.databases, now=at.clock(), server_version=version)
        return StreamingResponse(_told(lines), media_type=_JSON_LINES, headers=headers)

    @router.post(
        "/v1/memory/import",
        summary="Take an export in",
        response_model=ImportInfo,
        responses={
            413: _problem("`import_too_large`, `import_line_too_long`"),
            422: _problem(
                "`import_format`, `import_version`, `import_line_invalid`, `import_truncated`, `import_duplicate`: the "
                "message names the line"
            ),
            507: _problem("`storage_full`"),
        },
        openapi_extra=_body(_JSON_LINES, {"type": "string", "format": "binary"}),
    )
    async def take_in(request: Request) -> Any:
        """All of it or nothing. Memories that are here stay as they are; what was forgotten here does not come back."""
        at = owner()
        done = await at.imports.take_in(_pieces(request, None))
        at.wake()
        return done

    @router.post(
        "/v1/memory/rebuild",
        summary="Make all vectors anew",
        status_code=202,
        response_model=RebuildInfo,
        responses={409: _problem("`rebuild_running`")},
    )
    async def rebuild() -> Any:
        """Begins in the background; `GET` tells how far it is. Turns go on, and words are searched meanwhile."""
        rebuilding = owner().rebuilding
        rebuilding.start()
        return rebuilding.state()

    @router.get("/v1/memory/rebuild", summary="How far the rebuild is", response_model=RebuildInfo)
    async def rebuild_state() -> Any:
        """Of the one that runs, or the last one."""
        return owner().rebuilding.state()

    @router.post("/v1/memory/retry", summary="Try again what was given up", response_model=Queued)
    async def retry() -> Any:
        """Every parked job gets all its attempts again."""
        return await owner().retry()

    @router.get("/v1/memory/audit", summary="What was kept and what was left out", response_model=AuditInfo)
    async def sample_log(sample: Annotated[int, Query(ge=1, le=SAMPLE_LIMIT)] = 20) -> Any:
        """Draws from the owner's own log, with the exact words, so that one can count what was rightly kept."""
        return await audit(owner().databases, sample=sample)

    @router.get(
        "/v1/backup",
        summary="Everything in one file",
        response_class=StreamingResponse,
        responses={200: {"content": {_TAR: {}}}, 507: _problem("`storage_full`")},
    )
    async def make_backup(request: Request) -> StreamingResponse:
        """A consistent copy of memory, made beside running turns. Put back by `stackchan restore`."""
        at = owner()
        headers = _download(f"stackchan-{at.clock():%Y%m%d-%H%M%S}.tar")
        if request.method == "HEAD":
            return StreamingResponse(_nothing(), media_type=_TAR, headers=headers)
        stack = AsyncExitStack()
        archive = await stack.enter_async_context(backup())
        headers["Content-Length"] = str(archive.size)
        return _HeldResponse(archive.pieces(), stack, media_type=_TAR, headers=headers)

    for route in list(router.routes):
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
            router.add_api_route(
                route.path,
                route.endpoint,
                methods=["HEAD"],
                include_in_schema=False,
                response_model=route.response_model,
                response_class=route.response_class,
            )
    return router


async def _nothing() -> AsyncIterator[bytes]:
    """The body of an answer to `HEAD`. The length of one that was not made is not told."""
    return
    yield b""


def _body(content_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {content_type: {"schema": schema}}}}


def _download(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}


async def _pieces(request: Request, limit_bytes: int | None) -> AsyncIterator[bytes]:
    """The body as it comes. Raises `RequestError`."""
    stream = request.stream().__aiter__()
    length = 0
    while True:
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise RequestError("The body stopped coming.", code="body_timeout", retryable=True) from None
        except ClientDisconnect:
            raise RequestError(
                "The connection ended within the body.", code="body_incomplete", retryable=True
            ) from None
        length += len(piece)
        if limit_bytes is not None and length > limit_bytes:
            raise RequestError(f"The body is larger than {limit_bytes} bytes.", code="body_too_large")
        yield piece


async def _told(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`lines`; a failure is logged, and ends them without their last line."""
    try:
        async for line in lines:
            yield line
    except StackChanError as error:
        _log.error("an export broke off: %s", error.code, extra=error_fields(error))
