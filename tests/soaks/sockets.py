"""Hostile frames over real sockets of a real server: connections end by the rules, the server stays as it was."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage

from server.commands.simulated_robot import SimulatedRobot
from server.devices.message_fields import MAX_FRAME_BYTES
from server.devices.wire import Frame, TurnAnswer
from tests.soaks.frames import frames
from tests.soaks.promises import Progress, Promise, no_progress
from tests.soaks.robots import SPARE_MIB, spoken
from tests.soaks.server import PLAIN_ENGINES, ForkedServer

AT_ONCE = 4
LONGEST_CONNECTION = 120
CLOSED_BY_RULE = frozenset((1000, 1008, 1009, 1013, 4000))
_HELLO = {"format": "pcm16", "sample_rate": 16000, "frame_ms": 20}


def _sendable(frame: Frame) -> bool:
    """A lone surrogate cannot be written as UTF-8 by this side."""
    if isinstance(frame, bytes):
        return True
    try:
        frame.encode()
    except UnicodeEncodeError:
        return False
    return True


async def attack(url: str, token: str, count: int, seed: int, on_progress: Progress = no_progress) -> Counter[str]:
    """Send `count` frames. What became of the connections, by close code, and `unsendable`."""
    closed: Counter[str] = Counter()
    sent = 0

    async def attacker(number: int) -> None:
        nonlocal sent
        chance = random.Random(f"{seed} {number}")
        source = frames(chance)
        while sent < count:
            address = url.replace("http", "ws", 1) + "/v1/device"
            largest = 0
            headers = {"Authorization": f"Bearer {token}"}
            try:
                async with connect(address, additional_headers=headers, compression=None, proxy=None) as connection:
                    greeted = chance.random() < 0.8
                    if greeted:
                        hello = {"type": "hello", "protocol": 1, "device_id": f"hostile-{number}", "audio": _HELLO}
                        await connection.send(json.dumps(hello))
                        await connection.send('{"type":"listen","state":"start"}')
                    draining = asyncio.create_task(_drain(connection))
                    try:
                        for _ in range(chance.randint(1, LONGEST_CONNECTION)):
                            _, frame = next(source)
                            if not _sendable(frame):
                                closed["unsendable"] += 1
                                continue
                            largest = max(largest, len(frame if isinstance(frame, bytes) else frame.encode()))
                            await connection.send(frame)
                            sent += 1
                            on_progress(min(sent, count), count)
                    finally:
                        await connection.close()
                        await draining
                closed[_code(connection.close_code or 1006, largest)] += 1
            except ConnectionClosed as error:
                closed[_code(error.rcvd.code if error.rcvd is not None else 1006, largest)] += 1
            except (OSError, InvalidMessage, TimeoutError) as error:
                closed[type(error).__name__] += 1

    await asyncio.gather(*(attacker(number) for number in range(AT_ONCE)))
    return closed


def _code(code: int, largest: int) -> str:
    """What is much too large is not read to its end, and whoever still sends may see only that."""
    return "too large" if code == 1006 and largest > 4 * MAX_FRAME_BYTES else str(code)


async def _drain(connection: ClientConnection) -> None:
    try:
        async for _ in connection:
            pass
    except ConnectionClosed:
        pass


async def _answers(url: str, token: str) -> bool:
    async with SimulatedRobot(url, token, "honest") as robot:
        await robot.listen("auto")
        await robot.be_quiet(0.3)
        await robot.say(spoken())
        return await robot.be_quiet_until(lambda: bool(robot.messages(TurnAnswer)), 20)


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """`count` frames against a server of its own."""
    with ForkedServer(folder / "server", engines=PLAIN_ENGINES) as server:
        asyncio.run(attack(server.url, server.token, min(count, 500), seed + 1))
        asyncio.run(_answers(server.url, server.token))
        before = server.settled()
        closed = asyncio.run(attack(server.url, server.token, count, seed, on_progress))
        alive = server.alive and asyncio.run(_answers(server.url, server.token))
        end = server.settled(at_most=before)
        log = server.log
    defects = log.count("Traceback") + log.count("defect")
    unruly = {code: number for code, number in closed.items() if code.isdigit() and int(code) not in CLOSED_BY_RULE}
    figures = {"before": before.as_dict(), "at_the_end": end.as_dict()}
    return [
        Promise("lives", "A robot is answered afterwards.", bool(alive), {"frames": count}),
        Promise("rules", "A connection ends by a rule, or when the robot hangs up.", not unruly, dict(closed)),
        Promise("no_defect_logged", "The log tells of no defect.", defects == 0, {"defects": defects}),
        Promise(
            "no_growth",
            "No task, file or socket is left.",
            end.tasks <= before.tasks and end.files <= before.files,
            figures,
        ),
        Promise("memory", "Memory stays bounded.", end.peak_rss_mib <= before.peak_rss_mib + SPARE_MIB, figures),
    ]
