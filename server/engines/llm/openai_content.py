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
from server.engines.llm.decision import DecisionReader, json_arguments, whole_characters
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

# An answer or a bare call in JSON, in a code fence or not; and what may still become the beginning of one.
_OBJECT_START = re.compile(r"(?:```[a-zA-Z]{0,20}\s{0,8})?\{")
_MAYBE_OBJECT_START = re.compile(r"`{1,2}|```[a-zA-Z]{0,20}\s{0,8}")
_STRUCTURE = re.compile(r'["\\{}\[\]]')
_SENTENCE_END = re.compile(r"[。！？!?\n]|\.\s")
_LONG_SENTENCE_CHARACTERS = 200
# What a draft of an answer, or a call, may begin with: prose from there on waits.
_DATA_START = re.compile(r"[{`]")
MAX_CALLS = 32
"""Of one completion."""
# More than any call or answer; what has no end must not fill the memory.
_MAX_HELD_CHARACTERS = 16_384

Read = LlmText | LlmToolCall


class ContentReader:
    """Feed content; get the answer's text as soon as it surely is that, and whole tool calls.

    An answer in JSON streams, and tags inside its object are its text. Prose streams from the end of its first
    sentence or 200 characters, so that a turn that ends early has it; from a brace or a back-quote on it waits for its
    end. It may turn out to be thinking whose opening tag the template had already written: a lone `</think>` drops what
    was not given yet, and is passed on as text after what was. Who reads an answer has to drop what stands before it.
    """

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._decision = DecisionReader(self._tools)
        self._object = _ObjectEnd()
        self._waiting = ""
        """The end of the text so far, as long as it may be the beginning of a tag."""
        self._mode = "start"
        self._after_think = "start"
        self._held = ""
        """Prose, or what a tool call's tags enclose."""
        self._given = False
        """Some of this prose was given."""
        self._calls = 0
        self.whole = False
        """An object that is no call was closed; it is the answer."""

    def feed(self, text: str) -> list[Read]:
        """What became readable. Raises `LlmError` for a call that cannot be read."""
        out: list[Read] = []
        text, self._waiting = self._waiting + text, ""
        while text:
            if self._mode == "start":
                text = text.lstrip()
                if (start := _OBJECT_START.match(text)) is not None:
                    out += self._decision.feed(text[: start.end() - 1])
                    text = text[start.end() - 1 :]
                    self._mode, self._object = "object", _ObjectEnd()
                elif _MAYBE_OBJECT_START.fullmatch(text):
                    self._waiting = text
                    break
            if self._mode == "object":  # what looks like a tag in it is its text
                end = self._object.find(text)
                out += self._decision.feed(text[:end])
                text = "" if end is None else text[end:]
                if end is not None:
                    self._mode, self.whole = "over", not self._decision.called
                continue
            tag = _ANY_TAG.search(text)
            if self._mode == "over" and 0 <= (begin := text.find("{")) < (
                tag.start() if tag is not None else len(text)
            ):
                # The first may have been a draft.
                out += self._decision.feed(text[:begin])
                text = text[begin:]
                self._mode, self._object, self.whole = "object", _ObjectEnd(), False
                continue
            keep = tag.start() if tag is not None else len(text) - _tag_beginning(text)
            out += self._text(text[:keep])
            if tag is None:
                self._waiting = text[keep:]
                out += self._prose_so_far()
                break
            out += self._tag(tag[0])
            text = text[tag.end() :]
        return self._counted(out)

    def finish(self) -> list[Read]:
        """What is left at the end. Raises `LlmError` for a call that was cut."""
        waiting, self._waiting = self._waiting, ""
        if self._mode in ("prose", "call"):
            self._held += waiting
        out: list[Read] = []
        if self._mode == "call":
            out += self._tag(_END_CALL)
        elif self._mode == "prose":
            out += self._prose()
        elif self._mode != "think" and not self._calls:
            out += self._decision.feed(waiting)
        return self._counted([*out, *self._decision.finish()])

    def cut(self) -> list[Read]:
        """What can still be said when the stream broke off: the text so far, no call that may lack its end."""
        out = self._decision.feed(self._waiting) if self._mode in ("json", "over") else []
        if self._mode == "prose":
            out = self._prose()
        return [item for item in out if isinstance(item, LlmText)]

    def _text(self, text: str) -> list[Read]:
        """Take text without tags, outside an object."""
        if self._mode == "start" and text:
            self._mode = "json" if text[0] in "{`" else "prose"
        if self._mode in ("json", "over"):
            return list(self._decision.feed(text))
        if self._mode in ("prose", "call"):
            self._held += text
        if self._mode == "call" and len(self._held) > _MAX_HELD_CHARACTERS:
            raise LlmError("The model's tool call has no end.", retryable=True)
        return []

    def _tag(self, tag: str) -> list[Read]:
        if self._mode == "think":
            if tag == _END_THINK:
                self._mode = self._after_think
            return []
        if self._mode == "call":
            if tag != _END_CALL:
                return []
            block, self._held, self._mode = self._held, "", "over" if self.whole else "start"
            return list(self._written_call(block))
        if tag == _THINK:
            self._mode, self._after_think = "think", self._mode
        elif tag == _END_THINK and self._mode == "prose":
            given: list[Read] = [LlmText(tag)] if self._given else []
            self._held, self._mode, self._given = "", "start", False
            return given
        elif tag == _CALL:
            said = self._prose() if self._mode == "prose" else []
            self._mode = "call"
            return said
        return []

    def _prose(self) -> list[Read]:
        text, self._held, self._given = self._held, "", False
        return [LlmText(text)] if text.strip() else []

    def _prose_so_far(self) -> list[Read]:
        if self._mode != "prose":
            return []
        data = _DATA_START.search(self._held)
        ready = (
            self._held[: data.start()] if data is not None and len(self._held) < _MAX_HELD_CHARACTERS else self._held
        )
        certain = self._given or len(ready) > _LONG_SENTENCE_CHARACTERS or _SENTENCE_END.search(ready)
        if not ready.strip() or not certain:
            return []
        self._held, self._given = self._held[len(ready) :], True
        return [LlmText(ready)]

    def _counted(self, out: list[Read]) -> list[Read]:
        self._calls += sum(isinstance(item, LlmToolCall) for item in out)
        if self._calls > MAX_CALLS:
            raise LlmError("The model calls tools without end.", retryable=True)
        return out

    def _written_call(self, block: str) -> Sequence[Read]:
        """The call between its tags; without tools on offer it is dropped, for nobody could say it."""
        if not self._tools:
            return ()
        if (function := _FUNCTION.search(block)) is not None:
            return (LlmToolCall(whole_characters(function[1]), self._parameters(function[1], function[2])),)
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
            value: Any = written.strip()
            if properties.get(key, {}).get("type", "string") != "string":
                with suppress(ValueError, RecursionError):
                    value = json.loads(written)
            arguments[key] = value
        return json_arguments(arguments, name)


class _ObjectEnd:
    """Finds where an object of JSON ends that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def find(self, piece: str) -> int | None:
        """The index behind the object's last brace; None while it goes on."""
        start = int(self._escaped)
        self._escaped = False
        while (found := _STRUCTURE.search(piece, start)) is not None:
            start = found.end()
            if found[0] == "\\":
                start += self._in_text
                self._escaped = start > len(piece)
            elif found[0] == '"':
                self._in_text = not self._in_text
            elif not self._in_text:
                self._depth += 1 if found[0] in "{[" else -1
                if self._depth <= 0:
                    return start
        return None


def _tag_beginning(text: str) -> int:
    """How many characters at the end may be the beginning of a tag."""
    start = text.rfind("<", max(0, len(text) - max(map(len, _TAGS))))
    if start < 0 or not any(tag.startswith(text[start:]) for tag in _TAGS):
        return 0
    return len(text) - start
