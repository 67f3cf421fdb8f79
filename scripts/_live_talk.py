"""What `bench_live` says to the servers, how each is talked with, and what is read from a turn.

Utterances are sound that is spoken in real time by a simulated robot; figures of a turn are the robot's own clock and
the trace that the server keeps. Knows no engine of the server's and no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import numpy as np
from _live_modes import Mode
from websockets.exceptions import WebSocketException

from server.audio.resample import resample
from server.commands.simulated_robot import SimulatedRobot
from server.commands.simulated_talk import without_silence
from server.devices.wire import DeviceError, SpeechStart, State, TurnAnswer
from server.engines.base import SpeechRequest, TtsEngine
from server.events import ASR_SAMPLE_RATE_HZ, Samples
from server.pipeline.speakable import speakable
from tests.audio.spoken import sound_of
from tests.soaks.server import SoakServer

PAUSE_SECONDS = 0.35
"""Of whoever thinks within a sentence: shorter than the silence that ends an utterance."""
SETTLE_SECONDS = 0.3
ANSWER_SECONDS = 120.0

SMALL_TALK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ja", ("おはよう、よく眠れた？",)),
    ("en", ("Good morning, how are you today?",)),
    ("ja", ("今日はね、", "公園を散歩してきたよ。")),
    ("en", ("I was thinking,", "shall we play a game?")),
    ("ja", ("雨の日は何をして遊ぶのが好き？",)),
    ("en", ("What do you like about the summer?",)),
    ("ja", ("なんだか少し疲れちゃった。",)),
    ("en", ("I had a long day at work.",)),
    ("ja", ("ねえ、", "面白い話をしてくれる？")),
    ("en", ("Well,", "tell me something nice.")),
    ("ja", ("好きな色はなに？",)),
    ("en", ("Thank you, that was fun.",)),
)
"""Language and parts; between two parts there is a pause."""
RECORDED: tuple[tuple[tuple[str, float, float], ...], ...] = (
    (("human_ja.flac", 0.99, 2.28),),
    (("human_ja.flac", 2.5, 3.46), ("human_ja.flac", 6.58, 7.08)),
)
"""A person's, for stand-ins that do not listen to the words: recording, begin and end in seconds."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance. `samples`: float32 mono at 16 kHz, without silence at its ends. `speaker`: whose conversation."""

    text: str
    speaker: str
    samples: Samples
    pause: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance, answered in one way. `wait_ms`: end of speech to first sound; None: it failed, or was cut off."""

    mode: Mode
    text: str
    pause: bool
    failure: str | None = None
    wait_ms: float | None = None
    transcript: str = ""
    reply: str = ""
    llm_calls: int = 0
    """Of the turn."""
    early_used: int = 0
    """Of these, how many were begun before the end of the utterance was certain."""
    early_wasted: int = 0
    """Begun so, and thrown away."""
    speech_ahead: str | None = None
    """What became of a first clause that was spoken early: `used`, `wasted`; None: there was none."""
    filler: str | None = None
    """How the wait was shown, where a tool made it long."""


def with_pause(parts: Sequence[Samples]) -> Samples:
    """Parts one after another with `PAUSE_SECONDS` of silence between them."""
    pause = np.zeros(round(PAUSE_SECONDS * ASR_SAMPLE_RATE_HZ), np.float32)
    pieces = [piece for part in parts for piece in (pause, without_silence(part))]
    joined: Samples = np.concatenate(pieces[1:])
    return joined


def recorded() -> list[Spoken]:
    return [
        Spoken(f"recorded {number}", "ja", with_pause([sound_of(*part) for part in parts]), len(parts) > 1)
        for number, parts in enumerate(RECORDED, 1)
    ]


async def synthesized(tts: TtsEngine, count: int) -> list[Spoken]:
    """The first `count` utterances of small talk in this voice."""
    found = []
    for language, parts in SMALL_TALK[:count]:
        said = with_pause([await _say(tts, part, language) for part in parts])
        found.append(Spoken((" " if language == "en" else "").join(parts), language, said, len(parts) > 1))
    return found


async def _say(tts: TtsEngine, text: str, language: str) -> Samples:
    request = SpeechRequest(speakable(text, language), language)
    pieces = [
        resample(chunk.samples, chunk.sample_rate_hz, ASR_SAMPLE_RATE_HZ) async for chunk in tts.synthesize(request)
    ]
    sound: Samples = np.concatenate(pieces).astype(np.float32) / 32_768
    return sound


async def take_turn(server: SoakServer, mode: Mode, spoken: Spoken) -> Turn:
    """Say it as a robot that has just come back, and hear the whole answer. Raises nothing for a turn that fails."""
    robot = SimulatedRobot(server.url, server.token, f"bench-{spoken.speaker}")
    try:
        async with robot:
            await robot.listen("auto")
            await robot.be_quiet(SETTLE_SECONDS)
            since = len(robot.got)
            await robot.say(spoken.samples)
            over = await robot.be_quiet_until(
                lambda: bool(robot.messages(TurnAnswer, since=since) or robot.messages(DeviceError, since=since)),
                ANSWER_SECONDS,
            )
    except (OSError, WebSocketException, TimeoutError) as error:
        return Turn(mode, spoken.text, spoken.pause, type(error).__name__)
    if errors := robot.messages(DeviceError, since=since):
        return Turn(mode, spoken.text, spoken.pause, errors[0].code)
    if not over:
        return Turn(mode, spoken.text, spoken.pause, "no_answer")
    answer = robot.messages(TurnAnswer, since=since)[0].answer
    trace = await _trace_of(server, int(answer["turn_id"]))
    return turn_of(mode, spoken, robot, answer, trace)


def turn_of(mode: Mode, spoken: Spoken, robot: SimulatedRobot, answer: dict[str, Any], trace: dict[str, Any]) -> Turn:
    """The figures of a turn that was answered."""
    said_at = robot.speech_ended_at
    assert said_at is not None
    failure = None if answer["outcome"] == "ok" else str(answer["outcome"])
    if any(at < said_at for at, message in robot.got if message == State("thinking")):
        failure = "cut_off"
    elif failure is None and (not robot.messages(SpeechStart) or robot.first_sound_at is None):
        failure = "no_voice"
    llm = trace["llm"]
    return Turn(
        mode,
        spoken.text,
        spoken.pause,
        failure,
        round((robot.first_sound_at - said_at) * 1000, 1) if failure is None and robot.first_sound_at else None,
        answer["transcript"] or "",
        answer["reply"] or "",
        llm["calls"],
        llm["early_used"],
        llm["early_wasted"],
        trace.get("speech_ahead"),
        trace.get("filler"),
    )


async def _trace_of(server: SoakServer, turn_id: int) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
        told = (await client.get(f"/v1/turns/{turn_id}/trace")).raise_for_status()
        found: dict[str, Any] = told.json()["trace"]
        return found
