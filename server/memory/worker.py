"""The one worker of long-term memory: does leased jobs, one at a time, beside the conversation and never before it.

While somebody is being answered it waits; work that holds the language model is broken off by a turn and put back,
which is no failure. Knows what kinds of work there are, not what they do. Time comes in as a clock.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ulid import ULID

from server.errors import StackChanError
from server.memory.leases import Clock, LeaseLost
from server.storage import jobs, memories, memory_lookup, segments
from server.storage.database import Databases
from server.storage.memory_records import Job, MemoryCounts
from server.storage.recall_tables import JobKind

Work = Callable[[Job], Awaitable[None]]
"""Does a job and takes it off the list, in the transaction that keeps the result; raises `LeaseLost` if it cannot."""

_SLEEP_LIMIT_SECONDS = 60.0
"""Nothing is missed for longer, even if nobody calls `wake`."""
_RESUMED_LIMIT = 1_000
_log = logging.getLogger(__name__)


class TurnGate:
    """Who is being answered now, counted. The pipeline says when a turn starts and ends."""

    def __init__(self) -> None:
        self._turns = 0
        self._quiet = asyncio.Event()
        self._busy = asyncio.Event()
        self._quiet.set()

    @property
    def busy(self) -> bool:
        return self._turns > 0

    def turn_started(self) -> None:
        self._turns += 1
        self._quiet.clear()
        self._busy.set()

    def turn_ended(self) -> None:
        self._turns = max(0, self._turns - 1)
        if not self._turns:
            self._busy.clear()
            self._quiet.set()

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.turn_started()
        try:
            yield
        finally:
            self.turn_ended()

    async def wait_quiet(self) -> None:
        """Until no turn is in progress."""
        await self._quiet.wait()

    async def wait_busy(self) -> None:
        """Until one is."""
        await self._busy.wait()


@dataclass(frozen=True, slots=True)
class WorkerRecipe:
    """How the worker goes about it."""

    lease_seconds: float = 120.0
    yields: frozenset[JobKind] = frozenset({"ingest"})
    """Work that a turn breaks off, because both need the language model."""
    waits_for_turns: bool = True
    """False: the models are not shared, as with a language model behind a URL."""


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """What the owner is told. Counts of the database, and what was done since the start."""

    stored: MemoryCounts
    pending: int
    """Jobs that wait or run."""
    parked: int
    """Jobs given up, until somebody asks again."""
    filler_excluded: int
    """Segments of which nothing was kept."""
    done: dict[JobKind, int]
    failed: dict[JobKind, int]
    broken_off: dict[JobKind, int]


@dataclass
class _Tally:
    done: dict[JobKind, int] = field(default_factory=dict)
    failed: dict[JobKind, int] = field(default_factory=dict)
    broken_off: dict[JobKind, int] = field(default_factory=dict)


class MemoryWorker:
    """`work`: what to do for each kind of job; kinds that are not in it wait, as vectors do without an index."""

    def __init__(
        self,
        databases: Databases,
        work: Mapping[JobKind, Work],
        gate: TurnGate,
        *,
        clock: Clock,
        recipe: WorkerRecipe = WorkerRecipe(),
        boot: str | None = None,
    ) -> None:
        self.boot = boot or f"boot-{ULID()}"
        """Whose leases these are; one name for each start of a server."""
        self._databases = databases
        self._work = dict(work)
        self._gate = gate
        self._clock = clock
        self._recipe = recipe
        self._tally = _Tally()
        self._wake = asyncio.Event()
        self._resting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    def take_up(self, work: Mapping[JobKind, Work]) -> None:
        """Do these kinds of jobs, too, from now on."""
        self._work |= work
        self.wake()

    def leave(self, kinds: Iterable[JobKind]) -> None:
        """Let these kinds of jobs wait; one that runs goes on."""
        for kind in kinds:
            self._work.pop(kind, None)

    async def start(self) -> int:
        """Begin, with what a killed worker had in hand, and what waits without a job, in line; how much that was."""
        now = self._clock()
        async with self._databases.world() as db:
            resumed = await jobs.release_leases_of_dead(db, living_owner_prefix=self.boot)
            waiting: list[tuple[JobKind, str]] = [
                ("ingest", session_id) for session_id in await segments.sessions_with_open_exchanges(db)
            ]
            waiting += [("index", one.memory_id) for one in await memory_lookup.pending_index(db, _RESUMED_LIMIT)]
            for kind, subject in waiting:
                # One that was given up stays so until somebody asks.
                if await jobs.find(db, kind, subject) is None:
                    await jobs.enqueue(db, kind, subject, now=now)
                    resumed += 1
        self._task = asyncio.create_task(self._run(), name="memory-worker")
        self._task.add_done_callback(_tell_death)
        return resumed

    async def close(self) -> None:
        """Stop; the job in hand goes back in line. Safe to call twice and before `start`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for waiter in self._resting:
            waiter.cancel()
        self._resting.clear()

    def wake(self) -> None:
        """There is work, perhaps."""
        self._wake.set()

    async def session_ended(self, session_id: str) -> None:
        """Take the rest of a session in now, not after its idle time."""
        async with self._databases.world() as db:
            await jobs.enqueue(db, "ingest", session_id, now=self._clock())
        self.wake()

    async def idle(self) -> None:
        """Until no job is due. For tests: new work may come at any time. What waits for a retry does not count."""
        if self._task is None or self._task.done():
            raise RuntimeError("the worker is not running")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(waiter)
        self.wake()
        await waiter

    async def statistics(self) -> WorkerStatistics:
        """Figures as they are now."""
        async with self._databases.world(write=False) as db:
            stored = await memory_lookup.counts(db)
        return WorkerStatistics(
            stored,
            pending=stored.pending,
            parked=stored.parked,
            filler_excluded=stored.segments.get("filler", 0),
            done=dict(self._tally.done),
            failed=dict(self._tally.failed),
            broken_off=dict(self._tally.broken_off),
        )

    async def _run(self) -> None:
        while True:
            if self._recipe.waits_for_turns:
                await self._gate.wait_quiet()
            self._wake.clear()
            # Asked before the look, so that what came after it is looked for again.
            waiters, self._resting = self._resting, []
            try:
                now = self._clock()
                kinds = tuple(self._work)
                async with self._databases.world() as db:
                    job = await jobs.lease(
                        db, owner=self.boot, now=now, lease_seconds=self._recipe.lease_seconds, kinds=kinds
                    )
                    due = None if job is not None else await jobs.next_due(db, kinds=kinds)
            except StackChanError as error:
                _log.error("the memory worker cannot reach its jobs: %s", error.code)
                self._resting += waiters
                await asyncio.sleep(1.0)
                continue
            if job is not None:
                self._resting += waiters
                await self._do(job)
                continue
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            await self._sleep(due)

    async def _sleep(self, due: dt.datetime | None) -> None:
        seconds = _SLEEP_LIMIT_SECONDS
        if due is not None:
            seconds = min(seconds, max(0.05, (due - self._clock()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _do(self, job: Job) -> None:
        """One job to its end, or back in line when a turn, a lost lease or `close` comes in between."""
        work = self._work.get(job.kind)
        if work is None:  # left while it was being leased
            await self._give_back(job)
            return
        working = asyncio.ensure_future(work(job))
        watching: list[asyncio.Task[None]] = [asyncio.create_task(self._keep_lease(job))]
        if self._recipe.waits_for_turns and job.kind in self._recipe.yields:
            watching.append(asyncio.create_task(self._gate.wait_busy()))
        try:
            await asyncio.wait({working, *watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, *watching):
                task.cancel()
            await asyncio.gather(working, *watching, return_exceptions=True)
            if working.cancelled():
                await asyncio.shield(self._give_back(job))
        if not working.cancelled():
            await self._account(job, working.exception())

    async def _account(self, job: Job, error: BaseException | None) -> None:
        if error is None:
            _count(self._tally.done, job.kind)
            return
        if isinstance(error, LeaseLost):
            _log.info("the %s job was withdrawn while it ran", job.kind)
            return
        if isinstance(error, StackChanError):
            # The code alone: a message may quote what was said, which could then not be forgotten.
            told = f"{type(error).__name__}: {error.code}"
            _log.warning("%s of %s failed: %s", job.kind, job.subject, told)
        elif isinstance(error, Exception):
            told = f"{type(error).__name__}: a defect"
            _log.error("%s of %s: a defect", job.kind, job.subject, exc_info=error)
        else:
            raise error
        _count(self._tally.failed, job.kind)
        try:
            async with self._databases.world() as db:
                state = await jobs.fail(db, job, told, now=self._clock())
                memory = await memories.get(db, job.subject) if job.kind == "index" else None
                if memory is not None and state is not None:
                    gave_up = state == "parked"
                    await memories.mark_index_failed(db, memory.memory_id, memory.revision, told, gave_up=gave_up)
        except StackChanError as failure:  # the lease runs out, and the job is taken again
            _log.error("a failure could not be written down: %s", failure.code)
            return
        if state == "parked":
            _log.error("%s of %s was given up: %s", job.kind, job.subject, told)

    async def _give_back(self, job: Job) -> None:
        _count(self._tally.broken_off, job.kind)
        try:
            async with self._databases.world() as db:
                await jobs.release(db, job)
        except StackChanError as error:  # the lease runs out by itself
            _log.error("a job could not be given back: %s", error.code)

    async def _keep_lease(self, job: Job) -> None:
        """Renews; returns when the lease is lost, which ends the work."""
        while True:
            await asyncio.sleep(self._recipe.lease_seconds / 3)
            async with self._databases.world() as db:
                held = await jobs.renew(db, job, now=self._clock(), lease_seconds=self._recipe.lease_seconds)
            if not held:
                return


def _count(tally: dict[JobKind, int], kind: JobKind) -> None:
    tally[kind] = tally.get(kind, 0) + 1


def _tell_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("the memory worker has died; memories wait for the next start", exc_info=error)
