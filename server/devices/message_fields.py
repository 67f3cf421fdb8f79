"""One JSON message from a stranger, read field by field: every value is of its type and within its limits, or refused.

What is refused is named by its place and never repeated: it may be long, and it may be somebody's words. Fields that
nobody asked for are counted. Knows no protocol: which fields a message has is the codec's business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jiter

from server.devices.wire import BadMessage, Ignored
from server.errors import RequestError

MAX_FRAME_BYTES = 16 * 1024
"""Longest frame, text or binary."""
MAX_VALUE_DEPTH = 8
MAX_VALUE_ITEMS = 256
"""Of a field that may be any JSON value: containers within each other, and values in all."""

_SMALL = f"at most {MAX_VALUE_ITEMS} values, {MAX_VALUE_DEPTH} deep, with numbers below 1e308"
# Such a text may stand in a log line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]*\Z")

_Choice = TypeVar("_Choice", bound=str)
_Checked = TypeVar("_Checked")


def read_message(text: str) -> dict[str, Any]:
    """A text frame as an object without duplicate names. Raises `BadMessage`: `message_too_large`, `json_invalid`."""
    try:
        data = text.encode() if len(text) <= MAX_FRAME_BYTES else None
    except UnicodeEncodeError:
        raise BadMessage("The message is not Unicode text.", code="json_invalid") from None
    if data is None or len(data) > MAX_FRAME_BYTES:
        raise BadMessage(f"A message has at most {MAX_FRAME_BYTES} bytes.", code="message_too_large")
    try:
        message = jiter.from_json(data, allow_inf_nan=False, cache_mode="none", catch_duplicate_keys=True)
    except ValueError:
        # The parser's own words quote the message.
        raise BadMessage("The message is not valid JSON, or has a name twice.", code="json_invalid") from None
    if not isinstance(message, dict):
        raise BadMessage("A message is a JSON object.", code="json_invalid")
    return message


class Fields:
    """The fields of one object. `null` is the same as a field that is not there. `place`: its name in errors."""

    def __init__(self, values: Mapping[str, Any], ignored: Ignored, *, place: str = "", known: int = 0) -> None:
        self._values = values
        self._ignored = ignored
        self._place = place
        self._known = known

    def close(self) -> None:
        """Count the fields that were not asked for; call it when the message is understood."""
        self._ignored.fields += len(self._values) - self._known

    def text(self, name: str, limit: int, *, least: int = 0, default: str | None = None) -> str:
        """`least` to `limit` characters, no control characters."""
        value = self._take(name, default)
        if isinstance(value, str) and least <= len(value) <= limit and not _CONTROL.search(value):
            return value
        raise self.bad(name, f"text of {least} to {limit} characters on one line")

    def optional_text(self, name: str, limit: int) -> str | None:
        """As `text`; None when it is missing or empty."""
        return self.text(name, limit, default="") or None

    def long_text(self, name: str, limit: int) -> str:
        """Any text of at most `limit` characters, also with line ends."""
        value = self._take(name, None)
        if isinstance(value, str) and len(value) <= limit:
            return value
        raise self.bad(name, f"text of at most {limit} characters")

    def identifier(self, name: str, limit: int) -> str:
        """Lower-case letters, digits and _, a letter first."""
        value = self._take(name, None)
        if _is_identifier(value, limit):
            return str(value)
        raise self.bad(name, f"1 to {limit} lower-case letters, digits and _, a letter first")

    def identifiers(self, name: str, limit: int, *, most: int, default: bool = True) -> tuple[str, ...] | None:
        """A list of identifiers, or true for None (all of them) and false for none of them."""
        value = self._take(name, default)
        if isinstance(value, bool):
            return None if value else ()
        if isinstance(value, list) and len(value) <= most and all(_is_identifier(item, limit) for item in value):
            return tuple(value)
        raise self.bad(name, f"true, false or a list of at most {most} identifiers of {limit} characters")

    def checked(self, name: str, check: Callable[[str], _Checked], *, default: str | None = None) -> _Checked:
        """Text by a rule from elsewhere: `check` returns what is kept, or raises a `RequestError`, whose code stays."""
        value = self._take(name, default)
        if not isinstance(value, str):
            raise self.bad(name, "text")
        try:
            return check(value)
        except RequestError as error:
            place = f"{self._place}{name}"
            raise BadMessage(f"{place}: {error.message}", code=error.code, field=place) from None

    def choice(self, name: str, allowed: tuple[_Choice, ...], default: _Choice | None = None) -> _Choice:
        value = self._take(name, default)
        for item in allowed:
            if value == item:
                return item
        raise self.bad(name, " or ".join(allowed))

    def whole(self, name: str, lowest: int, highest: int, default: int | None = None) -> int:
        """A whole number; 2.0 is one (some encoders write no other), true is none."""
        value = self._take(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        raise self.bad(name, f"a whole number from {lowest} to {highest}")

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._take(name, default)
        if isinstance(value, bool):
            return value
        raise self.bad(name, "true or false")

    def fractions(self, name: str, most: int) -> tuple[float, ...]:
        """A list of at most `most` numbers from 0 to 1."""
        value = self._take(name, None)
        if isinstance(value, list) and len(value) <= most and all(_is_fraction(item) for item in value):
            return tuple(float(item) for item in value)
        raise self.bad(name, f"a list of at most {most} numbers from 0 to 1")

    def group(self, name: str) -> Fields:
        """An object within this one; it has a `close` of its own."""
        found = self.optional_group(name)
        if found is None:
            raise self.bad(name, "an object")
        return found

    def optional_group(self, name: str) -> Fields | None:
        """As `group`; None when it is missing."""
        value = self._take(name, None)
        if value is None:
            return None
        if isinstance(value, dict):
            return Fields(value, self._ignored, place=f"{self._place}{name}.")
        raise self.bad(name, "an object")

    def value(self, name: str) -> Any:
        """Any JSON value that is small and finite; None when it is missing."""
        if name in self._values:
            self._known += 1
        value = self._values.get(name)
        if _is_small(value):
            return value
        raise self.bad(name, _SMALL)

    def mapping(self, name: str) -> dict[str, Any]:
        """An object of small JSON values; empty when it is missing."""
        value = self.value(name)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise self.bad(name, "an object")

    def rest(self) -> dict[str, Any]:
        """Every field but `type`, as small JSON values; none of them is left to be counted."""
        self._known = len(self._values)
        values = {name: value for name, value in self._values.items() if name != "type"}
        if _is_small(values):
            return values
        raise self.bad("*", _SMALL, "field_invalid")

    def bad(self, name: str, allowed: str, code: str | None = None) -> BadMessage:
        """The error for a field that is wrong, or missing."""
        place = f"{self._place}{name}"
        if code is None and self._values.get(name) is None:
            return BadMessage(f"{place} is missing: {allowed}.", code="field_missing", field=place)
        return BadMessage(f"{place} takes {allowed}.", code=code, field=place)

    def _take(self, name: str, default: Any) -> Any:
        if name in self._values:
            self._known += 1
        value = self._values.get(name)
        return default if value is None else value


def _is_identifier(value: object, limit: int) -> bool:
    return isinstance(value, str) and len(value) <= limit and _SNAKE_CASE.match(value) is not None


def _is_fraction(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_small(value: object) -> bool:
    """Few values, not deep, every number one that a float can hold."""
    items, level = 0, [value]
    for _ in range(MAX_VALUE_DEPTH + 1):
        items += len(level)
        if items > MAX_VALUE_ITEMS or any(not _is_finite(item) for item in level):
            return False
        lists = [item for item in level if isinstance(item, list)]
        objects = [item for item in level if isinstance(item, dict)]
        if items + sum(map(len, lists)) + sum(map(len, objects)) > MAX_VALUE_ITEMS:
            return False
        level = [item for part in lists for item in part] + [item for part in objects for item in part.values()]
        if not lists and not objects:
            return True
    return False


def _is_finite(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) < 10**308
    return not isinstance(value, float) or math.isfinite(value)
