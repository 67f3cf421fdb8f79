"""What can be spoken of an answer that is not the JSON asked for: words are, data and calls of tools never.

Braces inside a sentence are part of it (「空の辞書は {} と書くよ。」); an object on lines of its own is data. Knows how
calls look, not which tools there are but for their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from server.pipeline.answer_json import Piece
from server.pipeline.visible import is_visible
from server.storage.types import clean_text

_BROKEN_REPLY = re.compile(
    r"""["'“]?\breply["'”]?\s*[:：]\s*(["'“「])(?!["'”」])(?P<reply>.+?)(?:(?<!\\)["'”」]\s*(?:[,}]|\Z)|\Z)""",
    re.DOTALL | re.IGNORECASE,
)
_WHOLE_FENCE = re.compile(r"\s*```[a-zA-Z]*\s*(?P<inside>(?:(?!```).)*?)\s*(?:```\s*)?\Z", re.DOTALL)
_FENCE_MARK = re.compile(r"```[a-zA-Z]*")
# The beginning of data, whole or broken, but not of a smile or a bracketed word.
_DATA = re.compile(r"""\s*[{\[]\s*(?:["'{\[}\]]|\w+["']?\s*:|\Z)""")
_CALL_TAG = re.compile(r"^\W{0,8}?</?\|?(?:tool|function)", re.MULTILINE)
_CALL_KEYS = frozenset({"arguments", "args", "parameters"})
_CALL_NAMES = ("name", "tool", "function", "tool_name", "tool_call", "tool_calls", "function_call")
_FLAT_DATA = re.compile(r"[{\[][^{}\[\]]*[}\]]")
# Enough to see whether a line holds more than an object.
_PIECES_OF_A_LINE = 40
_OBJECT = "\ufffc"
_PAIRS = {"{": "}", "[": "]"}


def is_call(value: Mapping[str, Any], tools: Collection[str]) -> bool:
    """Whether an object calls a tool, known or not. Keys are as the model wrote them."""
    fields = {key.strip().casefold(): item for key, item in value.items()}
    names = [fields[key] for key in _CALL_NAMES if key in fields]
    if any(isinstance(name, str) and name in tools for name in names):
        return True
    return bool(names) and (not _CALL_KEYS.isdisjoint(fields) or any(isinstance(name, dict | list) for name in names))


def spoken_prose(pieces: Sequence[Piece], unclosed: str, tools: Collection[str]) -> str:
    """The words of `pieces`; empty when they are data, or call a tool. `unclosed`: the start of an object cut off."""
    if any(piece.value is not None and is_call(piece.value, tools) for piece in pieces):
        return ""
    text = clean_text("".join(piece.text for piece in pieces) + unclosed).strip()
    if _CALL_TAG.search(text) or any(_calls(text, name) for name in tools):
        return ""
    around = "".join(piece.text if piece.value is None else _OBJECT for piece in pieces)
    if broken := _BROKEN_REPLY.search(clean_text(around) + clean_text(unclosed)):
        return broken["reply"].strip()
    words, outline = _without_blocks(pieces)
    words, outline = clean_text(words).strip(), outline.strip()
    if (fence := _WHOLE_FENCE.match(words)) is not None:
        words = fence["inside"]
        outline = _FENCE_MARK.sub("", outline).strip()
    if not is_visible(words) or (not any(map(str.isalnum, _FENCE_MARK.sub("", outline))) and _OBJECT in outline):
        return ""
    if _is_data(outline):
        return ""
    return words if is_visible(_FENCE_MARK.sub("", words)) else ""


def _without_blocks(pieces: Sequence[Piece]) -> tuple[str, str]:
    """The text without objects on lines of their own, and the same with a placeholder for each object left."""
    words: list[str] = []
    outline: list[str] = []
    texts = [piece.text for piece in pieces]
    for index, piece in enumerate(pieces):
        if piece.value is None:
            words.append(piece.text)
            outline.append(piece.text)
            continue
        before = "".join(words[-_PIECES_OF_A_LINE:]).rpartition("\n")[2]
        after = "".join(texts[index + 1 : index + 1 + _PIECES_OF_A_LINE]).partition("\n")[0]
        if before.strip(" \t[,") or after.strip(" \t],"):
            words.append(piece.text)
            outline.append(_OBJECT)
    return "".join(words), "".join(outline)


def _calls(text: str, name: str) -> bool:
    found = re.escape(name)
    return (
        re.search(rf"(?<![A-Za-z0-9_]){found}[\"'`]?\s*(?:\(\s*(?:[\"'{{\[]|\w+\s*[=:])|\{{)", text) is not None
        or re.search(rf"^\W*{found}\(\s*\)\W*$", text, re.MULTILINE) is not None
        or re.search(rf"[\"'{{,\s](?:name|tool|function)[\"']?\s*:\s*[\"']?{found}\b", text) is not None
    )


def _is_data(text: str) -> bool:
    """Whether a text begins like data and no words follow behind it."""
    if (text[:1], text[-1:]) == ("{", "}") and text.count("{") == 1:
        return True
    if _DATA.match(text) is None:
        return False
    text = text.lstrip()
    depth = 0
    for index, character in enumerate(text[:4000]):
        depth += (character in _PAIRS) - (character in _PAIRS.values())
        if depth == 0:
            # More data behind it is no words.
            return sum(map(str.isalnum, _FLAT_DATA.sub("", text[index + 1 :]))) < 2
    return True
