"""Long-term memory as one object: what a server opens, gives its turns, and closes.

Puts the parts together and decides how they share the machine: work waits while somebody is being answered, and an
index that cannot be used leaves words to be searched. What is found, kept and forgotten is the parts' matter. Knows no
turn of the pipeline: who asks comes as an `Asker`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from server.config_sections import MemorySettings, SessionSettings
from server.engines.base import EmbeddingEngine, LlmCapabilities, LlmEngine
from server.errors import MemoryIndexError
from server.memory.asked import AskedMemory, MemoryTool, OnSearch, query_of
from server.memory.asking import Asker
from server.memory.fusion import SUMMARIES_AND_SOURCES
from server.memory.index.base import MemoryIndex
from server.memory.index.factory import open_index
from server.memory.index_access import IndexAccess
from server.memory.indexer import Indexer, Progress
from server.memory.ingest import IngestLimits, Ingestor
from server.memory.keeper import Keeper, OnForgotten
from server.memory.leases import Clock
from server.memory.names_to_hear import NamesToHear
from server.memory.nearness import measured, nearness, stated
from server.memory.owner import MemoryOwner
from server.memory.query_cache import CachedQueries
from server.memory.recall import Recall, fitted
from server.memory.recall_records import SearchQuery
from server.memory.reranking import Reranking
from server.memory.segment import recipe_for
from server.memory.tools import FORGET_MEMORY
from server.memory.worker import MemoryWorker, TurnGate, Work, WorkerRecipe
from server.storage import exchanges, memory_browse, memory_lookup, tombstones
from server.storage.database import Databases
from server.storage.memory_records import Forgetting
from server.storage.recall_tables import JobKind, MemoryStatus, SegmentResult

_HOUSEKEEPING_SECONDS = 30.0
_OPTIMIZE_EVERY = 120
"""Times of housekeeping: an hour."""
_FIGURES_SECONDS = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """What `/metrics` shows. Counts of the database, as they are now."""

    memories: Mapping[MemoryStatus, int]
    segments: Mapping[SegmentResult, int]
    pending: int
    parked: int
    corrected: int
    """Memories that were corrected after they had been told."""
    index_usable: bool


class LongTermMemory:
    """The memory of one world. `world_folder`: holds its `index/`. `on_forgotten`: removes copies kept elsewhere.

    `after_asking`: called when making memories has used the language model, as to read a prompt back into its cache.
    """

    def __init__(
        self,
        databases: Databases,
        llm: LlmEngine,
        embedding: EmbeddingEngine,
        settings: MemorySettings,
        session: SessionSettings,
        *,
        world_folder: Path,
        persona_id: str,
        zone: ZoneInfo,
        clock: Clock,
        after_asking: Callable[[], Awaitable[None]] | None = None,
        on_forgotten: Sequence[OnForgotten] = (),
        on_search: OnSearch | None = None,
        reranking: Reranking | None = None,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.gate = TurnGate()
        self._engine, near = embedding, stated(embedding)
        self._queries = embedding = CachedQueries(embedding)
        recipe = fitted(SUMMARIES_AND_SOURCES, near)
        open_world = partial(databases.world, write=False)
        self.recall = Recall(open_world, None, embedding, recipe=recipe, reranking=reranking)
        self.indexer = Indexer(databases, None, embedding, clock=clock)
        self.keeper = Keeper(
            databases, None, embedding, clock=clock, on_forgotten=(self._forget_copies, self._forget_old_indexes)
        )
        folder = world_folder / "index"
        key = settings.index_api_key.get_secret_value() if settings.index_api_key else None
        fingerprint = embedding.fingerprint

        def closed_index() -> MemoryIndex:
            kind, url = settings.index_kind, settings.index_url
            return open_index(kind, folder, fingerprint.dimensions, fingerprint, url, key)

        self._access = IndexAccess(closed_index, self.indexer, self._use_index, folder)
        ingestor = Ingestor(
            databases,
            llm,
            embedding,
            self.keeper,
            clock=clock,
            segmenting=replace(recipe_for(fingerprint.model), most_exchanges=settings.backlog_rounds),
            after_asking=after_asking,
            limits=IngestLimits(dt.timedelta(minutes=session.idle_close_minutes)),
        )
        work: dict[JobKind, Work] = {"scrub": self.keeper.scrub}
        if settings.ingest:
            work["ingest"] = ingestor.ingest
        # A model on this machine is needed by turns; one behind an endpoint takes both.
        shared = llm.capabilities.one_at_a_time
        self.worker = MemoryWorker(databases, work, self.gate, clock=clock, recipe=WorkerRecipe(waits_for_turns=shared))
        self.owner = MemoryOwner(
            databases,
            self.keeper,
            self.indexer,
            self.recall,
            fingerprint,
            persona_id=persona_id,
            clock=clock,
            zone=zone,
            index_kind=settings.index_kind,
            index_folder=None if settings.index_kind == "server" else folder,
            index_problem=lambda: self.index_problem,
            rebuild=self.rebuild,
            wake=self.worker.wake,
        )
        self._asked = AskedMemory(
            databases,
            self.recall,
            self.keeper,
            near=near,
            embedding=embedding,
            on_search=on_search,
            monotonic=monotonic,
        )
        self._names = NamesToHear(databases, self.recall)
        self._databases = databases
        self._somebody: Callable[[], SearchQuery] = lambda: SearchQuery("", persona_id, None, clock(), zone)
        self._on_forgotten = tuple(on_forgotten)
        self._monotonic = monotonic
        self._corrected = (-_FIGURES_SECONDS, 0)
        self._housekeeping: asyncio.Task[None] | None = None

    # --- life ---

    @property
    def index_problem(self) -> MemoryIndexError | None:
        """Why the index cannot be used now."""
        return self._access.problem

    async def open(self) -> None:
        """Open the index and forget again what has come back; no model is needed for that. Raises `StorageError`.

        An index that cannot be used is survived: words find, and `index_problem` says why.
        """
        await self._access.open()
        # Behind the index, which may be older than the database.
        await self.keeper.reapply()
        await self.owner.imports.go_on()
        await self._forget_moved_aside()
        async with self._databases.world(write=False) as db:
            cut_off = await exchanges.turns_that_forgot(db, FORGET_MEMORY.name)
        for turn_id in cut_off:
            await self.forget_this_turn(turn_id)

    async def start(self) -> None:
        """Begin to work: the models have started."""
        await self._names.refresh_newest(self._somebody())
        resumed = await self.worker.start()
        if resumed:
            _log.info("%d jobs of long-term memory go on", resumed)
        self._housekeeping = asyncio.create_task(self._keep_house(), name="memory-housekeeping")

    async def _measure_cosines(self) -> None:
        """Of a model whose figures its engine does not state; without them words alone tell what is near."""
        try:
            calibration = await measured(self._engine)
        except Exception as error:  # a defect of an engine must not end the housekeeping that comes after this
            _log.error("what cosines mean cannot be measured", exc_info=error)
            return
        self._asked.near = near = nearness(calibration)
        self.recall.recipe = fitted(self.recall.recipe, near)
        _log.info("cosines of texts that share nothing: %.3f ± %.3f", calibration.unrelated, calibration.deviation)

    async def stop(self) -> None:
        """Stop working, while the models are still there; what is in hand goes back in line. Safe to call twice."""
        task, self._housekeeping = self._housekeeping, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.owner.close()
        await self.worker.close()

    async def close(self) -> None:
        """Stop, and close the index. Safe to call twice and before `open`."""
        await self.stop()
        await self._access.close()

    async def _keep_house(self) -> None:
        if stated(self._engine) is None:
            # Beside the conversation: a model that is slow to answer delays no start.
            await self._measure_cosines()
        times = 0
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            times += 1
            try:
                if await self._access.try_again():
                    await self._forget_moved_aside()
                if await self.owner.imports.go_on():
                    self.worker.wake()
                if times % _OPTIMIZE_EVERY == 0:
                    await self.gate.wait_quiet()
                    await self._access.optimize()
            except Exception as error:  # a defect here must not end it for the rest of the server's life
                _log.error("housekeeping of long-term memory failed", exc_info=error)

    def _use_index(self, index: MemoryIndex | None) -> None:
        self.recall.index = self.keeper.index = self.indexer.index = index
        if index is None:
            self.worker.leave(("index", "unindex"))
        else:
            self.worker.take_up({"index": self.indexer.index_memory, "unindex": self.indexer.unindex_memory})

    async def rebuild(self, progress: Progress | None = None) -> int:
        """Make every vector anew, also after the embedding model or the backend has changed; how many.

        Raises `BusyError` while another one runs, `MemoryIndexError`, `EmbeddingError`.
        """
        await self.keeper.reapply()
        done = await self._access.rebuild(progress)
        await self._forget_moved_aside()
        return done

    async def figures(self) -> MemoryFigures:
        """Figures of many conversations. Raises `StorageError`."""
        async with self._databases.world(write=False) as db:
            counted = await memory_lookup.counts(db)
            read_at, corrected = self._corrected
            # Looks through every turn: not with each scrape.
            if self._monotonic() - read_at >= _FIGURES_SECONDS:
                corrected = (await memory_browse.recall_figures(db)).misses_corrected
                self._corrected = self._monotonic(), corrected
        return MemoryFigures(
            memories=counted.memories,
            segments=counted.segments,
            pending=counted.pending,
            parked=counted.parked,
            corrected=corrected,
            index_usable=self.recall.index is not None,
        )

    # --- what turns use ---

    def tools_for(self, capabilities: LlmCapabilities) -> tuple[MemoryTool, ...]:
        """The tools that a model is offered; a small one with short specs."""
        return self._asked.tools(small=capabilities.wants_examples)

    def hot_words_for(self, session_id: str, speaker: str | None) -> tuple[str, ...]:
        """Names that may come up next in a session, at once: as they were after its last turn."""
        return self._names.known(session_id, speaker)

    async def turn_ended(self, asker: Asker, *, forgot: bool = False) -> None:
        """A turn is stored and answered. `forgot`: something was forgotten in it. Raises `StorageError`."""
        self.worker.wake()
        if forgot:
            await self.forget_this_turn(asker.turn_id)
        await self._names.refresh(query_of(asker, asker.words))

    async def session_ended(self, session_id: str) -> None:
        """Take the rest of a session in now."""
        await self.worker.session_ended(session_id)

    async def forget_this_turn(self, turn_id: int) -> None:
        """Blank a turn that has ended and in which something was forgotten: its words name what that was."""
        await self._asked.forget_turn(turn_id)
        self.worker.wake()

    async def _forget_copies(self, reached: Forgetting) -> None:
        self._names.clear()
        self._queries.forget()
        # The robot's voice in the turn that asks for it is being played; it goes with its hour.
        turn_ids = tuple(turn for turn in reached.turn_ids if turn not in self._asked.in_hand)
        for remove in self._on_forgotten:
            await remove(replace(reached, turn_ids=turn_ids))

    async def _forget_old_indexes(self, _: Forgetting) -> None:
        await self._access.forget_old()

    async def _forget_moved_aside(self) -> None:
        """The index may have been moved aside just now, with what was forgotten long ago."""
        async with self._databases.server(write=False) as db:
            forgotten = await tombstones.all_tombstones(db)
        if not forgotten:
            return
        try:
            await self._access.forget_moved_aside()
        except OSError as error:
            _log.error("a damaged memory index could not be removed", exc_info=error)
