"""The memory tools as the server offers them to a model: before a memory that finds nothing, or cannot be reached, so
that the model alone decides, or before one that remembers, with all that the server makes of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from server.config import Settings
from server.engines.base import EmbeddingEngine, LlmCapabilities, LlmEngine
from server.errors import EmbeddingError, NotFoundError
from server.memory.asked import MemoryTool, memory_tools
from server.memory.asking import Asker
from server.memory.recall_records import Searched, SearchResult
from server.memory.service import LongTermMemory
from server.memory.tools import SearchArguments
from server.persona import Persona
from server.storage.database import Databases
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


@asynccontextmanager
async def remembering_tools(
    export: Path, settings: Settings, persona: Persona, llm: LlmEngine, embedding: EmbeddingEngine, now: datetime
) -> AsyncIterator[tuple[MemoryTool, ...]]:
    """What a server offers this model that remembers what an exported file holds, with its own leaning towards a
    search or away from it. In a folder of its own, away when the block ends. `embedding`: has started.
    """

    exported = await asyncio.to_thread(export.read_bytes)

    async def lines() -> AsyncIterator[bytes]:
        yield exported

    with tempfile.TemporaryDirectory() as folder:
        async with await Databases.open(Path(folder), "home") as databases:
            memory = LongTermMemory(
                databases,
                llm,
                embedding,
                # Never the owner's own index, which may be elsewhere.
                settings.memory.model_copy(update={"index_kind": "local"}),
                settings.session,
                world_folder=databases.world_folder,
                persona_id=persona.persona_id,
                zone=ZoneInfo(persona.zone),
                clock=lambda: now,
            )
            try:
                await memory.open()
                await memory.owner.imports.take_in(lines())
                await memory.rebuild()
                yield memory.tools_for(llm.capabilities)
            finally:
                await memory.close()


async def _read(memory_id: str | None, turn_ids: tuple[int, ...], around: int, asker: Asker) -> Sequence[SourceTurn]:
    raise NotFoundError("There is no such memory.")


async def _forget(memory_ids: tuple[str, ...], asker: Asker) -> Mapping[str, Any]:
    raise NotFoundError("There is no such memory.")
