"""The answer of a chat endpoint, from bytes to deltas: events, chunks, merged tool calls, usage.

Tolerates what endpoints really send: tool calls without index or id, all with index 0, whole or in fragments; a whole
completion in place of a stream; no end mark after the finish. Asks nothing (bytes come as an iterator) and does not
know what an answer means.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import jiter

from server.engines import sse
from server.engines.base import LlmDone, LlmText, LlmToolCall, ToolSpec
from server.engines.llm.decision import json_arguments, whole_characters
from server.engines.llm.openai_content import MAX_CALLS, ContentReader
from server.errors import LlmError

# More than any answer; a stream without line ends must not fill the memory.
_EVENT_BYTES = 1024**2
# A connection whose answer was read to its end can be used again; waiting long for that end is not worth it.
_DRAIN_SECONDS = 0.05
_MAX_CALL_CHARACTERS = 65_536
# Where Python's notation differs from JSON: single quotes, constants, a comma at the end. Texts in double quotes are
# passed over, and a text without its end in one go. Python's own parser takes more than JSON has, and does not survive
# deep nesting.
_PYTHON = re.compile(
    r"""'(?P<text>(?:[^'\\]|\\.)*)(?P<end>'?)|"(?:[^"\\]|\\.)*"?|\b(?P<word>True|False|None)\b|,(?=\s*[}\]])""",
    re.DOTALL,
)

Chunk = Mapping[str, Any]


def sse_data(pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """The data of each event. Raises `LlmError` when one has no end."""
    return sse.event_data(pieces, _EVENT_BYTES, _without_end)


def _without_end() -> LlmError:
    return LlmError("The language model's endpoint sends something without end.")


async def chunks_of(events: AsyncGenerator[str, None]) -> AsyncGenerator[Chunk, None]:
    """The chunks in these events, up to the end mark or the end of the stream.

    Raises `LlmError`: `llm_cut` when the stream ends before its answer, `llm_failed` for what is no chunk. An error
    object is yielded as it came: the caller knows the endpoint.
    """
    finished = begun = False
    async with aclosing(events):
        try:
            async for data in events:
                if data.strip() == sse.DONE:
                    await _drain(events)
                    return
                if data.strip():
                    begun = True
                    chunk = _chunk(data)
                    yield chunk
                    finished = finished or any(choice.get("finish_reason") for choice in _choices(chunk))
        except (httpx2.HTTPError, LlmError):
            if not finished:  # else the answer is whole; how its connection ends does not matter
                raise
    if not finished:
        raise LlmError(
            "The language model's answer broke off." if begun else "The language model's endpoint sent nothing.",
            code="llm_cut",
            retryable=True,
        )


async def _drain(events: AsyncGenerator[str, None]) -> None:
    """Read to the end of what nobody needs, if that is near."""
    with suppress(TimeoutError, httpx2.HTTPError, LlmError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in events:
                pass


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

    @property
    def ended(self) -> bool:
        """The answer is over; usage may follow."""
        return bool(self._finish_reason) or self.whole

    @property
    def whole(self) -> bool:
        """An answer in JSON was closed, and no call has begun: what may still come adds no words."""
        return self._content.whole and not self._calls.begun

    def feed(self, chunk: Chunk) -> list[LlmText | LlmToolCall]:
        """What became readable. Raises `LlmError`."""
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            self._usage = usage
        out: list[LlmText | LlmToolCall] = []
        for choice in _choices(chunk):
            if choice.get("index") not in (None, 0):
                continue
            finish_reason = choice.get("finish_reason")
            if finish_reason:
                self._finish_reason = finish_reason if isinstance(finish_reason, str) else "stop"
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
            parts = (part.get("text") for part in content if isinstance(part, Mapping))
            content = "".join(part for part in parts if isinstance(part, str))
        text = self._half + (content if isinstance(content, str) else "")
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        text = text.removesuffix(self._half) if self._half else text
        return whole_characters(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    given: dict[str, Any] | None = field(default=None)


class ToolCallMerger:
    """Puts streamed native tool calls together."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._characters = 0

    @property
    def begun(self) -> bool:
        """Something of a call has come."""
        return bool(self._calls)

    def feed(self, delta: Mapping[str, Any]) -> None:
        """Take one element of a delta's `tool_calls`. Raises `LlmError` for more than any answer needs."""
        function = delta.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, call_id = _written(function.get("name")), _written(delta.get("id"))
        call = self._which(delta.get("index"), call_id, name)
        call.id = call.id or call_id
        if call.id:
            self._by_id[call.id] = call
        if name and name != call.name:
            call.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            call.given = arguments
        elif isinstance(arguments, str) and arguments:
            call.arguments.append(arguments)
        self._characters += len(name) + len(call_id) + len(_written(arguments))
        if len(self._calls) > MAX_CALLS or self._characters > _MAX_CALL_CHARACTERS:
            raise LlmError("The model calls tools without end.", retryable=True)

    def finish(self) -> list[LlmToolCall]:
        """Every call, whole. Raises `LlmError` when one's arguments cannot be understood."""
        return [self._whole(call) for call in self._calls if call.name]

    def _which(self, index: object, call_id: str, name: str) -> _Call:
        """The call that a piece belongs to. Another id, or a name after arguments, begins another call whatever the
        index says: some endpoints send index 0 for all of them, or none."""
        known = self._by_index.get(index) if isinstance(index, int) else (self._calls[-1] if self._calls else None)
        same_id = self._by_id.get(call_id) if call_id else None
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
        name = whole_characters(call.name)
        given = call.given
        if given is None:
            given = read_arguments("".join(call.arguments), self._tools.get(call.name))
        return LlmToolCall(name, json_arguments(given, name), whole_characters(call.id))


def read_arguments(text: str, tool: ToolSpec | None = None) -> dict[str, Any] | None:
    """A call's arguments from what the model wrote; None when nothing can be made of it.

    Mends what is plain: nothing written, text after the object, a raw line break, quotes of Python, JSON inside a
    string, a missing end; and bare words for a `tool` that takes exactly one text. What is in them may be no JSON yet.
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
            return json.JSONDecoder(strict=False).raw_decode(_PYTHON.sub(_as_json, text))[0]
        except (ValueError, RecursionError):
            pass
        try:
            return jiter.from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings") or None
        except ValueError:
            pass
    return None


def _as_json(found: re.Match[str]) -> str:
    """One token of Python's notation in JSON's."""
    if found["word"]:
        return {"True": "true", "False": "false", "None": "null"}[found["word"]]
    if not found["end"]:
        return "" if found[0].startswith(",") else found[0]
    return '"' + re.sub(r"""\\.|\"""", _escaped_for_json, found["text"], flags=re.DOTALL) + '"'


def _escaped_for_json(found: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])


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
    """What an endpoint counted; what no answer can have is not told."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31 else 0


def _written(value: object) -> str:
    return value if isinstance(value, str) else ""
