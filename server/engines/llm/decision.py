"""One constrained decode for small models: "a tool call or the answer".

Builds the JSON Schema whose `oneOf` has a branch for each tool of the turn and one for the answer, and reads what was
written back into text or a tool call while it streams. Also reads what endpoints without a grammar write when they put
a tool call into plain content: fences, `<think>`, `<tool_call>`, `name`/`arguments` instead of `tool`/`args`.

Pure. It does not know any engine, what a tool does, or the meaning of an answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from server.engines.base import LlmMessage, LlmRequest, LlmText, LlmToolCall, ToolSpec
from server.errors import LlmError

_MARKS = re.compile(r"\s*(?:<think>.*?</think>|<tool_call>|```[a-zA-Z]*)\s*", re.DOTALL)
# The start of something that a later piece may complete: still undecided.
_MARK_BEGINNINGS = ("<think>", "<tool_call>", "```")
_FIRST_KEY = re.compile(r'\{\s*"(?P<key>[^"\\]*)"\s*:')
_NAME = re.compile(r'\{\s*"(?:tool|name)"\s*:\s*"(?P<name>[^"\\]*)"')
TOOL_KEY = "tool"
"""The first key of a call; the model decides between call and answer where it writes it."""
_ARGUMENT_KEYS = ("args", "arguments", "parameters")
# What a tokenizer leaves behind when a character was cut, and halves of surrogate pairs: never text.
_BROKEN = re.compile("[\ud800-\udfff\ufffd]")
# Far more than any call takes; a model that never ends one must not fill the memory.
_MAX_CALL_CHARACTERS = 16_384
_MAX_DEPTH = 64
_decoder = json.JSONDecoder()


def decision_schema(answer_schema: dict[str, Any] | None, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
    """The JSON Schema of one model output: the answer, or `{"tool": name, "args": {...}}` for one of `tools`.

    No answer beside a tool of infinite prior. None: free text. Property order is the order written. Raises `LlmError`
    for tools without an answer schema: free text and a grammar exclude each other.
    """
    if not tools:
        return answer_schema
    if answer_schema is None:
        raise LlmError("Tools need an answer schema in a decision grammar.", hint="Give `answer_schema`, or no tools.")
    branches: list[dict[str, Any]] = [
        {
            "type": "object",
            "properties": {TOOL_KEY: {"const": tool.name}, "args": tool.parameters},
            "required": [TOOL_KEY, "args"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    if any(tool.prior == math.inf for tool in tools):
        return {"oneOf": branches}
    return {"oneOf": [*branches, answer_schema]}


def bias_of_calls(request: LlmRequest, usual: float, after_answers: Sequence[float] = ()) -> float:
    """What is added to the log-odds of a call; 0 where there is no choice between a call and an answer.

    `usual`: at the beginning of a conversation; `after_answers`: added to it after one earlier answer, two, and so on,
    the last for all more.
    """
    if not request.tools or any(tool.prior == math.inf for tool in request.tools):
        return 0.0
    # What a tool has given, the model judges by itself.
    if answers_a_tool(request):
        usual = 0.0
    elif request.answered and after_answers:
        usual += after_answers[min(request.answered, len(after_answers)) - 1]
    return usual + max(tool.prior for tool in request.tools)


def begins_a_call(text: str) -> bool:
    """Whether the beginning of an output is that of a call."""
    return text.lstrip().startswith(f'{{"{TOOL_KEY}"')


def settled(request: LlmRequest, *, calls: bool) -> LlmRequest:
    """`request` once it is chosen whether a tool is called: with nothing left to choose but which, or none."""
    tools = tuple(replace(tool, prior=math.inf) for tool in request.tools) if calls else ()
    return replace(request, tools=tools)


def answers_a_tool(request: LlmRequest) -> bool:
    """Whether what is asked for comes right after a tool's result."""
    return bool(request.messages) and request.messages[-1].role == "tool"


def written_messages(messages: Sequence[LlmMessage]) -> list[dict[str, str]]:
    """Messages for a model that knows no tools: a call is what the grammar lets it write, a result is said to it."""
    return [
        {
            "role": "user" if message.role == "tool" else message.role,
            "content": whole_characters(
                "\n".join(_written_call(call) for call in message.tool_calls) or message.content
            ),
        }
        for message in messages
    ]


def _written_call(call: LlmToolCall) -> str:
    return json.dumps({TOOL_KEY: call.name, "args": call.arguments}, ensure_ascii=False, separators=(",", ":"))


def whole_characters(text: str) -> str:
    """`text` without replacement characters and lone surrogates."""
    return _BROKEN.sub("", text)


def json_arguments(value: object, tool: str) -> dict[str, Any]:
    """A call's arguments as clean JSON: an object, texts without halves of characters, numbers that others can read.

    Raises `LlmError`, worth a retry: no object, deeper than 64, NaN or infinite, an integer beyond 64 bits, or a value
    that JSON does not have. `tool`: whose arguments they are.
    """
    if not isinstance(value, dict):
        raise _unreadable(tool, "are not a JSON object")
    arguments: dict[str, Any] = _json_value(value, tool, 0)
    return arguments


class DecisionReader:
    """Feed a model's raw text as it comes; get the answer's text as it comes, or one whole tool call.

    `tool_names`: the tools of this turn; without any, everything is text.
    """

    def __init__(self, tool_names: Collection[str]) -> None:
        self._tools = frozenset(tool_names)
        self._undecided = ""
        self._mode = "undecided" if self._tools else "text"
        self.called = False
        """A tool call was read; everything after it is dropped."""

    def feed(self, text: str) -> list[LlmText | LlmToolCall]:
        """What became readable with the next piece. Raises `LlmError` for a call that cannot be used."""
        if self._mode == "text":
            return [LlmText(text)] if text else []
        if self.called:
            return []
        self._undecided += text
        if self._mode == "undecided":
            self._mode = self._decide()
            if self._mode == "undecided" and len(self._undecided) > _MAX_CALL_CHARACTERS:
                self._mode = "text"
            if self._mode == "text":
                return self._flush()
        if self._mode == "tool" and "}" in text:
            return self._call()
        if len(self._undecided) > _MAX_CALL_CHARACTERS:
            raise LlmError("The model's tool call has no end.", retryable=True)
        return []

    def finish(self) -> list[LlmText | LlmToolCall]:
        """What is left at the end. Raises `LlmError` for a tool call that was cut."""
        if self._mode == "undecided":
            return self._flush()
        if self._mode == "tool" and not self.called:
            raise LlmError("The model's tool call was cut before its end.", retryable=True, hint="Raise max_tokens.")
        return []

    def _flush(self) -> list[LlmText | LlmToolCall]:
        text, self._undecided = self._undecided, ""
        return [LlmText(text)] if text else []

    def _body(self) -> str:
        """The buffered text without the marks before its first brace."""
        text = self._undecided.lstrip()
        while (mark := _MARKS.match(text)) is not None:
            text = text[mark.end() :]
        return text

    def _decide(self) -> str:
        body = self._body()
        if not body.startswith("{"):
            begun = not body or any(mark.startswith(body) or body.startswith(mark) for mark in _MARK_BEGINNINGS)
            return "undecided" if begun else "text"
        key = _FIRST_KEY.match(body)
        if key is None:
            return "undecided" if len(body) < 80 else "text"
        if key["key"] not in ("tool", "name"):
            return "text"
        name = _NAME.match(body)
        if name is None:
            return "undecided" if body[key.end() :].lstrip()[:1] in ("", '"') else "text"
        # An unknown "tool" is a call that the loop answers with the known names; an unknown "name" is data.
        return "tool" if key["key"] == "tool" or name["name"] in self._tools else "text"

    def _call(self) -> list[LlmText | LlmToolCall]:
        if len(self._undecided) > _MAX_CALL_CHARACTERS:
            raise LlmError("The model's tool call has no end.", retryable=True)
        try:
            value, _ = _decoder.raw_decode(self._body())
        except RecursionError:
            raise LlmError("The model's tool call is nested too deeply.", retryable=True) from None
        except ValueError:
            return []
        self.called = True
        name = value.get("tool", value.get("name"))
        if not isinstance(name, str):
            raise LlmError("The model's tool call has no name.", retryable=True)
        arguments: object = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
        if isinstance(arguments, str):
            arguments = _parse_arguments(arguments)
        return [LlmToolCall(name=whole_characters(name), arguments=json_arguments(arguments, name))]


def _parse_arguments(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json_value(value: Any, tool: str, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise _unreadable(tool, "are nested too deeply")
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, list):
        return [_json_value(item, tool, depth + 1) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {whole_characters(key): _json_value(item, tool, depth + 1) for key, item in value.items()}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and value.bit_length() < 64:
        return value
    raise _unreadable(tool, "hold what JSON does not have")


def _unreadable(tool: str, what: str) -> LlmError:
    return LlmError(f"The model's arguments for {tool[:64]} {what}.", retryable=True)
