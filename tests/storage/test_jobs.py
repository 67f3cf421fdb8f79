"""Jobs: asked for once, leased to one, tried again later and later, parked, and queued again after a death."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from server.storage import jobs
from server.storage.database import Databases
from server.storage.memory_records import Job
from tests.storage.house import NOW

pytestmark = pytest.mark.integration


def after(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


async def ask(databases: Databases, *subjects: str, now: dt.datetime = NOW) -> None:
    async with databases.world() as db:
        for subject in subjects:
            await jobs.enqueue(db, "index", subject, now=now)


async def take(databases: Databases, owner: str = "boot/1", now: dt.datetime = NOW) -> Job:
    async with databases.world() as db:
        job = await jobs.lease(db, owner=owner, now=now, lease_seconds=60)
    assert job is not None
    return job


async def nothing_to_take(databases: Databases, now: dt.datetime = NOW) -> bool:
    async with databases.world() as db:
        return await jobs.lease(db, owner="other", now=now, lease_seconds=60) is None


async def test_oldest_first_one_at_a_time_and_done_is_gone(databases: Databases) -> None:
    await ask(databases, "a", "b")
    first, second = await take(databases), await take(databases, "boot/2")
    assert [(job.subject, job.state, job.lease_owner, job.lease_until) for job in (first, second)] == [
        ("a", "running", "boot/1", after(60)),
        ("b", "running", "boot/2", after(60)),
    ]
    assert await nothing_to_take(databases)
    async with databases.world() as db:
        assert await jobs.done(db, first)
        assert not await jobs.done(db, first)
        assert await jobs.counts(db) == {"index": {"running": 1}}


async def test_asking_twice_is_the_same_work(databases: Databases) -> None:
    async with databases.world() as db:
        await jobs.enqueue(db, "ingest", "s", now=NOW, payload={"a": 1}, not_before=after(50))
        await jobs.enqueue(db, "ingest", "s", now=NOW, payload={"語": 2}, not_before=after(20))
        await jobs.enqueue(db, "index", "s", now=NOW)
        await jobs.enqueue(db, "ingest", "s", now=NOW, payload={"語": 3}, not_before=after(90))
    async with databases.world(write=False) as db:
        found = await jobs.find(db, "ingest", "s")
        assert await jobs.counts(db) == {"index": {"queued": 1}, "ingest": {"queued": 1}}
        assert await jobs.next_due(db, kinds=["ingest"]) == after(20)
        assert await jobs.next_due(db) == NOW
    assert found is not None
    assert (found.payload, found.requests, found.not_before, found.created_at) == ({"語": 3}, 3, after(20), NOW)


async def test_asked_for_while_it_runs_is_done_once_more(databases: Databases) -> None:
    await ask(databases, "a")
    job = await take(databases)
    await ask(databases, "a", now=after(1))
    assert await nothing_to_take(databases, after(2))
    async with databases.world() as db:
        assert await jobs.done(db, job)
    again = await take(databases, now=after(2))
    assert (again.subject, again.requests) == ("a", 2)
    async with databases.world() as db:
        assert await jobs.done(db, again)
        assert await jobs.counts(db) == {}


async def test_only_the_wanted_kinds_are_leased(databases: Databases) -> None:
    await ask(databases, "a")
    async with databases.world() as db:
        await jobs.enqueue(db, "unindex", "b", now=NOW)
        assert await jobs.lease(db, owner="o", now=NOW, lease_seconds=9, kinds=["ingest"]) is None
        job = await jobs.lease(db, owner="o", now=NOW, lease_seconds=9, kinds=["ingest", "unindex"])
    assert job is not None
    assert job.subject == "b"


async def test_job_waits_until_its_time(databases: Databases) -> None:
    async with databases.world() as db:
        await jobs.enqueue(db, "index", "a", now=NOW, not_before=after(30))
    assert await nothing_to_take(databases, after(29))
    assert (await take(databases, now=after(30))).subject == "a"


async def test_failures_wait_longer_and_the_fifth_parks(databases: Databases) -> None:
    await ask(databases, "a", "b")
    now, waits, states = NOW, [], []
    for _ in range(5):
        job = await take(databases, now=now)
        assert job.subject == "a"
        async with databases.world() as db:
            states.append(await jobs.fail(db, job, "the model is away\0", now=now))
            failed = await jobs.find(db, "index", "a")
        assert failed is not None
        waits.append((failed.not_before - now).total_seconds())
        now = failed.not_before
    assert states == ["queued"] * 4 + ["parked"]
    assert waits == [5, 20, 80, 320, 600]
    assert (await take(databases, now=now)).subject == "b", "what is parked holds nobody up"
    async with databases.world(write=False) as db:
        parked = await jobs.parked(db)
        assert await jobs.next_due(db) is None
    assert [(job.subject, job.attempts, job.error) for job in parked] == [("a", 5, "the model is away")]


async def park(databases: Databases, subject: str) -> Job:
    await ask(databases, subject)
    for number in range(5):
        job = await take(databases, now=after(1_000 * number))
        async with databases.world() as db:
            await jobs.fail(db, job, "no", now=after(1_000 * number))
    async with databases.world(write=False) as db:
        return (await jobs.parked(db))[-1]


async def test_parked_jobs_are_retried_on_request(databases: Databases) -> None:
    one = await park(databases, "a")
    await park(databases, "b")
    async with databases.world() as db:
        assert await jobs.retry_parked(db, now=NOW, job_ids=[one.job_id]) == 1
        assert await jobs.retry_parked(db, now=NOW, job_ids=[one.job_id]) == 0
        assert await jobs.retry_parked(db, now=NOW) == 1
        assert await jobs.parked(db) == []
    job = await take(databases)
    assert (job.subject, job.attempts, job.not_before) == ("a", 0, NOW)


async def test_asking_again_gives_a_parked_job_one_more_attempt(databases: Databases) -> None:
    await park(databases, "a")
    await ask(databases, "a", now=after(9_000))
    job = await take(databases, now=after(9_000))
    async with databases.world() as db:
        assert await jobs.fail(db, job, "still", now=after(9_000)) == "parked"


async def test_lease_is_renewed_and_lost_when_it_ran_out(databases: Databases) -> None:
    await ask(databases, "a")
    job = await take(databases)
    async with databases.world() as db:
        assert await jobs.renew(db, job, now=after(50), lease_seconds=60)
    assert await nothing_to_take(databases, after(109))
    other = await take(databases, "boot/2", after(110))
    assert other.job_id == job.job_id
    async with databases.world() as db:
        assert not await jobs.renew(db, job, now=after(111), lease_seconds=60)
        assert not await jobs.done(db, job)
        assert await jobs.fail(db, job, "late", now=after(111)) is None
        assert not await jobs.release(db, job)
        assert await jobs.done(db, other)


async def test_released_job_is_not_a_failure(databases: Databases) -> None:
    await ask(databases, "a")
    async with databases.world() as db:
        assert await jobs.release(db, await held(db))
    job = await take(databases)
    assert (job.subject, job.attempts, job.error) == ("a", 0, None)


async def held(db: object) -> Job:
    job = await jobs.lease(db, owner="boot/1", now=NOW, lease_seconds=60)  # type: ignore[arg-type]
    assert job is not None
    return job


async def test_leases_of_the_dead_are_queued_again(databases: Databases) -> None:
    await ask(databases, "a", "b", "c")
    await take(databases, "old_boot/1")
    await take(databases, "new_boot/1")
    async with databases.world() as db:
        assert await jobs.release_leases_of_dead(db, living_owner_prefix="new_boot/") == 1
        assert await jobs.counts(db) == {"index": {"queued": 2, "running": 1}}
    job = await take(databases, "new_boot/2")
    assert (job.subject, job.attempts) == ("a", 0)


async def test_withdrawn_work_is_lost_to_its_worker(databases: Databases) -> None:
    await ask(databases, "a")
    job = await take(databases)
    async with databases.world() as db:
        assert await jobs.cancel(db, ["index", "ingest"], "a") == 1
        await jobs.enqueue(db, "unindex", "a", now=NOW)
    async with databases.world() as db:
        assert not await jobs.done(db, job), "not even when another job was given the same number"
        assert await jobs.counts(db) == {"unindex": {"queued": 1}}


async def test_two_workers_never_take_the_same_job(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as one, await Databases.open(tmp_path, "home") as two:
        await ask(one, *(f"m{number:02d}" for number in range(40)))
        taken: list[str] = []

        async def work(databases: Databases, owner: str) -> None:
            while True:
                async with databases.world() as db:
                    job = await jobs.lease(db, owner=owner, now=NOW, lease_seconds=60)
                if job is None:
                    return
                taken.append(job.subject)
                async with databases.world() as db:
                    assert await jobs.done(db, job)

        await asyncio.gather(work(one, "a"), work(two, "b"), work(one, "c"), work(two, "d"))
        async with one.world(write=False) as db:
            assert await jobs.counts(db) == {}
    assert sorted(taken) == [f"m{number:02d}" for number in range(40)]
