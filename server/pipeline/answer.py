"""Reads `{emotion, action, reply}` while a model still writes it.

The face moves as soon as `emotion` is complete and the voice starts with the first clause of `reply`. Tolerates what
models really write: code fences, `<think>` blocks, words before the brace, raw newlines in strings, text after the
object, broken JSON, or no JSON at all (then the whole text is the reply). What is no answer, a tool call above all, is
never taken for words. Knows nothing of engines, personas beyond the two sets of IDs, or speech.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import jiter

from server.storage.types import clean_text

_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_FENCE = re.compile(r"```[a-zA-Z]*")
# The beginning of data or of a call, whole or broken, but not of a smile or a bracketed word.
_DATA = re.compile(r"""\s*(?:[{\[]\s*(?:["'{\[}\]]|\w+["']?\s*:|\Z)|</?(?:tool|function|\|))""")
_BROKEN_REPLY = re.compile(
    r"""["']?\breply["']?\s*[:：]\s*(["'「])(?P<reply>.+?)(?:(?<!\\)["'」]\s*(?:[,}]|\Z)|\Z)""", re.DOTALL
)
# A raw control character inside a JSON string is an error to a strict parser and white space to a listener.
_CONTROL = re.compile(r"[\x00-\x1f]+")
# What an ID looks like; anything else a model puts there may be somebody's words, and traces hold none.
_ID = re.compile(r"[a-z][a-z0-9_]{0,31}")
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class EmotionRead:
    emotion: str


@dataclass(frozen=True, slots=True)
class ActionRead:
    action: str


@dataclass(frozen=True, slots=True)
class ReplyRead:
    """The next piece of the reply."""

    text: str


AnswerPart = EmotionRead | ActionRead | ReplyRead


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `was_json`: the model kept the format. `unknown_ids`: IDs replaced by neutral
    or none, as `emotion:ecstatic`."""

    reply: str
    emotion: str = "neutral"
    action: str = "none"
    was_json: bool = True
    unknown_ids: tuple[str, ...] = ()


class AnswerReader:
    """Feed the model's text as it comes; get the parts that have become final, and at the end the whole answer."""

    def __init__(self, emotions: Collection[str], actions: Collection[str], tools: Collection[str] = ()) -> None:
        self._tools = tools
        self._known = {"emotion": emotions, "action": actions}
        self._fallback = {"emotion": "neutral", "action": "none"}
        self._raw = ""
        self._ids: dict[str, str] = {}
        self._unknown: list[str] = []
        self._reply = ""
        self._complete = False

    @property
    def whole(self) -> bool:
        """The object was closed, and there are words in it."""
        return self._complete and bool(self._reply.strip())

    def feed(self, text: str) -> list[AnswerPart]:
        """Take the next piece of model text; return the parts that became readable."""
        if self._complete:
            return []
        self._raw += text
        body = self._object_text()
        if body is None:
            return []
        value = self._parse(body)
        return [] if value is None else self._read(value)

    def finish(self) -> tuple[Answer, list[AnswerPart]]:
        """The whole answer, and the parts that only its end made final. `reply` is empty when nothing can be said."""
        parts: list[AnswerPart] = []
        body = self._object_text()
        value: dict[str, Any] | None = None
        if not self._complete and body is not None:
            value = self._parse(body)
            if value is not None:
                # Cut off by a token limit: what is there is all there will be.
                parts += self._read(value, last=True)
        was_json = self._complete or (value is not None and bool(self._reply))
        if not self._reply and value is None and not self._complete:
            self._reply = self._without_json()
            if self._reply:
                parts.append(ReplyRead(self._reply))
        for key, part in (("emotion", EmotionRead), ("action", ActionRead)):
            if key not in self._ids:
                self._ids[key] = self._fallback[key]
                parts.append(part(self._ids[key]))
        answer = Answer(
            reply=self._reply.strip(),
            emotion=self._ids["emotion"],
            action=self._ids["action"],
            was_json=was_json,
            unknown_ids=tuple(self._unknown),
        )
        return answer, parts

    def _object_text(self) -> str | None:
        """The text from the first brace on, ready for a strict parser; None while there is no brace."""
        text = _without_thinking(self._raw)
        start = text.find("{")
        return None if start < 0 else _CONTROL.sub(" ", text[start:])

    def _parse(self, body: str) -> dict[str, Any] | None:
        if "}" in body:
            try:
                value, _ = _decoder.raw_decode(body)
            except (ValueError, RecursionError):
                pass
            else:
                self._complete = True
                return value if isinstance(value, dict) else None
        try:
            value = jiter.from_json(body.encode("utf-8", "surrogatepass"), partial_mode="trailing-strings")
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def _read(self, value: dict[str, Any], *, last: bool = False) -> list[AnswerPart]:
        parts: list[AnswerPart] = []
        keys = list(value)
        for key, part in (("emotion", EmotionRead), ("action", ActionRead)):
            # A half-read string looks like a whole one: a field is final when another key follows or the object ends.
            final = key in value and (self._complete or last or keys[-1] != key)
            if final and key not in self._ids:
                self._ids[key] = self._known_id(key, value[key])
                parts.append(part(self._ids[key]))
        reply = self._reply_text(value)
        if len(reply) > len(self._reply):
            parts.append(ReplyRead(reply[len(self._reply) :]))
            self._reply = reply
        return parts

    def _reply_text(self, value: dict[str, Any]) -> str:
        reply = value.get("reply")
        if isinstance(reply, list) and self._complete and all(isinstance(item, str) for item in reply):
            reply = " ".join(reply)
        if not isinstance(reply, str):
            return ""
        # Half of a character that comes in two halves waits for the other.
        half = "" if self._complete or not reply or not "\ud800" <= reply[-1] <= "\udbff" else reply[-1]
        return clean_text(reply.removesuffix(half) if half else reply)

    def _known_id(self, key: str, value: object) -> str:
        found = value.strip().casefold() if isinstance(value, str) else ""
        if found in self._known[key]:
            return found
        self._unknown.append(f"{key}:{found if _ID.fullmatch(found) else '?'}")
        return self._fallback[key]

    def _without_json(self) -> str:
        """The words of an answer that is no JSON; empty when it is data or a call instead."""
        text = clean_text(_FENCE.sub("", _without_thinking(self._raw))).strip()
        if broken := _BROKEN_REPLY.search(text):
            return broken["reply"].strip()
        if _DATA.match(text) or (text[:1], text[-1:]) == ("{", "}"):
            return ""
        if any(re.search(rf"\b{re.escape(name)}\W*[({{]", text) for name in self._tools):
            return ""
        return text


def _without_thinking(raw: str) -> str:
    # Some templates write the first tag into the prompt, so that only the last one is seen.
    if "</think>" in raw and "<think>" not in raw.partition("</think>")[0]:
        raw = raw.partition("</think>")[2]
    return _THINK.sub("", raw)
