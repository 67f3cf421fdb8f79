"""What a model writes as content: the answer, thinking that nobody may hear, and tool calls written as text.

Fed with text as it streams, split anywhere. Pure: knows no endpoint and no transport. The forms of a bare call (JSON
with `tool` or `name`, in a code fence or not) are read by `decision.DecisionReader`; this module takes apart what lies
around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from server.engines.base import LlmText, LlmToolCall, ToolSpec
from server.engines.llm.decision import DecisionReader, clean_text
from server.errors import LlmError

_THINK, _END_THINK, _CALL, _END_CALL = "<think>", "</think>", "<tool_call>", "</tool_call>"
_TAGS = (_THINK, _END_THINK, _CALL, _END_CALL)
_ANY_TAG = re.compile("|".join(map(re.escape, _TAGS)))
_CALLED_NAME = re.compile(r'"(?:name|tool)"\s*:\s*"([^"\\]+)"')
# The form that the newer Qwen templates teach: <function=name><parameter=key>value</parameter></function>.
_FUNCTION = re.compile(r"<function=([^>\s]+)\s*>(.*)", re.DOTALL)
_PARAMETER = re.compile(
    r"<parameter=([^>\s]+)\s*>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|(?=</function>)|\Z)", re.DOTALL
)

Read = LlmText | LlmToolCall


class ContentReader:
    """Feed content; get the answer's text as soon as it surely is that, and whole tool calls.

    An answer in JSON streams. Prose is held until its end: it may turn out to be thinking whose opening tag the
    template had already written, and an answer in prose is spoken whole anyway.
    """

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._decision = DecisionReader(self._tools)
        self._waiting = ""
        """The end of the text so far, as long as it may be the beginning of a tag."""
        self._mode = "start"
        self._after_think = "start"
        self._held = ""
        """Prose, or what a tool call's tags enclose."""

    def feed(self, text: str) -> list[Read]:
        """What became readable. Raises `LlmError` for a call that cannot be read."""
        out: list[Read] = []
        text = self._waiting + text
        while (tag := _ANY_TAG.search(text)) is not None:
            out += self._text(text[: tag.start()])
            out += self._tag(tag[0])
            text = text[tag.end() :]
        keep = _tag_beginning(text)
        self._waiting = text[len(text) - keep :]
        return out + self._text(text[: len(text) - keep])

    def finish(self) -> list[Read]:
        """What is left at the end. Raises `LlmError` for a call that was cut."""
        out = self._text(self._waiting)
        self._waiting = ""
        if self._mode == "call":
            out += self._tag(_END_CALL)
        elif self._mode == "prose":
            out += self._prose()
        return out + self._decision.finish()

    def cut(self) -> list[Read]:
        """What can still be said when the stream broke off: the text so far, no call that may lack its end."""
        out = self._text(self._waiting) if self._mode == "json" else []
        if self._mode == "prose":
            out += self._prose()
        return [item for item in out if isinstance(item, LlmText)]

    def _text(self, text: str) -> list[Read]:
        if self._mode == "start":
            text = text.lstrip()
            if text:
                self._mode = "json" if text[0] in "{`" else "prose"
        if self._mode == "json":
            return list(self._decision.feed(text)) if text else []
        if self._mode in ("prose", "call"):
            self._held += text
        return []

    def _tag(self, tag: str) -> list[Read]:
        if self._mode == "think":
            if tag == _END_THINK:
                self._mode = self._after_think
            return []
        if self._mode == "call":
            if tag != _END_CALL:
                return []
            block, self._held, self._mode = self._held, "", "start"
            return list(self._written_call(block))
        if tag == _THINK:
            self._mode, self._after_think = "think", self._mode
        elif tag == _END_THINK and self._mode == "prose":
            self._held, self._mode = "", "start"
        elif tag == _CALL:
            said = self._prose() if self._mode == "prose" else []
            self._mode = "call"
            return said
        return []

    def _prose(self) -> list[Read]:
        text, self._held = self._held, ""
        return [LlmText(text)] if text.strip() else []

    def _written_call(self, block: str) -> Sequence[Read]:
        """The call between its tags; without tools on offer it is dropped, for nobody could say it."""
        if not self._tools:
            return ()
        if (function := _FUNCTION.search(block)) is not None:
            return (LlmToolCall(clean_text(function[1]), self._parameters(function[1], function[2])),)
        named = _CALLED_NAME.search(block)
        reader = DecisionReader([*self._tools, *([named[1]] if named else [])])
        calls = [item for item in (*reader.feed(block), *reader.finish()) if isinstance(item, LlmToolCall)]
        if not calls:
            raise LlmError("The model wrote a tool call that cannot be read.", retryable=True)
        return calls

    def _parameters(self, name: str, body: str) -> dict[str, Any]:
        tool = self._tools.get(name)
        properties = tool.parameters.get("properties", {}) if tool is not None else {}
        arguments: dict[str, Any] = {}
        for key, written in _PARAMETER.findall(body):
            value: Any = clean_text(written.strip())
            if properties.get(key, {}).get("type", "string") != "string":
                with suppress(ValueError):
                    value = json.loads(written)
            arguments[clean_text(key)] = value
        return arguments


def _tag_beginning(text: str) -> int:
    """How many characters at the end may be the beginning of a tag."""
    start = text.rfind("<", max(0, len(text) - max(map(len, _TAGS))))
    if start < 0 or not any(tag.startswith(text[start:]) for tag in _TAGS):
        return 0
    return len(text) - start
