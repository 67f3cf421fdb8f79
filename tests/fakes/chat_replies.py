"""What the fake chat endpoint can be told to do: good, slow, refusing and broken answers.

Each function makes a behaviour: an async function of the `Connection` it writes to. See `chat_server.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tests.fakes.http_replies import fail, html, never, raw_answer
from tests.fakes.http_server import Behaviour, Connection

__all__ = [
    "call_tools",
    "call_tools_in_pieces",
    "chunk",
    "cut",
    "deltas",
    "empty",
    "error_in_stream",
    "fail",
    "garbage",
    "hold",
    "html",
    "never",
    "raw",
    "raw_answer",
    "reset",
    "say",
    "think_then_say",
    "whole",
]

MODEL = "qwen-fake"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}}


def say(
    text: str,
    *,
    step: int = 5,
    finish: str | None = "stop",
    usage: Mapping[str, Any] | None = USAGE,
    first_byte_seconds: float = 0.0,
    drip_seconds: float = 0.0,
    done: bool = True,
) -> Behaviour:
    """Stream `text` in pieces of `step` characters. Seconds before the headers, and between pieces."""
    pieces = [{"content": text[start : start + step]} for start in range(0, len(text), step)]
    return deltas(
        *pieces, finish=finish, usage=usage, first_byte_seconds=first_byte_seconds, drip_seconds=drip_seconds, done=done
    )


def deltas(
    *pieces: Mapping[str, Any],
    finish: str | None = "stop",
    usage: Mapping[str, Any] | None = USAGE,
    first_byte_seconds: float = 0.0,
    drip_seconds: float = 0.0,
    done: bool = True,
) -> Behaviour:
    """Stream these `delta` objects, one an event."""

    async def behave(connection: Connection) -> None:
        await asyncio.sleep(first_byte_seconds)
        await connection.begin()
        await connection.event(chunk({"role": "assistant", "content": ""}))
        for piece in pieces:
            await asyncio.sleep(drip_seconds)
            await connection.event(chunk(piece))
        if finish is not None:
            await connection.event(chunk({}, finish))
        if usage is not None:
            await connection.event({**chunk({}), "choices": [], "usage": dict(usage)})
        if done:
            await connection.event("[DONE]")
        await connection.end()

    return behave


def think_then_say(
    thought: str, text: str, *, how: Literal["tags", "unopened", "unclosed", "field"] = "tags", step: int = 3
) -> Behaviour:
    """Thinking text first: in `<think>` tags, with only the closing or only the opening one, or in a field."""
    if how == "field":
        thoughts = [{"reasoning_content": thought[start : start + step]} for start in range(0, len(thought), step)]
        said = [{"content": text[start : start + step]} for start in range(0, len(text), step)]
        return deltas(*thoughts, *said)
    opened = {"tags": "<think>\n", "unopened": "", "unclosed": "<think>\n"}[how]
    closed = "" if how == "unclosed" else "\n</think>\n\n"
    return say(f"{opened}{thought}{closed}{text}", step=step)


def call_tools(
    *calls: tuple[str, Mapping[str, Any] | str], index: bool = True, ids: bool = True, finish: str = "tool_calls"
) -> Behaviour:
    """Whole native tool calls, all in one event; arguments given as text go as they are."""
    return deltas({"tool_calls": _native(calls, index=index, ids=ids)}, finish=finish)


def call_tools_in_pieces(*calls: tuple[str, Mapping[str, Any] | str], step: int = 4) -> Behaviour:
    """Native tool calls in fragments: id and name only in the first, the pieces of several calls interleaved."""
    first, rest = [], []
    for call in _native(calls, index=True, ids=True):
        function = call["function"]
        first.append({"tool_calls": [{**call, "function": {"name": function["name"], "arguments": ""}}]})
        text = function["arguments"]
        parts = [text[start : start + step] for start in range(0, len(text), step)]
        rest.append([{"tool_calls": [{"index": call["index"], "function": {"arguments": part}}]} for part in parts])
    longest = max(len(parts) for parts in rest)
    mixed = [parts[number] for number in range(longest) for parts in rest if number < len(parts)]
    return deltas(*first, *mixed, finish="tool_calls")


def whole(text: str, *, calls: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> Behaviour:
    """One JSON completion, although a stream was asked for."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = _native(calls, index=False, ids=True)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    body = {"id": "c", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": USAGE}
    return raw_answer(200, json.dumps(body, ensure_ascii=False).encode())


def cut(text: str, *, step: int = 5) -> Behaviour:
    """`text`, then the connection ends cleanly in the middle of the answer: no finish, no last chunk."""
    return _broken(text, step, lambda connection: connection.end_connection())


def reset(text: str = "", *, step: int = 5) -> Behaviour:
    """`text`, then a TCP reset; without text before any answer."""
    return _broken(text, step, lambda connection: connection.reset())


def hold(text: str = "") -> Behaviour:
    """`text`, then nothing until `ChatServer.release()`; then the end."""

    async def behave(connection: Connection) -> None:
        await connection.begin()
        await connection.event(chunk({"content": text}))
        await connection.server.hold_here()
        await connection.event(chunk({}, "stop"))
        await connection.event("[DONE]")
        await connection.end()

    return behave


def error_in_stream(text: str = "", message: str = "the engine died", code: object = 500) -> Behaviour:
    """`text`, then an `error` object where a chunk should be."""

    async def behave(connection: Connection) -> None:
        await connection.begin()
        if text:
            await connection.event(chunk({"content": text}))
        await connection.event({"error": {"message": message, "type": "server_error", "code": code}})
        await connection.end()

    return behave


def garbage(text: str = "") -> Behaviour:
    """`text`, then an event that is no JSON."""
    return _events(*([chunk({"content": text})] if text else []), '{"choices": [{"del')


def empty() -> Behaviour:
    """A stream that ends at once, properly."""
    return _events("[DONE]")


def raw(*pieces: bytes) -> Behaviour:
    """These bytes as the body of an event stream, each in a write of its own."""

    async def behave(connection: Connection) -> None:
        await connection.begin()
        for piece in pieces:
            await connection.piece(piece)
        await connection.end()

    return behave


def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    """One `chat.completion.chunk`."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}


def _events(*events: object) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.begin()
        for event in events:
            await connection.event(event)
        await connection.end()

    return behave


def _broken(text: str, step: int, drop: Callable[[Connection], None]) -> Behaviour:
    async def behave(connection: Connection) -> None:
        if text:
            await connection.begin()
        for start in range(0, len(text), step):
            await connection.event(chunk({"content": text[start : start + step]}))
        await asyncio.sleep(0.02)  # a reset overtakes what was written; let it arrive
        drop(connection)

    return behave


def _native(calls: Sequence[tuple[str, Mapping[str, Any] | str]], *, index: bool, ids: bool) -> list[dict[str, Any]]:
    written = []
    for number, (name, arguments) in enumerate(calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        call: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": text}}
        written.append(call | ({"index": number} if index else {}) | ({"id": f"call_{number}"} if ids else {}))
    return written
