"""Kills a process at random moments while it takes conversations in, and says what was lost. Slow on purpose.

`survive_kills` is called with a few kills by a test and with many by a soak. The child prints each turn after it is
acknowledged; a turn is one fact, which the scripted summarizer turns into one memory.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.engines.base import LlmRequest
from server.storage import jobs
from server.storage.sessions import close_session
from server.storage.turns import close_running_turns, source_turns_of
from tests.memory.making import House, house, note

ROOT = Path(__file__).resolve().parents[2]
_TURNS_A_SESSION = 3  # as many facts as one segment may give
_READY = "ready"
_FACT = re.compile(r"箱(\d+)番")


@dataclass(frozen=True, slots=True)
class KillReport:
    """What was found after the last kill, when everything had been taken in."""

    kills: int
    acknowledged: int
    lost_turns: tuple[int, ...]
    """Acknowledged, and not in the log."""
    forgotten_turns: tuple[int, ...]
    """In the log, and in no memory."""
    memories: int
    doubled: tuple[str, ...]
    """Facts in more than one memory."""
    missing_vectors: int
    superfluous_vectors: int
    jobs_left: Mapping[Any, Any]


def summaries(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
    """One memory for each fact; at most as many as a segment may have."""
    return [
        note(f"{text}。", f"箱{number[1]}番", about=[place], memory_type="fact")
        for place, text in enumerate(said, start=1)
        if (number := _FACT.search(text))
    ]


async def survive_kills(folder: Path, kills: int, *, seed: int = 1, longest_seconds: float = 1.2) -> KillReport:
    """Run and kill a child so often, then let everything be finished here. `folder` must be empty."""
    chance = random.Random(seed)
    acknowledged: list[tuple[int, str]] = []
    for _ in range(kills):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.memory.ingestion_kills", str(folder), stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        assert child.stdout is not None
        try:
            async with asyncio.timeout(120):
                ready = (await child.stdout.readline()).decode().strip()
            if ready != _READY:
                raise RuntimeError(f"the child said {ready!r}")
            await asyncio.sleep(chance.uniform(0.0, longest_seconds))
        finally:
            if child.returncode is None:
                child.send_signal(signal.SIGKILL)
        printed = (await child.stdout.read()).decode().split("\n")[:-1]
        await child.wait()
        acknowledged += [(int(line.split()[0]), line.split()[1]) for line in printed]
    return await _finished(folder, kills, acknowledged)


async def _finished(folder: Path, kills: int, acknowledged: Sequence[tuple[int, str]]) -> KillReport:
    async with house(folder, summaries) as home:
        await _start(home)
        home.at += dt.timedelta(minutes=10)  # every session is over
        home.worker.wake()
        await home.worker.idle()
        found = await home.memories()
        facts = Counter(match[0] for memory in found if (match := _FACT.search(memory.summary)))
        sources = {turn for memory in found for turn in memory.source_turn_ids}
        lost, forgotten = [], []
        async with home.databases.world(write=False) as db:
            for turn_id, _ in acknowledged:
                said = await source_turns_of(db, turn_id)
                if not said or f"箱{turn_id}番" not in said[0].text:
                    lost.append(turn_id)
                elif said[0].source_turn_id not in sources:
                    forgotten.append(turn_id)
            left = await jobs.counts(db)
        points = await home.index.ids()
        ids = {memory.memory_id for memory in found}
        return KillReport(
            kills=kills,
            acknowledged=len(acknowledged),
            lost_turns=tuple(lost),
            forgotten_turns=tuple(forgotten),
            memories=len(found),
            doubled=tuple(fact for fact, count in facts.items() if count > 1),
            missing_vectors=len(ids - points),
            superfluous_vectors=len(points - ids),
            jobs_left=left,
        )


async def _start(home: House) -> None:
    """What a server does at start."""
    async with home.databases.world() as db:
        await close_running_turns(db, now=home.at)
    await home.keeper.reapply()
    await home.indexer.reconcile()


async def _child(folder: Path) -> None:
    async with house(folder, summaries) as home:
        await _start(home)
        print(_READY, flush=True)  # noqa: T201
        while True:
            # A channel of its own: the sessions of a killed child stay as short as it left them.
            channel_id = f"stackchan:{await home.turn_ids.next_id()}"
            session_id = await home.open_session(channel_id=channel_id)
            for _ in range(_TURNS_A_SESSION):
                turn_id = await home.turn_ids.next_id()
                await home.say(session_id, f"箱{turn_id}番を棚に置いた", channel_id=channel_id, turn_id=turn_id)
                print(turn_id, session_id, flush=True)  # noqa: T201
                home.worker.wake()
                await asyncio.sleep(0.01)
            async with home.databases.world() as db:
                await close_session(db, session_id, now=home.at)
            await home.worker.session_ended(session_id)


if __name__ == "__main__":
    asyncio.run(_child(Path(sys.argv[1])))
