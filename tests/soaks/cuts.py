"""Sockets of robots that break at random moments: robots come back to their conversations, nothing is left behind."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import httpx2

from tests.soaks.promises import Progress, Promise, no_progress
from tests.soaks.robots import (
    ENDED_SECONDS,
    ENGINES,
    HEARD,
    SETTLE_SECONDS,
    NotingRobot,
    Report,
    all_turns,
    common_promises,
    in_rounds,
    spoken,
)
from tests.soaks.server import ForkedServer

_LATEST_SECONDS = 2.5
_AWAY_SECONDS = 0.4


async def cut(robot: NotingRobot, chance: random.Random, report: Report, client: httpx2.AsyncClient) -> None:
    """One utterance that is cut at any moment; then the robot is back and its turn, if there was one, goes on."""
    assert robot.hello is not None
    session_id = robot.hello.session_id
    await robot.listen("auto")
    speaking = asyncio.create_task(_speak(robot))
    await asyncio.sleep(chance.uniform(0.0, _LATEST_SECONDS))
    state = robot.state
    report.moments[state] = report.moments.get(state, 0) + 1
    await robot.disconnect(rudely=True)
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)
    await asyncio.sleep(chance.uniform(0.0, _AWAY_SECONDS))
    hello = await robot.connect()
    if hello.session_id != session_id:
        report.broken("session", f"another conversation after a cut while {state}")
    if chance.random() < 0.5:
        await robot.abort()  # not everybody wants to hear the rest
    if not await robot.rests(ENDED_SECONDS):
        report.broken("stuck", f"still {robot.state} after a cut while {state}")


async def _speak(robot: NotingRobot) -> None:
    await robot.be_quiet(0.1)
    await robot.say(spoken())
    await robot.be_quiet(_LATEST_SECONDS)


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """`count` cuts against a server of its own."""
    with ForkedServer(folder / "server", engines=ENGINES) as server:
        asyncio.run(in_rounds(server.url, server.token, 8, seed, "warm", cut, no_progress))
        time.sleep(SETTLE_SECONDS)
        before = server.settled()
        report = asyncio.run(in_rounds(server.url, server.token, count, seed, "cut", cut, on_progress))
        turns = asyncio.run(all_turns(server.url, server.token))
        end = server.settled(at_most=before)
        log = server.log
    heard = sum(turn["transcript"] == HEARD for turn in turns)
    figures = {"cuts": report.done, "while": report.moments, "turns": len(turns), "heard": heard}

    def kept(kind: str) -> bool:
        return not report.wrong.get(kind) and report.done == count

    def wrong(kind: str) -> dict[str, object]:
        lines = report.wrong.get(kind, [])
        return {"count": len(lines), "first": lines[:5]}

    return [
        Promise("session", "Who comes back is in its conversation.", kept("session"), {**figures, **wrong("session")}),
        Promise("not_stuck", "It listens again, and no turn hangs.", kept("stuck"), wrong("stuck")),
        Promise("connected", "Who comes back is let in.", kept("lost"), wrong("lost")),
        *common_promises(turns, before, end, log),
    ]
