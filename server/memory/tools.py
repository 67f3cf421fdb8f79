"""The tools through which a model remembers.

A tool is a `spec` that the model reads and a `run` that takes its arguments; the turn's tool loop calls it. Knows no
model, no index and no table: what is searched, read and forgotten comes in as functions, and who asks comes with every
call. Whatever text is in a result is data: nothing in it is acted on here.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from server.engines.base import ToolSpec
from server.errors import RequestError
from server.memory.asking import Asker
from server.memory.recall_records import SearchResult
from server.memory.tool_results import DEFAULT_LIMITS, ToolLimits, search_result, source_result
from server.storage.recall_tables import MemoryType
from server.storage.records import SourceTurn
from server.storage.types import FIRST_DAY, LAST_DAY, is_possible_day

SEARCH_MEMORY = ToolSpec(
    "search_memory",
    "what the user told you in earlier conversations about their life, family, things and plans",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 60, "description": "words to find"}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
"""For models that read slowly and fill in whatever they are offered."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """What a model may ask for; who asks comes beside it."""

    query: str
    entities: tuple[str, ...] = ()
    date_from: dt.date | None = None
    date_to: dt.date | None = None
    memory_type: MemoryType | None = None
    limit: int = 5
    history: bool = False


SearchMemories = Callable[[SearchArguments, Asker], Awaitable[SearchResult]]
"""Finds what the asker may find."""
Offer = Callable[[Asker], Awaitable[float | None]]
"""None: there is nothing to find. Else log-odds by which a search is likelier than else, seen without a model."""
_DAY = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "description": "YYYY-MM-DD"}
_LIMIT = 10
_SOURCE_LIMITS = ToolLimits(candidates=20)
SEARCH_MEMORY_FULL = ToolSpec(
    "search_memory",
    "what the user told you in earlier conversations about their life, family, things and plans; when the result is"
    " ambiguous, ask the user which one is meant",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 200, "description": "words to find"},
            "entities": {
                "type": "array",
                "items": {"type": "string", "maxLength": 60},
                "maxItems": 6,
                "description": "names that the memory must be about",
            },
            "date_from": _DAY,
            "date_to": _DAY,
            "memory_type": {"type": "string", "enum": list(get_args(MemoryType))},
            "limit": {"type": "integer", "minimum": 1, "maximum": _LIMIT},
            "history": {
                "type": "boolean",
                "description": "also what was corrected since: how it was before, and how it is now",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)


class SearchMemory:
    """Searches what was said in earlier conversations. `spec`: the short one, or the one with all there is to ask."""

    def __init__(
        self,
        search: SearchMemories,
        offer: Offer,
        *,
        spec: ToolSpec = SEARCH_MEMORY_FULL,
        limits: ToolLimits = DEFAULT_LIMITS,
    ) -> None:
        self.spec = spec
        self._search = search
        self._offer = offer
        self._limits = limits

    async def offer(self, asker: Asker) -> float | None:
        """Not while there is nothing to find: each needless search is a second call of the model."""
        return await self._offer(asker)

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"candidates": [...], "ambiguous": bool}`, with `"note": "nothing found"` when there are none, and how it
        was searched in `searched`. Raises `RequestError`.
        """
        memory_type = arguments.get("memory_type")
        if memory_type is not None and memory_type not in get_args(MemoryType):
            raise wrong(f"memory_type must be one of {', '.join(get_args(MemoryType))}")
        asked = SearchArguments(
            query_argument(arguments),
            entities=texts_argument(arguments, "entities"),
            date_from=_day(arguments, "date_from"),
            date_to=_day(arguments, "date_to"),
            memory_type=cast("MemoryType | None", memory_type),
            limit=min(_whole(arguments, "limit", 5, 1, _LIMIT), self._limits.candidates),
            history=arguments.get("history") is True,
        )
        if asked.date_from and asked.date_to and asked.date_from > asked.date_to:
            raise wrong("date_from must not be after date_to")
        return search_result(await self._search(asked, asker), self._limits)


ReadSource = Callable[[str | None, tuple[int, ...], int, Asker], Awaitable[Sequence[SourceTurn]]]
"""The source turns of a memory, or those named, with so many around each; only what the asker may read."""

READ_MEMORY_SOURCE = ToolSpec(
    "read_memory_source",
    "the exact words behind a memory, with their date; read them before you say a number or a date, and when several"
    " memories match",
    {
        "type": "object",
        "properties": {
            "memory_id": {"type": "string", "maxLength": 40, "description": "from search_memory"},
            "source_turn_ids": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 20},
            "around": {"type": "integer", "minimum": 0, "maximum": 5, "description": "more turns before and after"},
        },
        "additionalProperties": False,
    },
)

READ_MEMORY_SOURCE_SHORT = ToolSpec(
    READ_MEMORY_SOURCE.name,
    "the exact words behind a memory; read them before you say a number or a date",
    {
        "type": "object",
        "properties": {"memory_id": {"type": "string", "maxLength": 40, "description": "from search_memory"}},
        "required": ["memory_id"],
        "additionalProperties": False,
    },
    # So that the small model reads for a number or a day (5 of 5 tried) and answers at once else (4 of 5).
    prior=9.25,
)


class ReadMemorySource:
    """Goes back to what was really said."""

    def __init__(
        self, read: ReadSource, *, spec: ToolSpec = READ_MEMORY_SOURCE, limits: ToolLimits = _SOURCE_LIMITS
    ) -> None:
        self.spec = spec
        self._read = read
        self._limits = limits

    async def offer(self, asker: Asker) -> float | None:
        """Always; what can be read is known to whoever has seen what was found."""
        return 0.0

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"turns": [...], "source_checked": true}`, with how many were left out.

        Raises `RequestError`, `NotFoundError`.
        """
        memory_id, turn_ids = arguments.get("memory_id"), arguments.get("source_turn_ids") or ()
        if memory_id is not None and (not isinstance(memory_id, str) or not memory_id.strip()):
            raise wrong("memory_id must be an id from search_memory")
        if not isinstance(turn_ids, list | tuple) or any(type(one) is not int or one < 1 for one in turn_ids):
            raise wrong("source_turn_ids must be a list of numbers from search_memory")
        if (memory_id is None) == (not turn_ids):
            raise wrong("give memory_id or source_turn_ids, one of them, from search_memory")
        around = _whole(arguments, "around", 0, 0, 5)
        found = await self._read(memory_id.strip() if memory_id else None, tuple(turn_ids)[:20], around, asker)
        return source_result(found, self._limits)


ForgetMemories = Callable[[tuple[str, ...], Asker], Awaitable[Mapping[str, Any]]]
"""Forgets these memories with the words they came from; tells how many, and what is found all the same."""

FORGET_MEMORY = ToolSpec(
    "forget_memory",
    "forget for good what the user asks you to forget; only when the user asks for it in this turn",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 60, "description": "what to forget"},
            "memory_ids": {
                "type": "array",
                "items": {"type": "string", "maxLength": 40},
                "maxItems": 10,
                "description": "from search_memory, instead of query",
            },
        },
        "additionalProperties": False,
    },
)

FORGET_MEMORY_SHORT = ToolSpec(
    FORGET_MEMORY.name,
    "forget for good what the user asks you to forget",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 60, "description": "what to forget"}},
        "required": ["query"],
        "additionalProperties": False,
    },
    # Offered only when the user asks for it, and then meant: the small model chooses which tool, and what.
    prior=math.inf,
)

TOOL_NAMES = (SEARCH_MEMORY.name, READ_MEMORY_SOURCE.name, FORGET_MEMORY.name)


def has_forgotten(call: Mapping[str, Any]) -> bool:
    """Whether a finished call, `{"name", "arguments", "result"}`, forgot something."""
    result = call.get("result")
    forgotten = result.get("forgotten") if isinstance(result, Mapping) else None
    return call.get("name") == FORGET_MEMORY.name and isinstance(forgotten, int) and forgotten > 0


def query_argument(arguments: Mapping[str, Any]) -> str:
    query = arguments.get("query")
    if not isinstance(query, str) or not query.strip():
        raise wrong("query must be a text that is not empty")
    return query.strip()


def texts_argument(arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = arguments.get(name) or ()
    if not isinstance(values, list | tuple) or any(not isinstance(value, str) for value in values):
        raise wrong(f"{name} must be a list of texts")
    return tuple(dict.fromkeys(value.strip() for value in values if value.strip()))


def _day(arguments: Mapping[str, Any], name: str) -> dt.date | None:
    value = arguments.get(name)
    if value is None:
        return None
    try:
        day = dt.date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise wrong(f"{name} must be a day like 2026-11-30") from None
    if not is_possible_day(day):
        raise wrong(f"{name} must lie from {FIRST_DAY} to {LAST_DAY}")
    return day


def _whole(arguments: Mapping[str, Any], name: str, otherwise: int, least: int, most: int) -> int:
    value = arguments.get(name, otherwise)
    if type(value) is not int or not least <= value <= most:
        raise wrong(f"{name} must be a whole number from {least} to {most}")
    return value


def wrong(what: str) -> RequestError:
    return RequestError(what, code="arguments_invalid")
