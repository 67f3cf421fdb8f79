"""Twenty at once search, keep, edit and forget, over HTTP from real threads: no error, and no point lost or left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from tests.devices.conftest import LiveServer
from tests.devices.conftest import serve as serve
from tests.memory.making import WordVectors
from tests.memory.whole_server import get, memory_of, retried, vectors_agree
from tests.soaks.kills import RememberingLlm, words

pytestmark = pytest.mark.integration

THREADS = 20
KINDS = ("edge", "local")
ROUNDS = 2
"""In the second one they forget."""
SEEDED = 2


@dataclass
class Outcome:
    """What one thread did."""

    wrong: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)


class Person:
    """A thread's own client. Anything but a good answer is written down."""

    def __init__(self, live: LiveServer, number: int) -> None:
        self.number = number
        self.outcome = Outcome()
        headers = {"Authorization": live.client.headers["Authorization"], "Device-Id": f"desk-{number}"}
        self._client = httpx2.Client(base_url=live.url, headers=headers, timeout=120)

    def call(self, what: str, method: str, path: str, good: tuple[int, ...] = (200,), **sent: Any) -> Any:
        response = self._client.request(method, path, **sent)
        self.outcome.did[what] += 1
        if response.status_code not in good:
            self.outcome.wrong.append(f"{what}: {response.status_code} {response.text[:200]}")
        return response.json()

    def say(self, place: int) -> None:
        """A fact, in a session of its own that ends the one before."""
        session = {"Session-Id": f"session-{self.number}-{place}"}
        turn = self.call("turn", "POST", "/v1/turns", json={"text": words(self.fact(place))}, headers=session)
        if turn.get("outcome") != "ok":
            self.outcome.wrong.append(f"turn: {turn}")

    def fact(self, place: int) -> str:
        return f"箱{self.number * 100 + place}番"

    def begin(self) -> None:
        for place in range(SEEDED + 1):
            self.say(place)

    def use(self, to_edit: str, to_forget: str) -> None:
        for place in range(ROUNDS):
            self.say(10 + place)
            found = self.call("search", "GET", "/v1/memories", params={"query": words(self.fact(0)), "limit": 10})
            if not found.get("memories"):
                self.outcome.wrong.append(f"search: {found}")
            changes = {"summary": f"{self.fact(50 + place)}を庭に出した。"}
            self.call("edit", "PATCH", f"/v1/memories/{to_edit}", json=changes)
            self.call("status", "GET", "/v1/memory/status")
            if place == 1:
                told = self.call("forget", "DELETE", f"/v1/memories/{to_forget}")
                if (told.get("forgotten"), told.get("still_found")) != ([to_forget], []):
                    self.outcome.wrong.append(f"forget: {told}")
            if (self.number, place) == (7, 1):
                self.call("rebuild", "POST", "/v1/memory/rebuild", (202,))

    def close(self) -> None:
        self._client.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_twenty_threads_that_search_keep_edit_and_forget_lose_no_point(
    serve: Callable[..., Any], kind: str
) -> None:
    env = {
        "STACKCHAN_MEMORY__INDEX_KIND": kind,
        "STACKCHAN_LIMITS__RUNNING_TURNS": str(THREADS),
        "STACKCHAN_LIMITS__QUEUED_TURNS": str(THREADS),
    }
    async with serve(llm=RememberingLlm(), embedding=WordVectors(), env=env) as live:
        people = [Person(live, number) for number in range(1, THREADS + 1)]
        try:
            await _together(lambda person: person.begin(), people)
            await memory_of(live).worker.idle()
            seeded = await get(live, "/v1/memories", limit=50)
            ids = [one["memory_id"] for one in seeded["memories"]]
            assert len(ids) == THREADS * SEEDED
            await _together(lambda person: person.use(ids[2 * person.number - 2], ids[2 * person.number - 1]), people)
        finally:
            for person in people:
                person.close()
        assert [wrong for person in people for wrong in person.outcome.wrong] == []
        did = sum((person.outcome.did for person in people), Counter[str]())
        assert did == {
            "turn": THREADS * (SEEDED + 1 + ROUNDS),
            "search": THREADS * ROUNDS,
            "edit": THREADS * ROUNDS,
            "status": THREADS * ROUNDS,
            "forget": THREADS,
            "rebuild": 1,
        }
        await memory_of(live).owner.rebuilding.wait()
        await memory_of(live).worker.idle()
        await retried(live)
        assert (await get(live, "/v1/memory/rebuild"))["state"] == "done"
        status = await get(live, "/v1/memory/status")
        kept = status["memories"]["active"] + status["memories"]["superseded"]
        assert (status["turns"], status["parked_count"]) == (did["turn"], 0)
        # Of each: what it began with and said since, without what was forgotten and what is in the open session.
        assert (kept, status["memories"]["forgotten"]) == (THREADS * (SEEDED + ROUNDS - 1), THREADS)
        assert status["index"]["points"] == kept
        assert await vectors_agree(live)


async def _together(work: Callable[[Person], None], people: list[Person]) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(THREADS) as pool:
        async with asyncio.timeout(300):
            await asyncio.gather(*(loop.run_in_executor(pool, work, person) for person in people))
