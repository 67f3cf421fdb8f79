"""Ids of memories as a small model reads and writes them: m1, m2 … for 30 characters that cost it a second each.

One turn's. What is stored of a turn keeps the real ids, and those of source turns, which a small model never reads.
Knows no tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_ONE, _MANY = "memory_id", "memory_ids"
_UNREAD = "source_turn_id"


class ShortIds:
    """Gives each id a short name when it is first shown, and knows it again."""

    def __init__(self) -> None:
        self._short: dict[str, str] = {}

    def shortened(self, value: Any) -> Any:
        """`value`, JSON-able data, with short names for all ids in it, and without those of single source turns."""
        return _with_ids(_read(value), lambda one: self._short.setdefault(one, f"m{len(self._short) + 1}"))

    def lengthened(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments with the ids that short names stand for; what is no short name stays."""
        real = {short: one for one, short in self._short.items()}
        lengthened: dict[str, Any] = _with_ids(dict(arguments), lambda one: real.get(one.strip(), one))
        return lengthened

    def short(self, memory_id: str) -> str:
        """The short name of an id that was shown."""
        return self._short[memory_id]


def _read(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _read(inner) for key, inner in value.items() if key != _UNREAD}
    return [_read(inner) for inner in value] if isinstance(value, list | tuple) else value


def _with_ids(value: Any, name: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(key, inner, name) for key, inner in value.items()}
    return [_with_ids(inner, name) for inner in value] if isinstance(value, list | tuple) else value


def _named(key: str, value: Any, name: Callable[[str], str]) -> Any:
    if key == _ONE and isinstance(value, str):
        return name(value)
    if key == _MANY and isinstance(value, list | tuple):
        return [name(one) if isinstance(one, str) else one for one in value]
    return _with_ids(value, name)
