"""The memory tools as the server offers them to a model, before a memory that finds nothing, or cannot be reached.

Knows no store and no index: only what a model sees of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from server.engines.base import LlmCapabilities
from server.errors import EmbeddingError, NotFoundError
from server.memory.asked import MemoryTool, memory_tools
from server.memory.asking import Asker
from server.memory.recall_records import Searched, SearchResult
from server.memory.tools import SearchArguments
from server.storage.records import SourceTurn


def offered_tools(capabilities: LlmCapabilities, *, remembers: bool, fails: bool = False) -> tuple[MemoryTool, ...]:
    """What a server offers this model. `remembers`: there is something to find, so a search is offered, though it
    finds nothing; `fails`: it cannot be reached. How likely a search is, is left to the model: whether a memory
    mentions what is spoken of is not known here.
    """

    async def search(arguments: SearchArguments, asker: Asker) -> SearchResult:
        if fails:
            raise EmbeddingError("The memory cannot be reached.")
        return SearchResult((), (), ambiguous=False, searched=Searched(memories=0))

    async def offer(asker: Asker) -> float | None:
        return 0.0 if remembers else None

    return memory_tools(search, offer, _read, _forget, small=capabilities.wants_examples)


async def _read(memory_id: str | None, turn_ids: tuple[int, ...], around: int, asker: Asker) -> Sequence[SourceTurn]:
    raise NotFoundError("There is no such memory.")


async def _forget(memory_ids: tuple[str, ...], asker: Asker) -> Mapping[str, Any]:
    raise NotFoundError("There is no such memory.")
