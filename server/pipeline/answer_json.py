"""Splits what a model writes into words, thoughts and JSON objects, piece by piece as it comes.

Tags are tags only outside an object; inside its strings they are text. Every character is looked at once, but for
objects that turn out to be none. Does not know what an answer is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import jiter

from server.storage.types import clean_text

_TURN = re.compile(r"<(?P<ends>/?)think(?:ing)?>|(?P<object>\{(?=\s{0,200}\"))")
_TAGS_ONLY = re.compile(r"<(?P<ends>/?)think(?:ing)?>|(?P<object>(?!))")
# The end of what has come may be the beginning of one of these.
_PERHAPS = re.compile(r"(?:<[/a-z]{0,10}|\{\s{0,200})\Z")
_THOUGHT_END = re.compile(r"</think(?:ing)?>")
_TAG_CHARACTERS = len("</thinking>")
_TOKEN = re.compile(r"\\(?:.|\Z)|[\"{}\[\]]", re.DOTALL)
# A raw control character inside a JSON string is an error to a strict parser and white space to a listener.
_CONTROL = re.compile(r"[\x00-\x1f]+")
_ESCAPE = re.compile(r"\\(?:([\"\\/bfnrtu])|(.))", re.DOTALL)
# So many objects that are none; then braces are text.
_MOST_MISTAKES = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of what was written, without thoughts. `value`: the object it is; None: it is words."""

    text: str
    value: dict[str, Any] | None = None


class OpenObject:
    """A JSON object that is still being written."""

    def __init__(self) -> None:
        self.closed = False
        self._raw: list[str] = []
        self._body = bytearray()
        self._held = ""
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._after_control = False

    @property
    def raw(self) -> str:
        return "".join(self._raw)

    def take(self, text: str) -> int:
        """How many characters of `text` belong to it: all of them, or those up to its end."""
        end = len(text)
        begin = int(self._escaped)
        self._escaped = False
        for match in _TOKEN.finditer(text, begin):
            token = match.group()
            if token[0] == "\\":
                self._escaped = len(token) == 1
            elif token == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if token in "{[" else -1
                if self._depth == 0:
                    self.closed, end = True, match.end()
                    break
        self._keep(text[:end])
        return end

    def partial(self) -> dict[str, Any] | None:
        """What can be read so far; None when it is no JSON, or not yet."""
        try:
            value = jiter.from_json(bytes(self._body), partial_mode="trailing-strings")
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def whole(self) -> dict[str, Any] | None:
        """What it holds once it is closed; None when it is no JSON after all."""
        try:
            value = json.loads(self._body, object_pairs_hook=_first_of_each)
        except (ValueError, RecursionError):
            # Too deep or a number too long for one parser; the other may take it.
            return self.partial()
        return value if isinstance(value, dict) else None

    def _keep(self, text: str) -> None:
        self._raw.append(text)
        text = self._held + text
        # Half of an escape or of a character waits for its other half.
        half = (len(text) - len(text.rstrip("\\"))) % 2 == 1 or "\ud800" <= text[-1:] <= "\udbff"
        self._held = text[-1:] if half and not self.closed else ""
        text = text.removesuffix(self._held) if self._held else text
        if self._after_control:
            text = text.lstrip("".join(map(chr, range(32))))
        if not text:
            return
        self._after_control = text[-1] < " "
        text = _ESCAPE.sub(lambda found: found.group() if found[1] else found[2], clean_text(_CONTROL.sub(" ", text)))
        self._body += text.encode()


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # As while it is read: the words of the first are out when the key comes again.
    return dict(reversed(pairs)) if len({key for key, _ in pairs}) < len(pairs) else dict(pairs)


class AnswerSplitter:
    """Feed text; `pieces` grows, `open` is the object being written."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.open: OpenObject | None = None
        self._waiting = ""
        self._thinking = False
        self._mistakes = 0

    def feed(self, text: str) -> list[dict[str, Any]]:
        """Take more; return the objects that were closed by it, in order."""
        self._waiting += text
        closed: list[dict[str, Any]] = []
        while self._waiting:
            if self._thinking:
                if not self._end_thought():
                    break
            elif self.open is not None:
                used = self.open.take(self._waiting)
                self._waiting = self._waiting[used:]
                if self.open.closed:
                    value = self.open.whole()
                    if value is None:
                        self._take_back(self.open)
                    else:
                        self.pieces.append(Piece(self.open.raw, value))
                        closed.append(value)
                    self.open = None
            elif not self._next_turn():
                break
        return closed

    def finish(self) -> list[dict[str, Any]]:
        """Nothing more comes. Returns objects found behind one that turned out to be none; `open` stays as it is when
        it was cut off."""
        closed: list[dict[str, Any]] = []
        while self.open is not None and self.open.partial() is None:
            mistaken, self.open = self.open, None
            self._take_back(mistaken)
            closed += self.feed("")
        if self.open is None and not self._thinking:
            self._words(self._waiting)
        self._waiting = ""
        return closed

    def _next_turn(self) -> bool:
        """Take words up to the next tag or object; whether there was one."""
        pattern = _TURN if self._mistakes < _MOST_MISTAKES else _TAGS_ONLY
        match = pattern.search(self._waiting)
        if match is None:
            perhaps = _PERHAPS.search(self._waiting)
            end = perhaps.start() if perhaps else len(self._waiting)
            self._words(self._waiting[:end])
            self._waiting = self._waiting[end:]
            return False
        self._words(self._waiting[: match.start()])
        if match["object"]:
            self.open = OpenObject()
            self._waiting = self._waiting[match.start() :]
            return True
        self._waiting = self._waiting[match.end() :]
        self._thinking = not match["ends"]
        if match["ends"]:
            # Some templates write the first tag into the prompt, so that only the last one is seen.
            self.pieces.clear()
        return True

    def _end_thought(self) -> bool:
        match = _THOUGHT_END.search(self._waiting)
        self._thinking = match is None
        self._waiting = self._waiting[match.end() :] if match else self._waiting[-_TAG_CHARACTERS:]
        return match is not None

    def _take_back(self, mistaken: OpenObject) -> None:
        """It was no object: its brace is a character, and what follows is looked at again."""
        raw = mistaken.raw
        self._mistakes += 1
        self._words(raw[:1])
        self._waiting = raw[1:] + self._waiting

    def _words(self, text: str) -> None:
        if text:
            self.pieces.append(Piece(text))
