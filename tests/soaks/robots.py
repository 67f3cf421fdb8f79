"""Simulated robots that are cut short at random moments, against a server in a process of its own.

Shared by `aborts.py` and `cuts.py`: the engines, the robot that notes its last sound, and what both promise.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np

from server.commands.simulated_robot import SimulatedRobot
from server.devices.wire import AudioFormat, SpeechFrame, State, ToDevice
from server.engines.base import Engines
from server.events import Samples
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, answer, fake_engines
from tests.soaks.promises import Progress, Promise
from tests.soaks.server import Figures

ENGINES = "tests.soaks.robots:talkative_engines"
HEARD = "こんにちは"
LONG_REPLY = "今日はいい天気だね。" * 25
"""Two and a half seconds as it is spoken."""
AT_ONCE = 8
SPARE_MIB = 64.0
ENDED_SECONDS = 15.0
SETTLE_SECONDS = 3.0
"""Until what a hang-up leaves behind for a moment is gone."""


def talkative_engines() -> Engines:
    """Fakes with a long answer, that take a moment and remember nothing."""
    script: list[Any] = [0.05, *answer('{"emotion":"happy","action":"nod","reply":"' + LONG_REPLY + '"}', 25)]

    class Slow(FakeAsr):
        async def transcribe(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0.05)
            return await super().transcribe(*args, **kwargs)

    return fake_engines(
        asr=Slow(HEARD, heard=deque(maxlen=1)),  # type: ignore[arg-type]
        llm=FakeLlm(scripts=[script], requests=deque(maxlen=1), warmed=deque(maxlen=1)),  # type: ignore[arg-type]
        tts=FakeTts(spoken=deque(maxlen=1)),  # type: ignore[arg-type]
    )


def spoken(seconds: float = 0.4) -> Samples:
    """What `FakeVad` takes for speech."""
    t = np.arange(round(seconds * 16_000)) / 16_000
    return (0.5 * np.sin(2 * np.pi * 220 * t)).astype(np.float32)


@dataclass(slots=True)
class NotingRobot(SimulatedRobot):
    """Also knows when the last sound came."""

    last_sound_at: float = 0.0

    def _take(self, message: ToDevice) -> None:
        if isinstance(message, SpeechFrame):
            self.last_sound_at = self.monotonic()
        SimulatedRobot._take(self, message)

    @property
    def state(self) -> str:
        states = self.messages(State)
        return states[-1].value if states else ""

    async def rests(self, seconds: float) -> bool:
        """Whether it comes to rest."""
        end = self.monotonic() + seconds
        while self.state not in ("idle", "listening"):
            if self.monotonic() > end:
                return False
            await asyncio.sleep(0.01)
        return True


@dataclass(slots=True)
class Report:
    """What came of it. `wrong`: one line for each thing that should not be, by kind."""

    done: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)
    moments: dict[str, int] = field(default_factory=dict)
    """In which state the robot was then."""
    waits_ms: list[float] = field(default_factory=list)
    stalls_ms: list[float] = field(default_factory=list)

    def broken(self, kind: str, detail: str) -> None:
        self.wrong.setdefault(kind, []).append(detail)


Cut = Callable[[NotingRobot, random.Random, Report, httpx2.AsyncClient], Awaitable[None]]


async def in_rounds(url: str, token: str, count: int, seed: int, name: str, cut: Cut, on_progress: Progress) -> Report:
    """`count` times, a few robots at a time, each with its own order of chances."""
    report = Report()
    headers = {"Authorization": f"Bearer {token}"}

    async def one(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        async with NotingRobot(url, token, f"{name}-{number}", microphone=AudioFormat("pcm16", 16_000, 40)) as robot:
            for _ in range(number, count, AT_ONCE):
                try:
                    await cut(robot, chance, report, client)
                except (ConnectionError, TimeoutError) as error:
                    report.broken("lost", repr(error))
                    await robot.disconnect()
                    await robot.connect()
                report.done += 1
                on_progress(report.done, count)

    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
        await asyncio.gather(*(one(number) for number in range(min(AT_ONCE, count))))
    return report


async def all_turns(url: str, token: str) -> list[dict[str, Any]]:
    """Every turn that is stored, once none runs any more or the time is over."""
    found: list[dict[str, Any]] = []
    async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        turn_id, missing = 1, 0
        while missing < 40:  # numbers are reserved in blocks
            turn = await client.get(f"/v1/turns/{turn_id}", headers={"Prefer": f"wait={ENDED_SECONDS:.0f}"})
            if turn.status_code == 200:
                found.append(turn.json())
                missing = 0
            else:
                missing += 1
            turn_id += 1
    return found


def common_promises(turns: list[dict[str, Any]], before: Figures, end: Figures, log: str) -> list[Promise]:
    """What holds however a robot was cut: no turn open, no word lost, nothing left behind."""
    open_turns = [turn["turn_id"] for turn in turns if turn["status"] != "done"]
    wordless = [turn["turn_id"] for turn in turns if turn["transcript"] != HEARD and turn["outcome"] == "ok"]
    outcomes: dict[str, int] = {}
    for turn in turns:
        outcomes[str(turn["outcome"])] = outcomes.get(str(turn["outcome"]), 0) + 1
    defects = log.count("Traceback") + log.count("defect")
    grown = end.tasks > before.tasks or end.files > before.files
    figures = {"before": before.as_dict(), "at_the_end": end.as_dict()}
    return [
        Promise("ended", "Every turn has ended.", not open_turns, {"outcomes": outcomes, "open": open_turns[:5]}),
        Promise("words", "What was said is stored.", not wordless, {"without_words": wordless[:5]}),
        Promise("no_defect_logged", "The log tells of no defect.", defects == 0, {"defects": defects}),
        Promise("no_growth", "No task, file or socket is left behind.", not grown, figures),
        Promise("memory", "No buffer is left behind.", end.rss_mib <= before.rss_mib + SPARE_MIB, figures),
    ]
