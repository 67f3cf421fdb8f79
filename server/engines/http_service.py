"""Asks a server that hears or speaks: one request, its answer in pieces, and another try where that can help.

A connection that breaks off before the answer is made anew once (a kept one may have died unseen); a server that is
busy is asked again as it says, in short waits, while there is time. Closing the iterator closes the connection at
once. Knows no engine; what an answer means its caller reads.

Errors are raised anew, without the client's own behind them, which repeat headers and bodies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import httpx2

from server.engines import http_errors
from server.engines.http_client import EndpointRefusal, open_client, read_json
from server.engines.http_endpoint import HttpEndpoint
from server.errors import EngineError

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=EngineError)
Result = TypeVar("Result")
OnHead = Callable[[str], None]

_WAITS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Before another try, at least; longer where a busy server asks for it. The last one repeats."""
_SHARE_OF_TIME = 0.9
"""Of the time for the whole, so that the engine's own error comes before a time-out that knows nothing."""
# What a client library raises when it meets what it did not expect, or was closed under a request.
_DEFECTS = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, RuntimeError, httpx2.StreamError)


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `private`: what was said, for no message to repeat."""

    path: str
    method: Literal["GET", "POST"] = "POST"
    params: Mapping[str, str] | None = field(default=None, repr=False)
    json: Any = field(default=None, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    files: Mapping[str, tuple[str, bytes, str]] | None = field(default=None, repr=False)
    private: tuple[str, ...] = field(default=(), repr=False)


class FieldRefused(Exception):
    """The server wants a request without one of its fields."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def _nothing(media_type: str) -> None:
    """For whom it does not matter."""


class HttpService(Generic[Kind]):
    """`timeout_seconds`: longest time for one answer with everything; `connect_timeout_seconds`: to be let in."""

    def __init__(
        self, endpoint: HttpEndpoint, error: type[Kind], *, timeout_seconds: float, connect_timeout_seconds: float
    ) -> None:
        self.endpoint = endpoint
        self.error = error
        self._seconds = timeout_seconds * _SHARE_OF_TIME
        self._timeout = httpx2.Timeout(timeout_seconds, connect=min(connect_timeout_seconds, timeout_seconds))
        self._http: httpx2.AsyncClient | None = None

    async def start(self) -> None:
        if self._http is None:
            self._http = await asyncio.to_thread(open_client, self.endpoint, self._timeout)

    async def close(self) -> None:
        """Close every connection. Safe to call twice and before `start()`."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def stream(
        self, call: Call, on_head: OnHead = _nothing, *, dispensable: tuple[str, ...] = ()
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of one answer as they come, none of them empty; asked again only before the first.

        `on_head` is told its media type first, in lower case. Raises the engine's error, or `FieldRefused` for a field
        in `dispensable` that the server does not take.
        """
        tries = self._tries()
        while True:
            begun = False
            failure: Kind | None = None
            async with aclosing(self.once(call, tries.ends_at, on_head, dispensable=dispensable)) as pieces:
                try:
                    async for piece in pieces:
                        begun = True
                        yield piece
                except self.error as error:
                    failure = error
            if failure is None:
                return
            if begun or not await self._may_ask_again(failure, tries):
                raise failure

    async def tried(self, ask: Callable[[float], Awaitable[Result]]) -> Result:
        """What `ask` gives in the end; asked again also after half an answer, for nothing of it was given on.

        `ask`: told when its time is over, on the loop's clock. Raises what `ask` raises.
        """
        tries = self._tries()
        while True:
            failure: Kind
            try:
                return await ask(tries.ends_at)
            except self.error as error:
                failure = error
            if not await self._may_ask_again(failure, tries):
                raise failure

    async def whole(self, call: Call, most_bytes: int, *, dispensable: tuple[str, ...] = ()) -> tuple[str, bytes]:
        """Media type and body of one answer. Raises as `stream`, also for more than `most_bytes`."""

        async def ask(ends_at: float) -> tuple[str, bytes]:
            kinds: list[str] = []
            body = bytearray()
            async with aclosing(self.once(call, ends_at, kinds.append, dispensable=dispensable)) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > most_bytes:
                        raise self.without_end()
            return kinds[-1], bytes(body)

        return await self.tried(ask)

    async def once(
        self, call: Call, ends_at: float, on_head: OnHead = _nothing, *, dispensable: tuple[str, ...] = ()
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of one answer to one request, up to this time of the loop's clock. Raises as `stream`."""
        late = False
        async with aclosing(self._ask(call, on_head, dispensable)) as pieces:
            try:
                while (piece := await _next_until(pieces, ends_at)) is not None:
                    yield piece
            except TimeoutError:
                late = True
        if late:
            raise http_errors.transport_error(self.error, httpx2.ReadTimeout("slow"), self.endpoint)

    async def document(self, path: str) -> Any:
        """A small JSON document of the server; None for anything else. Asked for once. Raises the engine's error."""
        failure: Kind
        try:
            return await read_json(self._running(), self.endpoint, path)
        except TimeoutError:
            failure = http_errors.transport_error(self.error, httpx2.ReadTimeout("slow"), self.endpoint)
        except EndpointRefusal as refusal:
            failure = self._refused(refusal, ())
        except (httpx2.HTTPError, httpx2.InvalidURL, *_DEFECTS) as error:
            failure = self._failed(error)
        raise failure

    def without_end(self) -> Kind:
        """The error of an answer that is larger than any can be."""
        return self.error(f"{self.endpoint.where} sends something without end.")

    def told(self, fields: Mapping[str, Any], private: tuple[str, ...] = ()) -> Kind:
        """The error that an error object means which came where an answer should be."""
        inner = fields.get("error")
        status = http_errors.status_in(inner if isinstance(inner, Mapping) else fields, private)
        text = http_errors.words(fields)
        return http_errors.status_error(self.error, status, {}, text, self.endpoint, private=private)

    async def _ask(self, call: Call, on_head: OnHead, dispensable: tuple[str, ...]) -> AsyncGenerator[bytes, None]:
        """One request. Raises the engine's error or `FieldRefused`."""
        http = self._running()
        failure: Kind | FieldRefused
        try:
            async with http.stream(
                call.method,
                f"{self.endpoint.base_url}{call.path}",
                params=call.params,
                json=call.json,
                data=call.form,
                files=call.files,
                headers=self.endpoint.headers(),
            ) as response:
                on_head(str(response.headers.get("content-type", "")).partition(";")[0].strip().lower())
                async with aclosing(response.aiter_bytes()) as pieces:
                    async for piece in pieces:
                        if piece:
                            yield piece
                return
        except self.error as error:
            failure = error
        except EndpointRefusal as refusal:
            field_name = http_errors.refused_field(refusal.status, refusal.text, dispensable, private=call.private)
            failure = FieldRefused(field_name) if field_name is not None else self._refused(refusal, call.private)
        except (httpx2.HTTPError, httpx2.InvalidURL, *_DEFECTS) as error:
            failure = self._failed(error)
        raise failure

    def _refused(self, refusal: EndpointRefusal, private: tuple[str, ...]) -> Kind:
        text = http_errors.provider_text(refusal.text)
        hint = http_errors.url_hint(self.endpoint) if refusal.status in (404, 405) else None
        return http_errors.status_error(
            self.error, refusal.status, refusal.headers, text, self.endpoint, private=private, refusal_hint=hint
        )

    def _failed(self, error: Exception) -> Kind:
        if isinstance(error, httpx2.HTTPError):
            return http_errors.transport_error(self.error, error, self.endpoint)
        # Nothing of it is shown: it may quote what was sent.
        return self.error(f"{self.endpoint.where} cannot be asked: {type(error).__name__}.", code="engine_unavailable")

    def _tries(self) -> _Tries:
        return _Tries(asyncio.get_running_loop().time() + self._seconds)

    async def _may_ask_again(self, failure: Kind, tries: _Tries) -> bool:
        """Whether another try may help and there is time; returns when it is due."""
        left_seconds = tries.ends_at - asyncio.get_running_loop().time()
        wait_seconds = 0.0
        if failure.code.endswith("_timeout") and tries.busy is not None:
            raise tries.busy  # that is why there was no time left
        if failure.code.endswith("_cut") and not tries.reconnected:
            tries.reconnected = True
        elif failure.retryable and failure.code.endswith(("_overloaded", "_rate_limited")):
            usual = _WAITS_SECONDS[min(tries.waits, len(_WAITS_SECONDS) - 1)]
            wait_seconds = max(usual, failure.retry_after_seconds or 0.0)
            tries.waits += 1
            tries.busy = failure
        else:
            return False
        if wait_seconds >= left_seconds:
            return False
        log.info("%s is asked again: %s", self.endpoint.where, failure.code)
        await asyncio.sleep(wait_seconds)
        return True

    def _running(self) -> httpx2.AsyncClient:
        if self._http is None:
            raise self.error(
                f"{self.endpoint.service.who} is not running.", code="engine_unavailable", hint="Start it before use."
            )
        return self._http


@dataclass(slots=True)
class _Tries:
    """What was tried for one answer. `ends_at`: on the loop's clock."""

    ends_at: float
    waits: int = 0
    busy: EngineError | None = None
    """The last answer of a busy server."""
    reconnected: bool = False


async def _next_until(pieces: AsyncGenerator[bytes, None], ends_at: float) -> bytes | None:
    """The next piece, None at the end. Raises `TimeoutError` at this time of the loop's clock."""
    async with asyncio.timeout_at(ends_at):
        return await anext(pieces, None)
