"""Many simulated robots that say the same thing again and again: how soon each is answered, and what goes wrong.

The measuring behind `stackchan simulate` and `scripts/bench_latency`. Knows no terminal and no engine.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.exceptions import WebSocketException

from server.commands.simulated_robot import MICROPHONE, SimulatedRobot
from server.devices.wire import AudioFormat, DeviceError, SpeechStart, SpeechStop, TurnAnswer
from server.events import ASR_SAMPLE_RATE_HZ, Samples

_PAUSE_SECONDS = 0.7
"""After an answer: a microphone without echo cancellation is not believed before."""
_QUIET_DECIBELS = -40.0
_BLOCK = ASR_SAMPLE_RATE_HZ // 100


@dataclass(slots=True)
class RobotFigures:
    """What one robot has met so far. `waits_ms`: last sample of speech sent to first frame of sound, each turn."""

    device_id: str
    turns: int = 0
    waits_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    underruns: int = 0
    doing: str = "connecting"


@dataclass(frozen=True, slots=True)
class TalkPlan:
    """`turns` of each robot; `turn_seconds`: how long an answer is waited for. `microphone`: how its sound travels."""

    url: str
    token: str
    sound: Samples
    turns: int = 3
    turn_seconds: float = 30.0
    microphone: AudioFormat = MICROPHONE
    spread_seconds: float = 2.0
    """The robots begin one after another within so long."""
    certificate: str = ""
    """Of the server, as in `SimulatedRobot`."""


def without_silence(sound: Samples) -> Samples:
    """`sound` (float32, 16 kHz) without the silence at its ends, so that its end is its last word; good to 10 ms."""
    blocks = len(sound) // _BLOCK
    if not blocks:
        return sound
    peaks = np.abs(sound[: blocks * _BLOCK]).reshape(blocks, _BLOCK).max(axis=1)
    loud = np.flatnonzero(peaks > peaks.max() * 10 ** (_QUIET_DECIBELS / 20))
    return sound if not len(loud) else sound[loud[0] * _BLOCK : (loud[-1] + 1) * _BLOCK]


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that `share` of all do not exceed; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def summary(figures: Sequence[RobotFigures]) -> dict[str, Any]:
    """All robots together, JSON-able."""
    waits = [wait for robot in figures for wait in robot.waits_ms]
    failures = sum((robot.failures for robot in figures), Counter())
    shares = {f"p{round(share * 100)}": percentile(waits, share) for share in (0.5, 0.95, 0.99)}
    return {
        "robots": len(figures),
        "turns": sum(robot.turns for robot in figures),
        "answered": len(waits),
        "ttfa_ms": {name: None if value is None else round(value, 1) for name, value in shares.items()},
        "failures": dict(failures),
        "underruns": sum(robot.underruns for robot in figures),
    }


async def talk_together(plan: TalkPlan, figures: Sequence[RobotFigures]) -> None:
    """Let every robot of `figures` talk; what they meet is written there as it happens. Raises nothing for a robot."""
    step = plan.spread_seconds / len(figures)
    await asyncio.gather(*(_talk(plan, robot, number * step) for number, robot in enumerate(figures)))


async def _talk(plan: TalkPlan, figures: RobotFigures, delay_seconds: float) -> None:
    await asyncio.sleep(delay_seconds)
    robot = SimulatedRobot(
        plan.url, plan.token, figures.device_id, microphone=plan.microphone, certificate=plan.certificate
    )
    try:
        async with robot:
            await robot.listen("auto")
            await robot.be_quiet(0.3)
            for _ in range(plan.turns):
                await _turn(plan, robot, figures)
    except (OSError, WebSocketException, TimeoutError) as error:
        refused = robot.messages(DeviceError)
        figures.failures[refused[-1].code if refused else type(error).__name__] += 1
        figures.doing = "gone"
    else:
        figures.doing = "done"
    figures.underruns = robot.speaker.underruns


async def _turn(plan: TalkPlan, robot: SimulatedRobot, figures: RobotFigures) -> None:
    since = len(robot.got)
    figures.turns += 1
    figures.doing = "speaking"
    await robot.say(plan.sound)
    said_at = robot.speech_ended_at
    assert said_at is not None
    figures.doing = "waiting"

    def started() -> bool:
        return bool(robot.messages(SpeechStart, since=since)) and robot.first_sound_at is not None

    def over() -> bool:
        return bool(robot.messages(TurnAnswer, since=since) or robot.messages(DeviceError, since=since))

    await robot.be_quiet_until(lambda: started() or over(), plan.turn_seconds)
    if started() and robot.first_sound_at is not None:
        figures.waits_ms.append((robot.first_sound_at - said_at) * 1000)
        figures.doing = "listening"
    await robot.be_quiet_until(over, plan.turn_seconds)
    figures.underruns = robot.speaker.underruns
    problem = _problem(robot, since)
    if problem is not None:
        figures.failures[problem] += 1
    await robot.be_quiet(_PAUSE_SECONDS)


def _problem(robot: SimulatedRobot, since: int) -> str | None:
    errors, answers = robot.messages(DeviceError, since=since), robot.messages(TurnAnswer, since=since)
    if errors:
        return errors[0].code
    if not answers:
        return "no_answer"
    outcome = str(answers[0].answer.get("outcome"))
    if outcome != "ok":
        return outcome
    return None if robot.messages(SpeechStop, since=since) else "no_voice"
