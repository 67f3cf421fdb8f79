"""Reads `{emotion, action, reply}` while a model still writes it.

The face moves as soon as `emotion` is complete and the voice starts with the first clause of `reply`. Tolerates what
models really write: code fences, `<think>` blocks, words and other objects around the answer, other names for `reply`,
raw newlines in strings, broken JSON, or no JSON at all (then the words are the reply). The first object that is an
answer wins. What is no answer, a tool call above all, is never taken for words. Knows nothing of engines, personas
beyond the two sets of IDs, or speech.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from server.pipeline.answer_json import AnswerSplitter
from server.pipeline.answer_prose import is_call, spoken_prose
from server.pipeline.visible import is_visible
from server.storage.types import clean_text

# What an ID looks like; anything else a model puts there may be somebody's words, and traces hold none.
_ID = re.compile(r"[a-z][a-z0-9_]{0,31}")
# Where models put the words when they forget what the key is called.
_OTHER_REPLY_KEYS = ("text", "answer", "response", "message", "content")
_DEEPEST = 4
_FENCE = re.compile(r"```[a-zA-Z]*")


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


@dataclass(frozen=True, slots=True)
class _Found:
    """An object that has words. `sure`: it is an answer; else it may be data that happens to have a text."""

    reply: str
    ids: Mapping[str, object]
    sure: bool


class AnswerReader:
    """Feed the model's text as it comes; get the parts that have become final, and at the end the whole answer."""

    def __init__(self, emotions: Collection[str], actions: Collection[str], tools: Collection[str] = ()) -> None:
        self._tools = tools
        self._known = {"emotion": emotions, "action": actions}
        self._fallback = {"emotion": "neutral", "action": "none"}
        self._splitter = AnswerSplitter()
        self._ids: dict[str, str] = {}
        self._unknown: list[str] = []
        self._reply = ""
        self._read_reply = ""
        self._maybe: list[_Found] = []
        self._complete = False

    @property
    def whole(self) -> bool:
        """The object was closed, and there are words in it."""
        return self._complete

    def feed(self, text: str) -> list[AnswerPart]:
        """Take the next piece of model text; return the parts that became readable."""
        if self._complete:
            return []
        parts = self._take(self._splitter.feed(text))
        if not self._complete and self._splitter.open is not None:
            value = self._splitter.open.partial()
            parts += [] if value is None else self._read_open(value)
        return parts

    def finish(self) -> tuple[Answer, list[AnswerPart]]:
        """The whole answer, and the parts that only its end made final. `reply` is empty when nothing can be said."""
        parts: list[AnswerPart] = []
        if not self._complete and not self._reply:
            parts += self._take(self._splitter.finish())
        if not self._complete and self._splitter.open is not None:
            # Cut off by a token limit: what is there is all there will be.
            value = self._splitter.open.partial()
            parts += [] if value is None else self._take([value])
        was_json = bool(self._reply)
        if not was_json:
            parts += self._without_json()
            was_json = bool(self._reply) and bool(self._maybe)
        parts += self._take_ids(self._fallback)
        answer = Answer(
            reply=self._reply.strip(),
            emotion=self._ids["emotion"],
            action=self._ids["action"],
            was_json=was_json or self._complete,
            unknown_ids=tuple(self._unknown),
        )
        return answer, parts

    def _take(self, values: list[dict[str, Any]]) -> list[AnswerPart]:
        """Read whole objects, up to the first that is an answer."""
        parts: list[AnswerPart] = []
        for value in values:
            found = self._answer_in(value)
            if found is None or not found.sure:
                self._maybe += [found] if found else []
                parts += [] if found or is_call(value, self._tools) else self._take_ids(_fields(value))
                continue
            parts += [*self._take_ids(found.ids), *self._grow(found.reply)]
            self._complete = bool(self._reply)
            if self._complete:
                break
        return parts

    def _read_open(self, value: dict[str, Any]) -> list[AnswerPart]:
        fields = _fields(value)
        # A half-read string looks like a whole one: a field is final when another key follows or the object ends.
        last = next(reversed(value), "").strip().casefold()
        parts = self._take_ids({key: item for key, item in fields.items() if key != last})
        reply = fields.get("reply")
        if isinstance(reply, str):
            # Half of a character that comes in two halves waits for the other.
            parts += self._grow(reply[:-1] if "\ud800" <= reply[-1:] <= "\udbff" else reply)
        return parts

    def _take_ids(self, fields: Mapping[str, object]) -> list[AnswerPart]:
        parts: list[AnswerPart] = []
        for key, part in (("emotion", EmotionRead), ("action", ActionRead)):
            if key in fields and key not in self._ids:
                self._ids[key] = self._known_id(key, fields[key])
                parts.append(part(self._ids[key]))
        return parts

    def _grow(self, reply: str) -> list[AnswerPart]:
        """Of a key that comes twice the first counts: its words are out."""
        if len(reply) <= len(self._read_reply) or not reply.startswith(self._read_reply):
            return []
        more = clean_text(reply[len(self._read_reply) :])
        if not self._reply and not is_visible(more):
            return []
        self._read_reply = reply
        self._reply += more
        return [ReplyRead(more)]

    def _answer_in(self, value: dict[str, Any], depth: int = 0) -> _Found | None:
        """The words of an object and the IDs beside them; None when it has no words, or calls a tool."""
        fields = _fields(value)
        if isinstance(fields.get("reply"), dict):
            fields = {**_fields(fields["reply"]), **fields}
        sure = not fields.keys().isdisjoint(("reply", "emotion", "action"))
        if is_visible(reply := _words(fields.get("reply"))):
            return _Found(reply, fields, True)
        if is_call(value, self._tools) or depth == _DEEPEST:
            return None
        for item in fields.values():
            if isinstance(item, dict) and (inner := self._answer_in(item, depth + 1)) is not None and inner.sure:
                return _Found(inner.reply, {**inner.ids, **fields}, True)
        for key in _OTHER_REPLY_KEYS:
            if is_visible(reply := _words(fields.get(key))):
                return _Found(reply, fields, sure)
        return None

    def _known_id(self, key: str, value: object) -> str:
        found = value.strip().casefold() if isinstance(value, str) else ""
        if found in self._known[key]:
            return found
        self._unknown.append(f"{key}:{found if _ID.fullmatch(found) else '?'}")
        return self._fallback[key]

    def _without_json(self) -> list[AnswerPart]:
        """The words around the objects; without any, those of an object that may be an answer."""
        pieces, cut_off = self._splitter.pieces, self._splitter.open
        around = "".join(piece.text for piece in pieces if piece.value is None)
        if self._maybe and not any(map(str.isalnum, _FENCE.sub("", around))):
            found = self._maybe[0]
            return [*self._take_ids(found.ids), *self._grow(found.reply)]
        self._maybe.clear()
        return self._grow(spoken_prose(pieces, cut_off.raw if cut_off else "", self._tools))


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object by its keys in lower case; of keys that become the same the first counts."""
    fields: dict[str, Any] = {}
    for key, item in value.items():
        fields.setdefault(key.strip().casefold(), item)
    return fields


def _words(value: object, depth: int = 0) -> str:
    """What is to be said of a value in the place of a reply."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if depth == _DEEPEST:
        return ""
    if isinstance(value, list):
        return " ".join(filter(None, (_words(item, depth + 1) for item in value)))
    if isinstance(value, dict):
        fields = _fields(value)
        found = (_words(fields.get(key), depth + 1) for key in ("reply", *_OTHER_REPLY_KEYS))
        return next(filter(is_visible, found), "")
    return ""
