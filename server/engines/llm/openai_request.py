"""A request as chat endpoints take it: messages, tools, the form of the answer, and how many tokens that may be.

Pure. Two rules come from the endpoints: system text stands only at the beginning (the newer Qwen templates refuse it
anywhere else), and `tools` never go together with `response_format` (its grammar would exclude the call).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from server.engines.base import LlmMessage, LlmRequest, ToolSpec
from server.engines.llm.decision import decision_schema, whole_characters, written_messages
from server.engines.llm.presets import Endpoint

# Endpoints refuse what their grammar compilers do not know; the prompt says the same in words.
_SCHEMA_KEYS = frozenset(
    (
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "description",
    )
)
_PIECES = re.compile(r"[A-Za-z]+|[0-9]|\s+|.", re.DOTALL)


def completion_body(request: LlmRequest, endpoint: Endpoint, model: str) -> dict[str, Any]:
    """The whole body of one streamed completion."""
    body: dict[str, Any] = {
        "model": model,
        "messages": endpoint_messages(request.messages, native_tools=endpoint.native_tools),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        **_plain(endpoint.thinking_off_for(model)),
    }
    if request.tools and endpoint.native_tools:
        body["tools"] = [native_tool(tool) for tool in request.tools]
    elif request.answer_schema is not None and endpoint.json_form is not None:
        body["response_format"] = _response_format(request, endpoint)
    return body


def endpoint_messages(messages: Sequence[LlmMessage], *, native_tools: bool) -> list[dict[str, Any]]:
    """Messages in the endpoint's form: one system message at the beginning, later ones before the words they precede.

    Without native tools a call is what the prompt asks to write, and its result is said by the user.
    """
    plain = _native_messages(messages) if native_tools else [dict(message) for message in written_messages(messages)]
    out: list[dict[str, Any]] = []
    notes: list[str] = []
    for message in plain:
        if message["role"] != "system":
            if notes and message["role"] == "user":
                message["content"] = f"[{' '.join(notes)}]\n{message['content']}"
                notes = []
            out.append(message)
        elif not out and not notes:
            out.append(message)
        else:  # the clock, for one: it must not change the prefix that a prompt cache knows
            notes.append(message["content"])
    if notes:
        out.append({"role": "user", "content": f"[{' '.join(notes)}]"})
    return out


def estimated_tokens(text: str) -> int:
    """About how many tokens `text` is to a Qwen tokenizer, on the high side; exact counts need the model's own.

    One for each digit, sign and line break; one for three Latin letters (a common English word of five letters is one
    token: up to twice too many); one for each kana, kanji or hangul (they are usually 0.6 to 0.9: up to 1.7 times too
    many); one for each other letter up to U+07FF; of the rest one a byte, which is the most there can be.
    """
    total = 0
    for piece in _PIECES.findall(text):
        first = piece[0]
        if first.isascii() and first.isalpha():
            total += math.ceil(len(piece) / 3)
        elif first.isspace():
            total += math.ceil((len(piece) - piece.count(" ")) or len(piece) // 2)
        elif first < "\u0800" or "\u3000" <= first <= "\u9fff" or "\uac00" <= first <= "\ud7a3" or first >= "\uff00":
            total += 1 if first <= "\uffff" else len(first.encode("utf-8", "replace"))
        else:
            total += len(first.encode("utf-8", "replace"))
    return total


def _native_messages(messages: Sequence[LlmMessage]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    unnamed = 0
    for message in messages:
        content = whole_characters(message.content)
        if message.role == "tool":
            out.append({"role": "tool", "tool_call_id": message.call_id or f"call_{unnamed}", "content": content})
            continue
        written: dict[str, Any] = {"role": message.role, "content": content}
        for call in message.tool_calls:
            unnamed += not call.call_id
            written.setdefault("tool_calls", []).append(
                {
                    "id": call.call_id or f"call_{unnamed}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
                }
            )
        out.append(written)
    return out


def native_tool(tool: ToolSpec) -> dict[str, Any]:
    """A tool as chat endpoints and chat templates are told of it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _response_format(request: LlmRequest, endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.json_form == "json_object":
        return {"type": "json_object"}
    schema = decision_schema(request.answer_schema, request.tools)
    assert schema is not None
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": _portable(schema)}}


def _portable(schema: Any) -> Any:
    """The schema without the keywords that some endpoint refuses, such as `pattern`."""
    if isinstance(schema, list):
        return [_portable(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {name: _portable(inner) for name, inner in value.items()}
        elif key in _SCHEMA_KEYS:
            out[key] = value if key in ("enum", "const", "required") else _portable(value)
    return out


def _plain(value: Any) -> Any:
    return {key: _plain(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
