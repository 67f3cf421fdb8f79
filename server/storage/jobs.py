"""Queries on jobs: leased rows that survive a restart. Takes times as arguments; knows no clock and no worker.

One row for each kind and subject. Asked for again while it waits, it is the same work; asked for again while it runs,
it is done once more afterwards.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, func, or_, update
from sqlmodel import case, col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.memory_records import Job
from server.storage.recall_tables import JobKind, JobRow, JobState
from server.storage.records import record
from server.storage.sqlite import upsert
from server.storage.types import clean_text


@dataclass(frozen=True, slots=True)
class RetryRecipe:
    """When a failed job is tried again, and when no more."""

    park_after_attempts: int = 5
    first_wait_seconds: float = 5.0
    wait_factor: float = 4.0
    longest_wait_seconds: float = 600.0

    def wait_seconds(self, attempts: int) -> float:
        """The pause after the failure number `attempts`."""
        return min(self.first_wait_seconds * self.wait_factor ** (attempts - 1), self.longest_wait_seconds)


RETRY = RetryRecipe()


async def enqueue(
    db: AsyncSession,
    kind: JobKind,
    subject: str,
    *,
    now: dt.datetime,
    payload: Any = None,
    not_before: dt.datetime | None = None,
) -> None:
    """Ask for work; once for each kind and subject. The newest `payload` counts; the earliest `not_before`.

    A parked job gets one more attempt, since something has changed.
    """
    start = now if not_before is None else not_before
    parked = col(JobRow.state) == "parked"
    asked = upsert(JobRow).values(
        kind=kind,
        subject=subject,
        payload=payload,
        state="queued",
        requests=1,
        attempts=0,
        not_before=start,
        created_at=now,
    )
    earlier = asked.excluded.not_before < col(JobRow.not_before)
    again = asked.on_conflict_do_update(
        index_elements=["kind", "subject"],
        set_={
            "requests": col(JobRow.requests) + 1,
            "payload": asked.excluded.payload,
            "not_before": case((or_(parked, earlier), asked.excluded.not_before), else_=col(JobRow.not_before)),
            "attempts": case((parked, RETRY.park_after_attempts - 1), else_=col(JobRow.attempts)),
            "state": case((parked, "queued"), else_=col(JobRow.state)),
        },
    )
    await db.exec(again)


async def enqueue_all(db: AsyncSession, kind: JobKind, subjects: Iterable[str], *, now: dt.datetime) -> None:
    """Ask for work on many at once; for what is asked already nothing changes."""
    asked = {"kind": kind, "state": "queued", "requests": 1, "attempts": 0, "not_before": now, "created_at": now}
    if rows := [asked | {"subject": subject} for subject in subjects]:
        await db.exec(upsert(JobRow).on_conflict_do_nothing(), params=rows)


async def lease(
    db: AsyncSession, *, owner: str, now: dt.datetime, lease_seconds: float, kinds: Sequence[JobKind] | None = None
) -> Job | None:
    """Take the oldest job that may run, for `owner` alone until the lease ends; None when there is none.

    A job whose lease ran out may be taken by another. `owner`: one name for each boot of a server, with its worker.
    """
    free = or_(
        and_(col(JobRow.state) == "queued", col(JobRow.not_before) <= now),
        and_(col(JobRow.state) == "running", col(JobRow.lease_until) <= now),
    )
    oldest = select(JobRow.job_id).where(free).order_by(col(JobRow.job_id)).limit(1)
    if kinds is not None:
        oldest = oldest.where(col(JobRow.kind).in_(kinds))
    taking = (
        update(JobRow)
        .where(col(JobRow.job_id) == oldest.scalar_subquery())
        .values(state="running", lease_owner=owner, lease_until=now + dt.timedelta(seconds=lease_seconds))
        .returning(JobRow)
        .execution_options(synchronize_session=False, populate_existing=True)
    )
    row = (await db.exec(taking)).scalar_one_or_none()
    return None if row is None else record(Job, row)


async def renew(db: AsyncSession, job: Job, *, now: dt.datetime, lease_seconds: float) -> bool:
    """Keep a job longer; False when the lease was lost to another and the work must stop."""
    until = now + dt.timedelta(seconds=lease_seconds)
    return await _change(db, job, lease_until=until)


async def done(db: AsyncSession, job: Job) -> bool:
    """The work of a leased job is over. False: the lease was lost, so what was made with it must not be kept either.

    Call it in the transaction that writes the result, and let that fail on False. A job that was asked for again
    meanwhile waits in the queue once more.
    """
    over = delete(JobRow).where(_held(job), col(JobRow.requests) == job.requests)
    if _count(await db.exec(over.execution_options(synchronize_session=False))):
        return True
    return await _change(db, job, state="queued", attempts=0, error=None, lease_owner=None, lease_until=None)


async def fail(db: AsyncSession, job: Job, error: str, *, now: dt.datetime) -> JobState | None:
    """A leased job failed: it waits longer each time, and is parked after the fifth. None: the lease was lost.

    `error`: what happened, for the owner; never words that were said, which could not be forgotten there.
    """
    attempts = job.attempts + 1
    parked = attempts >= RETRY.park_after_attempts
    state: JobState = "parked" if parked else "queued"
    again_at = now + dt.timedelta(seconds=RETRY.wait_seconds(attempts))
    kept = await _change(
        db,
        job,
        state=state,
        attempts=attempts,
        error=clean_text(error),
        not_before=again_at,
        lease_owner=None,
        lease_until=None,
    )
    return state if kept else None


async def release(db: AsyncSession, job: Job) -> bool:
    """Put a leased job back unfinished, because something else comes first; not a failure. False: it was lost."""
    return await _change(db, job, state="queued", lease_owner=None, lease_until=None)


async def release_leases_of_dead(db: AsyncSession, *, living_owner_prefix: str) -> int:
    """At start: everything leased by another boot is queued again; the count. Being killed is not a failure."""
    prefix = living_owner_prefix
    lost = (
        update(JobRow)
        .where(col(JobRow.state) == "running", func.substr(col(JobRow.lease_owner), 1, len(prefix)) != prefix)
        .values(state="queued", lease_owner=None, lease_until=None)
    )
    return _count(await db.exec(lost.execution_options(synchronize_session=False)))


async def cancel(db: AsyncSession, kinds: Iterable[JobKind], subject: str) -> int:
    """Withdraw work on a subject, also when it is running: its worker then finds its lease lost. The count."""
    withdrawn = delete(JobRow).where(col(JobRow.kind).in_(list(kinds)), col(JobRow.subject) == subject)
    return _count(await db.exec(withdrawn.execution_options(synchronize_session=False)))


async def find(db: AsyncSession, kind: JobKind, subject: str) -> Job | None:
    wanted = select(JobRow).where(JobRow.kind == kind, JobRow.subject == subject)
    row = (await db.exec(wanted.execution_options(populate_existing=True))).first()
    return None if row is None else record(Job, row)


async def next_due(db: AsyncSession, *, kinds: Sequence[JobKind] | None = None) -> dt.datetime | None:
    """When the next waiting job may run, so that a worker can sleep until then; None when none waits."""
    wanted = select(JobRow.not_before).where(JobRow.state == "queued").order_by(col(JobRow.not_before)).limit(1)
    if kinds is not None:
        wanted = wanted.where(col(JobRow.kind).in_(kinds))
    return (await db.exec(wanted)).first()


async def counts(db: AsyncSession) -> dict[JobKind, dict[JobState, int]]:
    """How many there are, by kind and state; what is not there is left out."""
    wanted = select(JobRow.kind, JobRow.state, func.count()).group_by(col(JobRow.kind), col(JobRow.state))
    found: dict[Any, dict[Any, int]] = {}
    for kind, state, count in (await db.exec(wanted)).all():
        found.setdefault(kind, {})[state] = count
    return found


async def parked(db: AsyncSession, limit: int = 100) -> list[Job]:
    """Jobs that were given up, oldest first, with their errors."""
    wanted = select(JobRow).where(JobRow.state == "parked").order_by(col(JobRow.job_id)).limit(limit)
    rows = await db.exec(wanted.execution_options(populate_existing=True))
    return [record(Job, row) for row in rows]


async def retry_parked(db: AsyncSession, *, now: dt.datetime, job_ids: Sequence[int] | None = None) -> int:
    """Queue parked jobs again, all or those named, with all their attempts; the count."""
    again = update(JobRow).where(col(JobRow.state) == "parked")
    if job_ids is not None:
        again = again.where(col(JobRow.job_id).in_(job_ids))
    queued = again.values(state="queued", attempts=0, not_before=now)
    return _count(await db.exec(queued.execution_options(synchronize_session=False)))


def _held(job: Job) -> Any:
    # SQLite gives the id of a deleted row out again, so the id alone could mean another job.
    return and_(
        col(JobRow.job_id) == job.job_id,
        col(JobRow.kind) == job.kind,
        col(JobRow.subject) == job.subject,
        col(JobRow.state) == "running",
        col(JobRow.lease_owner) == job.lease_owner,
    )


async def _change(db: AsyncSession, job: Job, **values: Any) -> bool:
    changing = update(JobRow).where(_held(job)).values(**values)
    return bool(_count(await db.exec(changing.execution_options(synchronize_session=False))))


def _count(result: Any) -> int:
    return int(result.rowcount)
