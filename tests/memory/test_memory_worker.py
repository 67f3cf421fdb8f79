"""The worker beside the conversation: waits for turns, is broken off by them, retries, parks, and starts again."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from server.engines.base import LlmRequest
from server.errors import LlmError
from server.memory.leases import LeaseLost
from server.memory.worker import MemoryWorker, TurnGate, WorkerRecipe
from server.storage import jobs
from server.storage.database import Databases
from server.storage.memory_records import Job
from tests.memory.making import MONDAY, House, eventually, house, note

pytestmark = pytest.mark.integration


def summaries(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
    return [note(f"{text}。", about=[place], topic=text) for place, text in enumerate(said, start=1)]


async def reached(home: House, requests: int) -> None:
    async def asked() -> bool:
        return len(home.summarizer.requests) >= requests

    await eventually(asked)


async def find(home: House, kind: Any, subject: str) -> Job | None:
    async with home.databases.world(write=False) as db:
        return await jobs.find(db, kind, subject)


async def test_nothing_begins_while_somebody_is_answered(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        with home.gate.turn():
            await home.say(session_id, "猫のコムギが家に来た")
            ending = asyncio.create_task(home.end(session_id))
            await asyncio.sleep(0.1)
            assert home.summarizer.requests == []
            assert not ending.done()
        await ending
        assert len(await home.memories()) == 1


async def test_a_turn_breaks_the_summary_off_and_it_is_made_afterwards(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        home.summarizer.pause = asyncio.Event()
        session_id = await home.open_session()
        await home.say(session_id, "猫のコムギが家に来た")
        ending = asyncio.create_task(home.end(session_id))
        await reached(home, 1)
        with home.gate.turn():

            async def put_back() -> bool:
                job = await find(home, "ingest", session_id)
                return job is not None and job.state == "queued"

            await eventually(put_back)
            assert home.summarizer.cancelled == 1
            job = await find(home, "ingest", session_id)
            assert job is not None
            assert (job.attempts, job.error) == (0, None), "being interrupted is no failure"
            home.summarizer.pause.set()
            await asyncio.sleep(0.05)
            assert len(home.summarizer.requests) == 1
        await ending
        assert len(await home.memories()) == 1
        counted = await home.worker.statistics()
        assert (counted.broken_off, counted.failed, counted.pending) == ({"ingest": 1}, {}, 0)


async def test_a_model_of_its_own_goes_on_during_a_turn(tmp_path: Path) -> None:
    async with house(tmp_path, summaries, waits_for_turns=False) as home:
        with home.gate.turn():
            await home.talk("猫のコムギが家に来た")
        assert len(await home.memories()) == 1


async def test_what_fails_waits_longer_each_time_and_is_parked_with_its_code(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        home.summarizer.error = LlmError("the cat is called コムギ", code="llm_unreachable")
        session_id = await home.talk("猫のコムギが家に来た")
        waits = []
        for attempt in range(1, 5):
            job = await find(home, "ingest", session_id)
            assert job is not None
            assert (job.state, job.attempts) == ("queued", attempt)
            waits.append((job.not_before - home.at).total_seconds())
            home.at = job.not_before
            home.worker.wake()
            await home.worker.idle()
        assert waits == [5.0, 20.0, 80.0, 320.0]
        job = await find(home, "ingest", session_id)
        assert job is not None
        assert (job.state, job.error) == ("parked", "LlmError: llm_unreachable")
        counted = await home.worker.statistics()
        assert (counted.parked, counted.pending, counted.failed) == (1, 0, {"ingest": 5})
        # It is back when somebody asks for it again.
        home.summarizer.error = None
        async with home.databases.world() as db:
            assert await jobs.retry_parked(db, now=home.at) == 1
        home.worker.wake()
        await home.worker.idle()
        assert len(await home.memories()) == 1


async def test_a_defect_is_a_failure_and_not_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with house(tmp_path, summaries) as home:
        home.summarizer.error = ZeroDivisionError()
        session_id = await home.talk("猫のコムギが家に来た")
        job = await find(home, "ingest", session_id)
        assert job is not None
        assert job.error == "ZeroDivisionError: a defect"
        home.summarizer.error = None
        home.at += dt.timedelta(minutes=1)
        home.worker.wake()
        await home.worker.idle()
        assert len(await home.memories()) == 1
    assert "a defect" in caplog.text


async def test_a_summary_that_hangs_is_given_up(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        home.summarizer.pause = asyncio.Event()
        object.__setattr__(home.ingestor._limits, "summary_timeout_seconds", 0.05)
        session_id = await home.talk("猫のコムギが家に来た")
        job = await find(home, "ingest", session_id)
        assert job is not None
        assert job.error == "LlmError: llm_timeout"


async def test_work_in_hand_is_put_back_by_a_stop_and_done_after_the_next_start(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        home.summarizer.pause = asyncio.Event()
        session_id = await home.open_session()
        await home.say(session_id, "猫のコムギが家に来た")
        ending = asyncio.create_task(home.end(session_id))
        await reached(home, 1)
        await home.worker.close()
        with pytest.raises(asyncio.CancelledError):
            await ending
        job = await find(home, "ingest", session_id)
        assert job is not None
        assert (job.state, job.attempts) == ("queued", 0)
    async with house(tmp_path, summaries) as home:
        await home.worker.idle()
        assert len(await home.memories()) == 1


async def test_what_a_killed_worker_had_in_hand_is_taken_up_at_start(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.worker.close()
        session_id = await home.open_session()
        await home.say(session_id, "猫のコムギが家に来た")
        async with home.databases.world() as db:
            assert await jobs.lease(db, owner="boot-dead", now=home.at, lease_seconds=9999) is not None
        assert await home.worker.start() == 1
        await home.end(session_id)
        assert len(await home.memories()) == 1


async def test_what_waits_without_a_job_is_found_at_start_and_what_was_given_up_stays(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        await home.worker.close()
        given_up, with_job, without = [await home.open_session(channel_id=f"stackchan:{number}") for number in range(3)]
        for number, session_id in enumerate((given_up, with_job, without)):
            await home.say(session_id, f"猫のコムギ{number}が来た", channel_id=f"stackchan:{number}")
        async with home.databases.world() as db:
            await jobs.cancel(db, ["ingest"], without)
            for _ in range(jobs.RETRY.park_after_attempts):
                job = await jobs.lease(db, owner="test", now=home.at + dt.timedelta(days=1), lease_seconds=60)
                assert job is not None
                assert job.subject == given_up
                assert await jobs.fail(db, job, "x", now=home.at)
        assert await home.worker.start() == 1
        await home.worker.idle()
        states = [await find(home, "ingest", session_id) for session_id in (given_up, with_job, without)]
        # The open ends of the others wait for their sessions to be over.
        assert [job.state for job in states if job is not None] == ["parked", "queued", "queued"]


async def test_the_open_end_of_a_session_waits_for_its_idle_time(tmp_path: Path) -> None:
    async with house(tmp_path, summaries) as home:
        session_id = await home.open_session()
        await home.say(session_id, "猫のコムギが家に来た")
        home.worker.wake()
        await home.worker.idle()
        assert await home.memories() == []
        job = await find(home, "ingest", session_id)
        assert job is not None
        assert (job.state, job.not_before) == ("queued", MONDAY + dt.timedelta(minutes=10))
        home.at += dt.timedelta(minutes=10)
        home.worker.wake()
        await home.worker.idle()
        assert len(await home.memories()) == 1
        assert await find(home, "ingest", session_id) is None


async def test_six_exchanges_on_one_topic_are_taken_in_before_the_session_ends(tmp_path: Path) -> None:
    async with house(
        tmp_path, lambda said, _: [note(f"猫の話が{len(said)}回。", about=range(1, len(said) + 1))]
    ) as home:
        session_id = await home.open_session()
        for number in range(7):
            await home.say(session_id, f"猫のコムギの話{number}")
        home.worker.wake()
        await home.worker.idle()
        (memory,) = await home.memories()
        assert len(memory.source_turn_ids) == 12
        await home.end(session_id)
        assert len(await home.memories()) == 2


class Counting:
    """Work that notes how many were at it at once."""

    def __init__(self, databases: Databases) -> None:
        self.databases = databases
        self.now = self.most = 0
        self.subjects: list[str] = []

    async def __call__(self, job: Job) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.subjects.append(job.subject)
        await asyncio.sleep(0.01)
        self.now -= 1
        async with self.databases.world() as db:
            if not await jobs.done(db, job):
                raise LeaseLost(job.kind)


async def test_one_job_at_a_time_and_what_is_asked_for_again_is_done_again(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        work = Counting(databases)
        worker = MemoryWorker(databases, {"index": work}, TurnGate(), clock=lambda: MONDAY)
        with pytest.raises(RuntimeError):
            await worker.idle()
        await worker.start()
        async with databases.world() as db:
            for subject in ("a", "b", "a", "c"):
                await jobs.enqueue(db, "index", subject, now=MONDAY)
            await jobs.enqueue(db, "ingest", "not ours", now=MONDAY)
        worker.wake()

        async def at_b() -> bool:
            return "b" in work.subjects

        await eventually(at_b)
        async with databases.world() as db:
            await jobs.enqueue(db, "index", "b", now=MONDAY)
        await worker.idle()
        await worker.close()
        await worker.close()
        assert work.most == 1
        assert sorted(work.subjects) == ["a", "b", "b", "c"]
        assert (await worker.statistics()).pending == 1


async def test_a_lease_that_is_lost_ends_the_work(tmp_path: Path) -> None:
    async with await Databases.open(tmp_path, "home") as databases:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def hangs(job: Job) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        recipe = WorkerRecipe(lease_seconds=0.05)
        worker = MemoryWorker(databases, {"index": hangs}, TurnGate(), clock=lambda: MONDAY, recipe=recipe)
        await worker.start()
        async with databases.world() as db:
            await jobs.enqueue(db, "index", "a", now=MONDAY)
        worker.wake()
        async with asyncio.timeout(5):
            await begun.wait()
            async with databases.world() as db:
                await jobs.cancel(db, ["index"], "a")
            await ended.wait()
            await worker.idle()
        await worker.close()


def test_the_gate_counts_turns() -> None:
    gate = TurnGate()
    gate.turn_started()
    gate.turn_started()
    gate.turn_ended()
    assert gate.busy
    gate.turn_ended()
    gate.turn_ended()
    assert not gate.busy
    gate.turn_started()
    assert gate.busy
