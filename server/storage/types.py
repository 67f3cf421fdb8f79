"""Column types that hold the line: times are UTC and aware, texts are storable everywhere.

Cleaning happens here, in the types, so that no query can forget it. Knows no table.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from typing import Any

from sqlalchemy import JSON, DateTime, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from server.errors import StorageError

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Fillers that Unicode counts as letters or symbols."""


def clean_text(text: str) -> str:
    """`text` as every database can keep it: surrogate halves joined, lone ones made U+FFFD, NUL removed.

    Nothing else is changed: source turns keep their exact characters (no normalisation).
    """
    if _UNSTORABLE.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\0", "")


def is_visible(text: str) -> bool:
    """Whether anything of `text` can be seen; joiners, fillers and marks without a letter alone cannot."""
    return any(unicodedata.category(sign)[0] in "LNPS" and sign not in _BLANK for sign in text)


def clean_json(value: Any) -> Any:
    """A JSON value with every text in it, keys too, put through `clean_text`."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value


class UtcDateTime(TypeDecorator[dt.datetime]):
    """An instant: stored in UTC, read back aware. A naive time is refused, because nobody can tell what it means."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        if value is None:
            return None
        if value.tzinfo is None or value.utcoffset() is None:
            raise StorageError("A time without a time zone cannot be stored.", hint="Use datetime.now(UTC).")
        return value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class CleanText(TypeDecorator[str]):
    """Text of any length, cleaned on its way in."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean_text(value)


class CleanJson(TypeDecorator[Any]):
    """A JSON value, cleaned on its way in. None is SQL NULL."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return clean_json(value)


FIRST_DAY, LAST_DAY = dt.date(1900, 1, 1), dt.date(2999, 12, 31)
"""Days that something can have happened on. Further ones are mistakes, and near the ends of the calendar arithmetic
breaks.
"""


def is_possible_day(day: dt.date) -> bool:
    """Whether a day lies where people's days lie."""
    return FIRST_DAY <= day <= LAST_DAY
