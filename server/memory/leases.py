"""What work under a lease must say, in the transaction that keeps its result: that it still has the lease."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable

from server.storage import jobs
from server.storage.database import Db
from server.storage.memory_records import Job

Clock = Callable[[], dt.datetime]
"""The time, with its zone."""
Hold = Callable[[Db], Awaitable[None]]
"""Raises `LeaseLost` when the work of this transaction belongs to another now."""


class LeaseLost(Exception):
    """The job is another worker's, or was withdrawn: what was made is thrown away. Not a failure."""


def holding(job: Job, clock: Clock, lease_seconds: float) -> Hold:
    """Keeps the lease for so long again, in whatever transaction it is called in."""

    async def hold(db: Db) -> None:
        if not await jobs.renew(db, job, now=clock(), lease_seconds=lease_seconds):
            raise LeaseLost(job.kind)

    return hold


async def finish(db: Db, job: Job) -> None:
    """The work is done. Raises `LeaseLost`."""
    if not await jobs.done(db, job):
        raise LeaseLost(job.kind)
