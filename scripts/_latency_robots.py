#!/usr/bin/env python3
"""Some robots of `bench_latency` in a process of their own. Reads a plan (JSON) from standard input, writes figures.

A plan: `kind` (`ours` or `peer`), `url`, `token`, `wav`, `names`, `turns`, `spread_seconds`. A robot of the peer sends
the same frames at the same pace as raw PCM, and hears its answer as raw PCM.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import numpy as np  # noqa: E402
from websockets.asyncio.client import connect  # noqa: E402
from websockets.exceptions import WebSocketException  # noqa: E402

from server.commands.simulate import read_sound  # noqa: E402
from server.commands.simulated_talk import RobotFigures, TalkPlan, talk_together  # noqa: E402
from server.devices.wire import AudioFormat  # noqa: E402
from server.events import Samples  # noqa: E402

FRAME_SECONDS = 0.02
QUIET_SECONDS = 1.0
"""So long after the peer's last frame its answer is over."""
PATIENCE_SECONDS = 30.0


async def peer_robot(plan: dict[str, Any], sound: Samples, figures: RobotFigures, delay_seconds: float) -> None:
    await asyncio.sleep(delay_seconds)
    step = round(FRAME_SECONDS * 16_000)
    speech = np.round(np.clip(sound, -1, 1) * 32767).astype("<i2")
    frames = [speech[start : start + step].tobytes() for start in range(0, len(speech), step)]
    silence = bytes(2 * step)
    heard_at: list[float] = []

    async def read() -> None:
        async for frame in socket:
            if isinstance(frame, bytes):
                heard_at.append(time.perf_counter())

    try:
        async with connect(plan["url"], compression=None, proxy=None) as socket:
            reading = asyncio.create_task(read())
            following = time.perf_counter()

            async def send(frame: bytes) -> None:
                nonlocal following
                following += FRAME_SECONDS
                if (wait := following - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                await socket.send(frame)

            for _ in range(50):
                await send(silence)
            for _ in range(plan["turns"]):
                figures.turns += 1
                heard_at.clear()
                for frame in frames:
                    await send(frame)
                said_at = time.perf_counter()
                heard_at.clear()
                while time.perf_counter() < said_at + PATIENCE_SECONDS:
                    await send(silence)
                    if heard_at and time.perf_counter() > heard_at[-1] + QUIET_SECONDS:
                        break
                if heard_at:
                    figures.waits_ms.append((heard_at[0] - said_at) * 1000)
                else:
                    figures.failures["no_answer"] += 1
            reading.cancel()
    except (OSError, WebSocketException, TimeoutError) as error:
        figures.failures[type(error).__name__] += 1


async def main() -> None:
    plan = json.loads(sys.stdin.read())
    sound = read_sound(Path(plan["wav"]))
    robots = [RobotFigures(name) for name in plan["names"]]
    if plan["kind"] == "ours":
        microphone = AudioFormat("pcm16", 16_000, round(FRAME_SECONDS * 1000))
        talk = TalkPlan(
            plan["url"], plan["token"], sound, plan["turns"], PATIENCE_SECONDS, microphone, plan["spread_seconds"]
        )
        await talk_together(talk, robots)
    else:
        step = plan["spread_seconds"] / len(robots)
        await asyncio.gather(*(peer_robot(plan, sound, robot, n * step) for n, robot in enumerate(robots)))
    # A Counter is no mapping to `asdict`.
    json.dump([{**asdict(robot), "failures": dict(robot.failures)} for robot in robots], sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
