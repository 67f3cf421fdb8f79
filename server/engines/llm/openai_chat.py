"""Any OpenAI-compatible chat endpoint as the language model: clouds, or a server on the owner's machines.

Streams, cancels by closing the connection, sends tools natively or described in the prompt, and leaves out the fields
that an endpoint turns out to refuse. It retries nothing: the turn decides. It does not know what a prompt says, which
tools exist, or what an answer means.

The endpoint's key is given to the client at start and is in no message, log line or `repr`: errors are raised anew,
without the client's own behind them, which quote what the provider said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import httpx2

from server.engines.base import LlmCapabilities, LlmDelta, LlmMessage, LlmRequest, ToolSpec
from server.engines.http_client import EndpointRefusal, listed_models
from server.engines.http_errors import web_page
from server.engines.llm import openai_errors
from server.engines.llm.openai_http import Connections, connect, headers_for
from server.engines.llm.openai_request import completion_body, estimated_tokens
from server.engines.llm.openai_stream import ChatReader, Chunk, chunks_of, sse_data, whole_completion
from server.engines.llm.presets import Endpoint, choose_model
from server.errors import LlmError

log = logging.getLogger(__name__)

_MAX_TOOLS = 128
_BODY_BYTES = 1024**2
# After the answer only usage and the end mark follow. An endpoint that keeps its stream open must not keep the robot.
_AFTER_ANSWER_SECONDS = 1.0
# Without these a completion still works, more slowly or less exactly.
_DISPENSABLE = ("stream_options", "response_format", "seed", "temperature")
# What a client library raises when it meets what it did not expect.
_DEFECTS = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, RecursionError)


class OpenAiChatLlm:
    """`endpoint`: where and how to ask. `context_tokens`: the window the model is served with.

    `timeout_seconds`: longest silence within an answer, its beginning included; `connect_timeout_seconds`: longest time
    to be let in; `warming_timeout_seconds`: how long a local server may load its model at start, in total.
    """

    name = "openai"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        context_tokens: int,
        timeout_seconds: float = 60.0,
        connect_timeout_seconds: float = 5.0,
        warming_timeout_seconds: float = 60.0,
    ) -> None:
        self.capabilities = LlmCapabilities(
            native_tools=endpoint.native_tools,
            max_tools=_MAX_TOOLS,
            streams=True,
            context_tokens=context_tokens,
            wants_examples=False,
        )
        self._endpoint = endpoint
        self._timeout = httpx2.Timeout(timeout_seconds, connect=connect_timeout_seconds)
        self._warming_seconds = warming_timeout_seconds
        self._warming_timeout = httpx2.Timeout(warming_timeout_seconds, connect=connect_timeout_seconds)
        self._connections: Connections | None = None
        self._model = endpoint.model
        self._refused: set[str] = set()

    async def start(self) -> None:
        """Make the client, and choose a model where none is named. An endpoint that is away is only a warning."""
        self._connections = await asyncio.to_thread(connect, self._endpoint, self._timeout)
        if self._model is None:
            try:
                await self._model_name()
            except LlmError as error:
                log.warning("the language model is not there yet: %s", error)
        else:
            log.info("language model: %s at %s", self._model, self._endpoint.base_url)

    async def close(self) -> None:
        """Close every connection. Safe to call twice and before `start()`."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.http.aclose()

    async def generate(self, request: LlmRequest) -> AsyncGenerator[LlmDelta, None]:
        """Stream one completion. Closing the iterator early closes the connection at once.

        Raises `LlmError`, after all text that arrived was given. Its codes are told in `server/errors.py`.
        """
        reader = ChatReader(request.tools)
        failure: LlmError | None = None
        ends_at: float | None = None
        loop = asyncio.get_running_loop()
        async with aclosing(self._chunks(request, self._timeout)) as chunks:
            try:
                while (chunk := await _next_until(chunks, ends_at)) is not None:
                    for delta in reader.feed(chunk):
                        yield delta
                    ends_at = (ends_at or loop.time() + _AFTER_ANSWER_SECONDS) if reader.ended else None
            except LlmError as error:
                failure = error
        if reader.whole:
            failure = None  # how the connection of a whole answer ends does not matter
        for delta in reader.finish() if failure is None else reader.cut():
            yield delta
        if failure is not None:
            raise failure
        yield reader.done()

    async def count_tokens(self, text: str) -> int:
        """About the tokens in `text`, on the high side: endpoints do not tell."""
        return estimated_tokens(text)

    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Nothing: an endpoint reads faster than a request for that would reach it."""

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Let a local endpoint load its model and read the prefix; a cloud needs no warming. Never raises."""
        if not self._endpoint.local:
            return
        request = LlmRequest((*messages, LlmMessage("user", "…")), tools=tuple(tools), max_tokens=1)
        try:
            async with (
                asyncio.timeout(self._warming_seconds),
                aclosing(self._chunks(request, self._warming_timeout)) as chunks,
            ):
                async for _ in chunks:
                    pass
        except TimeoutError:
            log.warning("the language model could not be warmed within %g seconds", self._warming_seconds)
        except LlmError as error:
            log.warning("the language model could not be warmed: %s", error)

    # --- requests ---

    async def _chunks(self, request: LlmRequest, limits: httpx2.Timeout) -> AsyncGenerator[Chunk, None]:
        """The chunks of one completion; asks again only without a field that was refused. Raises only `LlmError`."""
        model = await self._model_name()
        private = [message.content for message in request.messages if message.role != "system"]
        while True:
            body = self._accepted(completion_body(request, self._endpoint, model))
            outcome: LlmError | str | None = None
            async with aclosing(self._ask(body, private, limits)) as chunks:
                try:
                    async for chunk in chunks:
                        yield chunk
                except _FieldRefused as refused:
                    outcome = refused.field
                except LlmError as error:
                    outcome = error
            if outcome is None:
                return
            if isinstance(outcome, LlmError):
                raise outcome
            self._refused.add(outcome)
            log.info("the language model at %s takes no %s; it is left out", self._endpoint.base_url, outcome)

    def _accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body without what was refused before; a limit of tokens keeps its newer name."""
        if "max_tokens" in self._refused:
            body["max_completion_tokens"] = body["max_tokens"]
        return {key: value for key, value in body.items() if key not in self._refused}

    async def _ask(
        self, body: Mapping[str, Any], private: Sequence[str], limits: httpx2.Timeout
    ) -> AsyncGenerator[Chunk, None]:
        """One request. Raises `LlmError`, or `_FieldRefused` for a field it would work without."""
        import openai

        connections = self._running()
        failure: LlmError | _FieldRefused
        known = ("model", "messages", "stream")
        completions = connections.client.chat.completions.with_streaming_response
        try:
            async with completions.create(
                **{key: body[key] for key in known},
                extra_headers=headers_for(self._endpoint),
                extra_body={key: value for key, value in body.items() if key not in known},
                timeout=limits,
            ) as response:
                async with aclosing(self._read(response, private)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
        except LlmError as error:
            failure = error
        except EndpointRefusal as error:
            failure = await self._refusal(error, body, private)
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            failure = openai_errors.transport_error(error, self._endpoint)
        except (openai.OpenAIError, *_DEFECTS) as error:
            # Nothing of it is shown: it may quote what was sent.
            log.error("a request to the language model failed: %s", type(error).__name__)
            failure = LlmError(
                f"The language model at {self._endpoint.base_url} could not be asked: {type(error).__name__}."
            )
        except (RuntimeError, httpx2.InvalidURL, httpx2.StreamError) as error:
            # The client was closed under the request, or the address cannot be used.
            failure = LlmError(
                f"The language model at {self._endpoint.base_url} cannot be asked: {type(error).__name__}.",
                code="engine_unavailable",
            )
        # Raised here, outside: the client's exception repeats headers and bodies and must not hang behind it.
        raise failure

    async def _read(self, response: Any, private: Sequence[str]) -> AsyncGenerator[Chunk, None]:
        kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
        pieces = response.iter_bytes()
        if kind == "text/html":
            raise web_page(LlmError, self._endpoint, "a language model")
        async with aclosing(pieces):
            whole, pieces = await _is_whole(pieces, kind)
            if whole:
                yield _sound(whole_completion(await _whole(pieces)), self._endpoint, private)
                return
            async with aclosing(chunks_of(sse_data(pieces))) as chunks:
                async for chunk in chunks:
                    yield _sound(chunk, self._endpoint, private)

    async def _refusal(
        self, error: EndpointRefusal, body: Mapping[str, Any], private: Sequence[str]
    ) -> LlmError | _FieldRefused:
        status, text = error.status, error.text
        dispensable = [*_DISPENSABLE, *self._endpoint.thinking_off, "max_tokens"]
        refused = openai_errors.refused_field(
            status, text, [name for name in dispensable if name in body], private=private
        )
        if refused is not None and refused not in self._refused:
            return _FieldRefused(refused)
        failure = openai_errors.status_error(status, error.headers, text, self._endpoint, private=private)
        if openai_errors.names_missing_model(status, text):
            try:
                offered = await self._offered()
            except LlmError:
                offered = []
            return openai_errors.model_missing(failure, str(body["model"]), offered)
        return failure

    async def _model_name(self) -> str:
        """The model to ask for: the one named, else the first the endpoint has. Raises `LlmError`."""
        if self._model is None:
            chosen = choose_model(await self._offered())
            if chosen is None:
                raise LlmError(
                    f"The language model at {self._endpoint.base_url} has no model.",
                    code="llm_refused",
                    hint="Load one there, or name it in llm.model (STACKCHAN_LLM__MODEL).",
                )
            self._model = chosen
            log.info("language model: %s at %s, the first it has", self._model, self._endpoint.base_url)
        return self._model

    async def _offered(self) -> list[str]:
        """The names of the endpoint's models. Raises `LlmError`."""
        connections = self._running()
        failure: LlmError
        try:
            names = await listed_models(connections.http, self._endpoint)
            if names is not None:
                return names
            failure = LlmError(f"The language model at {self._endpoint.base_url} does not list its models.")
        except TimeoutError:
            failure = openai_errors.transport_error(httpx2.ReadTimeout("slow"), self._endpoint)
        except EndpointRefusal as error:
            failure = openai_errors.status_error(error.status, error.headers, error.text, self._endpoint)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, RuntimeError) as error:
            failure = openai_errors.transport_error(error, self._endpoint)
        raise failure

    def _running(self) -> Connections:
        if self._connections is None:
            raise LlmError("The language model is not running.", code="engine_unavailable", hint="Start it before use.")
        return self._connections


class _FieldRefused(Exception):
    """The endpoint refused a field of the request that it can do without."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


async def _next_until(chunks: AsyncGenerator[Chunk, None], ends_at: float | None) -> Chunk | None:
    """The next chunk; None at the end of the stream, or when it has not come at this time of the loop's clock."""
    try:
        async with asyncio.timeout_at(ends_at):
            return await anext(chunks, None)
    except TimeoutError:
        return None


def _sound(chunk: Chunk, endpoint: Endpoint, private: Sequence[str]) -> Chunk:
    """The chunk, if it is not an error. Raises `LlmError`."""
    if chunk.get("error"):
        raise openai_errors.stream_error(chunk["error"], endpoint, private=private)
    if "choices" not in chunk and ("message" in chunk or "code" in chunk):
        raise openai_errors.stream_error(chunk, endpoint, private=private)
    return chunk


async def _is_whole(pieces: AsyncIterator[bytes], kind: str) -> tuple[bool, AsyncGenerator[bytes, None]]:
    """Whether this is one JSON completion instead of a stream, whatever its content type says; and all of the body."""
    head = b""
    async for piece in pieces:
        head = (head + piece).removeprefix(b"\xef\xbb\xbf").lstrip()
        if head:
            break
    begins = head[:1]
    whole = begins in (b"{", b"[") or (kind == "application/json" and begins not in (b"d", b"e", b"i", b"r", b":"))
    return whole, _joined(head, pieces)


async def _joined(head: bytes, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield head
    async for piece in pieces:
        yield piece


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > _BODY_BYTES:
            raise LlmError("The language model's endpoint sends something without end.")
    return bytes(body)
