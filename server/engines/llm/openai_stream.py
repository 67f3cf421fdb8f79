"""The answer of a chat endpoint, from bytes to deltas: events, chunks, merged tool calls, usage.

Tolerates what endpoints really send: tool calls without index or id, all with index 0, whole or in fragments; a whole
completion in place of a stream; no end mark after the finish. Asks nothing (bytes come as an iterator) and does not
know what an answer means.
"""

from __future__ import annotations

import ast
import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import jiter

from server.engines.base import LlmDone, LlmText, LlmToolCall, ToolSpec
from server.engines.llm.decision import clean_text
from server.engines.llm.openai_content import ContentReader
from server.errors import LlmError

_DONE = "[DONE]"
# More than any answer; a stream without line ends must not fill the memory.
_EVENT_BYTES = 4 * 1024**2
# After the finish only usage and the end mark follow. An endpoint that keeps its stream open must not keep the robot.
_AFTER_FINISH_SECONDS = 1.0

Chunk = Mapping[str, Any]


async def sse_data(pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """The data of each event, its lines joined. Raises `LlmError` when one has no end."""
    buffer = b""
    data: list[str] = []
    async for piece in pieces:
        *lines, buffer = (buffer + piece).split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "replace").removesuffix("\r").removeprefix("\ufeff")
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield "\n".join(data)
                data = []
        if len(buffer) + sum(map(len, data)) > _EVENT_BYTES:
            raise LlmError("The language model's endpoint sends something without end.")
    line = buffer.decode("utf-8", "replace").removesuffix("\r")
    if line.startswith("data:"):
        data.append(line[5:].removeprefix(" "))
    if data:
        yield "\n".join(data)


async def chunks_of(events: AsyncGenerator[str, None]) -> AsyncGenerator[Chunk, None]:
    """The chunks in these events, up to the end of the answer.

    Raises `LlmError`: `llm_cut` when the stream ends before its answer, `llm_failed` for what is no chunk. An error
    object is yielded as it came: the caller knows the endpoint.
    """
    finished = begun = False
    async with aclosing(events):
        while True:
            try:
                async with asyncio.timeout(_AFTER_FINISH_SECONDS if finished else None):
                    data = await anext(events)
            except StopAsyncIteration:
                break
            except TimeoutError:
                break
            except (httpx2.HTTPError, LlmError):
                if finished:  # the answer is whole; how its connection ends does not matter
                    break
                raise
            if data.strip() == _DONE:
                finished = True
            elif data.strip():
                begun = True
                chunk = _chunk(data)
                yield chunk
                finished = finished or any(choice.get("finish_reason") for choice in _choices(chunk))
    if not finished:
        raise LlmError(
            "The language model's answer broke off." if begun else "The language model's endpoint sent nothing.",
            code="llm_cut",
            retryable=True,
        )


def whole_completion(body: bytes) -> Chunk:
    """A completion that was not streamed, as one chunk. Raises `LlmError` when it is none."""
    return _chunk(body.decode("utf-8", "replace"))


class ChatReader:
    """Feed the chunks of one completion; get its deltas, and at its end what only the end made whole."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._content = ContentReader(tools)
        self._calls = ToolCallMerger(tools)
        self._called = False
        self._finish_reason = ""
        self._usage: Mapping[str, Any] = {}
        self._half = ""
        self.said = False
        """Some text was given."""

    def feed(self, chunk: Chunk) -> list[LlmText | LlmToolCall]:
        """What became readable. Raises `LlmError`."""
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            self._usage = usage
        out: list[LlmText | LlmToolCall] = []
        for choice in _choices(chunk):
            if choice.get("index") not in (None, 0):
                continue
            self._finish_reason = str(choice.get("finish_reason") or self._finish_reason)
            delta = choice.get("delta") or choice.get("message")
            if not isinstance(delta, Mapping):
                continue
            # Thinking comes in fields of its own names (`reasoning`, `reasoning_content`): they are not read.
            out += self._content.feed(self._text(delta.get("content")))
            calls = delta.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, Mapping):
                    self._calls.feed(call)
        return self._noted(out)

    def finish(self) -> list[LlmText | LlmToolCall]:
        """The rest, and the native calls. Raises `LlmError`: a call without usable arguments, or nothing at all."""
        out = self._noted([*self._content.finish(), *self._calls.finish()])
        if self._finish_reason == "content_filter" and not self.said and not self._called:
            raise LlmError("The language model's endpoint refuses to answer this.", code="llm_refused")
        if not self.said and not self._called:
            thought = self._finish_reason == "length"
            raise LlmError(
                "The language model gave no answer.",
                code="llm_no_reply",
                retryable=not thought,
                hint="It may have spent its tokens on thinking: see docs/endpoints.md." if thought else None,
            )
        return out

    def cut(self) -> list[LlmText | LlmToolCall]:
        """What can still be said of an answer that broke off."""
        return self._noted(list(self._content.cut()))

    def done(self) -> LlmDone:
        finish: Literal["stop", "length", "tool_calls"] = "length" if self._finish_reason == "length" else "stop"
        details = self._usage.get("prompt_tokens_details")
        return LlmDone(
            finish_reason="tool_calls" if self._called else finish,
            prompt_tokens=_count(self._usage.get("prompt_tokens")),
            cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, Mapping) else 0,
            completion_tokens=_count(self._usage.get("completion_tokens")),
        )

    def _noted(self, out: list[LlmText | LlmToolCall]) -> list[LlmText | LlmToolCall]:
        """The same deltas, every call with an id: the messages that follow need one."""
        noted: list[LlmText | LlmToolCall] = []
        for item in out:
            if isinstance(item, LlmToolCall):
                self._called = True
                item = LlmToolCall(item.name, item.arguments, item.call_id or made_up_id())
            else:
                self.said = True
            noted.append(item)
        return noted

    def _text(self, content: object) -> str:
        """Content as clean text; half a surrogate pair waits for its other half."""
        if isinstance(content, list):
            content = "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
        text = self._half + (content if isinstance(content, str) else "")
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        text = text.removesuffix(self._half) if self._half else text
        return clean_text(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""
    given: dict[str, Any] | None = field(default=None)


class ToolCallMerger:
    """Puts streamed native tool calls together."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def feed(self, delta: Mapping[str, Any]) -> None:
        """Take one element of a delta's `tool_calls`."""
        function = delta.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, call_id = str(function.get("name") or ""), str(delta.get("id") or "")
        call = self._which(delta.get("index"), call_id, name)
        call.id = call.id or call_id
        if name and name != call.name:
            call.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            call.given = arguments
        elif isinstance(arguments, str):
            call.arguments += arguments

    def finish(self) -> list[LlmToolCall]:
        """Every call, whole. Raises `LlmError` when one's arguments cannot be understood."""
        return [self._whole(call) for call in self._calls if call.name]

    def _which(self, index: object, call_id: str, name: str) -> _Call:
        """The call that a piece belongs to. Another id, or a name after arguments, begins another call whatever the
        index says: some endpoints send index 0 for all of them, or none."""
        known = self._by_index.get(index) if isinstance(index, int) else (self._calls[-1] if self._calls else None)
        same_id = next((call for call in self._calls if call_id and call.id == call_id), None)
        if same_id is not None:
            known = same_id
        elif known is not None and (
            (call_id and known.id) or (name and known.arguments and (name != known.name or not isinstance(index, int)))
        ):
            known = None
        if known is None:
            known = _Call()
            self._calls.append(known)
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _whole(self, call: _Call) -> LlmToolCall:
        given = call.given if call.given is not None else read_arguments(call.arguments, self._tools.get(call.name))
        if given is None:
            raise LlmError(f"The model's arguments for {call.name} are not a JSON object.", retryable=True)
        return LlmToolCall(clean_text(call.name), _clean(given), call.id)


def read_arguments(text: str, tool: ToolSpec | None = None) -> dict[str, Any] | None:
    """A call's arguments from what the model wrote; None when nothing can be made of it.

    Mends what is plain: nothing written, text after the object, a raw line break, quotes of Python, JSON inside a
    string, a missing end; and bare words for a `tool` that takes exactly one text.
    """
    text = text.strip()
    if not text:
        return {}
    value = _loose_json(text)
    if isinstance(value, str) and text[0] == '"':
        inner = _loose_json(value.strip())
        value = inner if isinstance(inner, dict) else value
    if isinstance(value, dict):
        return value
    properties = tool.parameters.get("properties", {}) if tool is not None else {}
    if len(properties) == 1 and text[0] not in "{[":
        ((key, schema),) = properties.items()
        if schema.get("type") == "string":
            return {key: value if isinstance(value, str) else text}
    return None


def made_up_id() -> str:
    """An id for a call that came without one."""
    return f"call_{secrets.token_hex(6)}"


def _loose_json(text: str) -> object:
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        pass
    if text.startswith("{"):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
        try:
            return jiter.from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings") or None
        except ValueError:
            pass
    return None


def _chunk(data: str) -> Chunk:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise LlmError("The language model's endpoint sent something that is no answer.", retryable=True)
    return value


def _choices(chunk: Chunk) -> list[Mapping[str, Any]]:
    choices = chunk.get("choices")
    return [choice for choice in choices if isinstance(choice, Mapping)] if isinstance(choices, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean(item) for key, item in value.items()}
    return value
