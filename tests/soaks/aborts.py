"""Robots that are told to be silent at random moments of a turn: they are, at once, and it is known what was heard."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import httpx2

from server.devices.wire import SpeechStart, TurnAnswer
from tests.soaks.promises import Progress, Promise, no_progress
from tests.soaks.robots import (
    ENDED_SECONDS,
    ENGINES,
    LONG_REPLY,
    SETTLE_SECONDS,
    NotingRobot,
    Report,
    all_turns,
    common_promises,
    in_rounds,
    spoken,
)
from tests.soaks.server import ForkedServer

SILENT_MS = 200.0
_LATEST_SECONDS = 3.5
"""After the end of speech: the answer has been said by then."""
_MS_A_CHARACTER = 10.0
_HEARD_CHARACTERS = 30
"""So far what is stored may be from what was played: a tenth of a second each way on the line, and two frames."""


async def abort(robot: NotingRobot, chance: random.Random, report: Report, client: httpx2.AsyncClient) -> None:
    """One utterance, and an abort somewhere in what follows."""
    since = len(robot.got)
    await robot.listen("auto")
    await robot.be_quiet(0.6)
    await robot.say(spoken())
    await robot.be_quiet(chance.uniform(0.0, _LATEST_SECONDS))
    state = robot.state
    report.moments[state] = report.moments.get(state, 0) + 1
    began = robot.monotonic()
    await robot.abort()
    # Before the first sound the loudspeaker still counts the answer before.
    sounded = bool(robot.messages(SpeechStart, since=since))
    played = robot.speaker.played_ms(began) / _MS_A_CHARACTER if sounded else 0.0
    stalled_ms = await _listen(robot, SILENT_MS / 1000 + 0.3)
    late_ms = (robot.last_sound_at - began) * 1000
    report.stalls_ms.append(stalled_ms)
    report.waits_ms.append(max(0.0, late_ms))
    if late_ms > SILENT_MS + stalled_ms:
        report.broken("loud", f"sound {late_ms:.0f} ms after an abort while {state}")
    if not await robot.rests(ENDED_SECONDS):
        report.broken("stuck", f"still {robot.state} after an abort while {state}")
        return
    answers = robot.messages(TurnAnswer, since=since)
    if state in ("thinking", "speaking") and not answers:
        report.broken("stuck", f"no end of the turn after an abort while {state}")
    for turn in answers:
        stored = (await client.get(f"/v1/turns/{turn.answer['turn_id']}")).json()
        reply, outcome = stored["reply"], stored["outcome"]
        right = LONG_REPLY.startswith(reply) and reply == turn.answer["reply"]
        if outcome == "interrupted":
            right &= state == "thinking" or abs(len(reply) - played) <= _HEARD_CHARACTERS
        else:
            right &= outcome == "ok" and reply == LONG_REPLY
        if not right:
            report.broken("history", f"{outcome}, {len(reply)} characters of {played:.0f} played, while {state}")


async def _listen(robot: NotingRobot, seconds: float) -> float:
    """Wait, and tell how many milliseconds this process was kept from running: what comes then may be old."""
    stalled, end = 0.0, robot.monotonic() + seconds
    while (now := robot.monotonic()) < end:
        await asyncio.sleep(0.005)
        stalled = max(stalled, robot.monotonic() - now - 0.005)
    return stalled * 1000


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """`count` aborts against a server of its own."""
    with ForkedServer(folder / "server", engines=ENGINES) as server:
        asyncio.run(in_rounds(server.url, server.token, 8, seed, "warm", abort, no_progress))
        time.sleep(SETTLE_SECONDS)
        before = server.settled()
        report = asyncio.run(in_rounds(server.url, server.token, count, seed, "abort", abort, on_progress))
        turns = asyncio.run(all_turns(server.url, server.token))
        end = server.settled(at_most=before)
        log = server.log
    worst = max(report.waits_ms, default=0.0)
    figures = {"aborts": report.done, "while": report.moments, "longest_ms": round(worst, 1)}
    figures["longest_stall_of_the_robots_ms"] = round(max(report.stalls_ms, default=0.0), 1)

    def kept(kind: str) -> bool:
        return not report.wrong.get(kind) and report.done == count

    def wrong(kind: str) -> dict[str, object]:
        lines = report.wrong.get(kind, [])
        return {"count": len(lines), "first": lines[:5]}

    return [
        Promise("silent", "It is silent within 200 ms of an abort.", kept("loud"), {**figures, **wrong("loud")}),
        Promise("not_stuck", "It listens again, and no turn hangs.", kept("stuck"), wrong("stuck")),
        Promise("history", "What was played is what is remembered.", kept("history"), wrong("history")),
        Promise("connected", "No connection is lost.", kept("lost"), wrong("lost")),
        *common_promises(turns, before, end, log),
    ]
