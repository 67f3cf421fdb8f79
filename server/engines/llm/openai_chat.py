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

from server.engines.base import LlmCapabilities, LlmDelta, LlmMessage, LlmRequest
from server.engines.llm import openai_errors
from server.engines.llm.openai_request import completion_body, estimated_tokens
from server.engines.llm.openai_stream import ChatReader, Chunk, chunks_of, sse_data, whole_completion
from server.engines.llm.presets import Endpoint, choose_model
from server.errors import LlmError

log = logging.getLogger(__name__)

_MAX_TOOLS = 128
_BODY_BYTES = 4 * 1024**2
# Asking for the list of models must not add much to a turn that has failed already.
_LIST_SECONDS = 3.0
# A connection outlives a pause in the conversation: to a cloud a new one costs some 0.2 s. One that the endpoint has
# closed meanwhile is noticed before it is used.
_KEPT_SECONDS = 60.0
# Without these a completion still works, more slowly or less exactly.
_DISPENSABLE = ("stream_options", "response_format", "seed", "temperature")
_NOT_SENT = (
    *("OpenAI-Organization", "OpenAI-Project"),
    *("X-Stainless-Lang", "X-Stainless-Package-Version", "X-Stainless-OS", "X-Stainless-Arch"),
    *("X-Stainless-Runtime", "X-Stainless-Runtime-Version", "X-Stainless-Async"),
)


class OpenAiChatLlm:
    """`endpoint`: where and how to ask. `context_tokens`: the window the model is served with.

    `timeout_seconds`: longest silence within an answer, its beginning included; `connect_timeout_seconds`: longest time
    to be let in; `warming_timeout_seconds`: longest silence of a local server that loads its model at start.
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
        self._warming_timeout = httpx2.Timeout(warming_timeout_seconds, connect=connect_timeout_seconds)
        self._client: Any = None
        self._model = endpoint.model
        self._refused: set[str] = set()

    async def start(self) -> None:
        """Make the client, and choose a model where none is named. An endpoint that is away is only a warning."""
        self._client = await asyncio.to_thread(_connect, self._endpoint, self._timeout)
        if self._model is None:
            try:
                await self._model_name()
            except LlmError as error:
                log.warning("the language model is not there yet: %s", error)
        else:
            log.info("language model: %s at %s", self._model, self._endpoint.base_url)

    async def close(self) -> None:
        """Close every connection. Safe to call twice and before `start()`."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def generate(self, request: LlmRequest) -> AsyncGenerator[LlmDelta, None]:
        """Stream one completion. Closing the iterator early closes the connection at once.

        Raises `LlmError`, after all text that arrived was given. Its codes are told in `server/errors.py`.
        """
        reader = ChatReader(request.tools)
        failure: LlmError | None = None
        async with aclosing(self._chunks(request, self._timeout)) as chunks:
            try:
                async for chunk in chunks:
                    for delta in reader.feed(chunk):
                        yield delta
            except LlmError as error:
                failure = error
        for delta in reader.finish() if failure is None else reader.cut():
            yield delta
        if failure is not None:
            raise failure
        yield reader.done()

    async def count_tokens(self, text: str) -> int:
        """About the tokens in `text`, on the high side: endpoints do not tell."""
        return estimated_tokens(text)

    async def warm_prefix(self, messages: Sequence[LlmMessage]) -> None:
        """Let a local endpoint load its model and read the prefix; a cloud needs no warming. Never raises."""
        if not self._endpoint.local:
            return
        request = LlmRequest((*messages, LlmMessage("user", "…")), max_tokens=1)
        try:
            async with aclosing(self._chunks(request, self._warming_timeout)) as chunks:
                async for _ in chunks:
                    pass
        except LlmError as error:
            log.warning("the language model could not be warmed: %s", error)

    # --- requests ---

    async def _chunks(self, request: LlmRequest, limits: httpx2.Timeout) -> AsyncGenerator[Chunk, None]:
        """The chunks of one completion; asks again only without a field that was refused. Raises only `LlmError`."""
        model = await self._model_name()
        private = [message.content for message in request.messages if message.role in ("user", "tool")]
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

        if self._client is None:
            raise LlmError("The language model is not running.", code="engine_unavailable", hint="Start it before use.")
        failure: LlmError | _FieldRefused
        known = ("model", "messages", "stream")
        completions = self._client.chat.completions.with_streaming_response
        try:
            async with completions.create(
                **{key: body[key] for key in known},
                extra_headers=_headers(self._endpoint),
                extra_body={key: value for key, value in body.items() if key not in known},
                timeout=limits,
            ) as response:
                async with aclosing(self._read(response, private)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
        except LlmError as error:
            failure = error
        except openai.APIStatusError as error:
            failure = await self._refusal(error, body, private)
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            failure = openai_errors.transport_error(error, self._endpoint)
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
            raise LlmError(
                f"The address {self._endpoint.base_url} answers with a web page, not as a language model.",
                code="llm_refused",
                hint="Check llm.base_url (STACKCHAN_LLM__BASE_URL); most end in /v1.",
            )
        async with aclosing(pieces):
            if kind == "application/json":
                yield _sound(whole_completion(await _whole(pieces)), self._endpoint, private)
                return
            async with aclosing(chunks_of(sse_data(pieces))) as chunks:
                async for chunk in chunks:
                    yield _sound(chunk, self._endpoint, private)

    async def _refusal(self, error: Any, body: Mapping[str, Any], private: Sequence[str]) -> LlmError | _FieldRefused:
        status, text = error.status_code, _text_of(error.response)
        dispensable = [*_DISPENSABLE, *self._endpoint.thinking_off, "max_tokens"]
        refused = openai_errors.refused_field(status, text, [name for name in dispensable if name in body])
        if refused is not None and refused not in self._refused:
            return _FieldRefused(refused)
        failure = openai_errors.status_error(status, error.response.headers, text, self._endpoint, private=private)
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
        import openai

        if self._client is None:
            raise LlmError("The language model is not running.", code="engine_unavailable", hint="Start it before use.")
        failure: LlmError
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                page = await self._client.models.list(extra_headers=_headers(self._endpoint))
            listed = getattr(page, "data", None)
            return [model.id for model in listed or () if isinstance(getattr(model, "id", None), str)]
        except TimeoutError:
            failure = openai_errors.transport_error(httpx2.ReadTimeout("slow"), self._endpoint)
        except openai.APIStatusError as error:
            response = error.response
            failure = openai_errors.status_error(
                response.status_code, response.headers, _text_of(response), self._endpoint
            )
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            failure = openai_errors.transport_error(error, self._endpoint)
        except (openai.OpenAIError, RuntimeError, ValueError):
            failure = LlmError(f"The language model at {self._endpoint.base_url} does not list its models.")
        raise failure


class _FieldRefused(Exception):
    """The endpoint refused a field of the request that it can do without."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def _connect(endpoint: Endpoint, timeout: httpx2.Timeout) -> Any:
    """The client; slow to import and to read certificates, so not on the event loop."""
    import openai

    # Only what the settings name: the client would add keys and accounts that the environment holds for another
    # provider, and tell what machine this is. A redirect would carry what was said to a place nobody named.
    nothing: Any = openai.omit
    client = openai.AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key="unused",  # the header comes from `_headers`
        max_retries=0,
        default_headers=dict.fromkeys(_NOT_SENT, nothing),
        http_client=httpx2.AsyncClient(
            timeout=timeout,
            limits=httpx2.Limits(keepalive_expiry=_KEPT_SECONDS),
            trust_env=not endpoint.loopback,
            follow_redirects=False,
        ),
    )
    client.admin_api_key = None
    return client


def _headers(endpoint: Endpoint) -> dict[str, Any]:
    """For every request: the client insists on a key unless its header is left out by name."""
    import openai

    return {"Authorization": openai.omit, **endpoint.headers()}


def _sound(chunk: Chunk, endpoint: Endpoint, private: Sequence[str]) -> Chunk:
    """The chunk, if it is not an error. Raises `LlmError`."""
    if chunk.get("error"):
        raise openai_errors.stream_error(chunk["error"], endpoint, private=private)
    if "choices" not in chunk and ("message" in chunk or "code" in chunk):
        raise openai_errors.stream_error(chunk, endpoint, private=private)
    return chunk


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    body = b""
    async for piece in pieces:
        body += piece
        if len(body) > _BODY_BYTES:
            raise LlmError("The language model's endpoint sends something without end.")
    return body


def _text_of(response: httpx2.Response) -> str:
    try:
        return response.text
    except (httpx2.StreamError, ValueError):
        return ""
