"""The tools through which a model remembers.

A tool is a `spec` that the model reads and a `run` that takes its arguments; the turn's tool loop calls it. Knows no
model, no index and no table: what is searched comes in as a function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from server.engines.base import ToolSpec
from server.errors import RequestError

FindMemories = Callable[[str], Awaitable[Sequence[Mapping[str, Any]]]]
"""Memories for a query, best first, as JSON-able values."""

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


class SearchMemory:
    """Searches what was said in earlier conversations."""

    spec = SEARCH_MEMORY

    def __init__(self, find: FindMemories) -> None:
        self._find = find

    async def run(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """`{"memories": [...]}`, with `"note": "nothing found"` when there are none. Raises `RequestError`."""
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise RequestError("query must be a text that is not empty", code="arguments_invalid")
        memories = [dict(memory) for memory in await self._find(query.strip())]
        return {"memories": memories} if memories else {"memories": [], "note": "nothing found"}
