"""Whole conversations of the native protocol, step by step, as golden vectors. Written by hand.

Times are milliseconds since the connection was opened: what they could be, not what they must be. Knows no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from server.devices.wire import (
    Abort,
    Action,
    Capabilities,
    Command,
    CommandResult,
    DeviceHello,
    Face,
    FromDevice,
    Levels,
    ListenStart,
    Ping,
    Played,
    Pong,
    Sentence,
    ServerHello,
    SpeechStart,
    SpeechStop,
    State,
    ToDevice,
    Transcript,
    TurnAnswer,
)
from tests.firmware.vector_messages import ANSWER, OPUS_DOWN, OPUS_UP, SESSION_ID

MICROPHONE = "opus_16000_60ms.bin"
VOICE = "opus_24000_60ms.bin"


@dataclass(frozen=True, slots=True)
class Sound:
    """`frames` binary frames, `frame_ms` apart, each the content of `file`."""

    file: str
    frames: int
    apart_ms: int = 60


Step = tuple[int, FromDevice | ToDevice | Sound, str]
"""When, what, and who: `device` or `server`."""

ABLE = Capabilities(levels=True, commands=("volume", "mute"))
HELLO = DeviceHello("24:6f:28:aa:bb:cc", OPUS_UP, "cores3-0.1.0", ABLE, voice=OPUS_DOWN)
SERVER_HELLO = ServerHello(SESSION_ID, OPUS_DOWN, "スタックチャン", "ja")


def _device(at_ms: int, message: FromDevice | Sound) -> Step:
    return at_ms, message, "device"


def _server(at_ms: int, *messages: ToDevice | Sound) -> list[Step]:
    return [(at_ms, message, "server") for message in messages]


def _answer(turn_id: int, **changes: object) -> TurnAnswer:
    return TurnAnswer({**ANSWER, "turn_id": turn_id, **changes})


WHOLE: list[Step] = [
    _device(0, HELLO),
    *_server(4, SERVER_HELLO, State("idle")),
    _device(120, ListenStart("auto")),
    *_server(122, State("listening")),
    _device(180, Sound(MICROPHONE, 40)),
    *_server(2_560, State("thinking"), Transcript("前に買った富士通のPC、なんだっけ？", True)),
    *_server(2_590, Face("happy"), Action("nod")),
    *_server(2_910, State("speaking"), SpeechStart(384), Sentence(384, "中古で三万円だったデスクトップだよ。")),
    *_server(2_910, Levels(384, 0, (0.0, 0.42, 0.81, 0.66, 0.1)), Sound(VOICE, 3, apart_ms=0)),
    _device(3_130, Played(384, 180)),
    *_server(3_132, SpeechStop(384), _answer(384), State("listening")),
]
INTERRUPTED: list[Step] = [
    _device(0, HELLO),
    *_server(4, SERVER_HELLO, State("idle")),
    _device(120, ListenStart("auto")),
    *_server(122, State("listening")),
    _device(180, Sound(MICROPHONE, 20)),
    *_server(1_360, State("thinking"), Transcript("長いお話をして。", True)),
    *_server(1_390, Face("happy"), Action("none")),
    *_server(1_700, State("speaking"), SpeechStart(385), Sentence(385, "むかしむかし、"), Sound(VOICE, 5, apart_ms=0)),
    *_server(1_760, Sound(VOICE, 4)),
    _device(1_960, Abort("touch")),
    _device(1_960, Played(385, 240)),
    *_server(1_964, SpeechStop(385)),
    *_server(
        1_968,
        _answer(
            385,
            outcome="interrupted",
            transcript="長いお話をして。",
            reply="むかし",
            action="none",
            audio={**ANSWER["audio"], "url": "/v1/turns/385/audio", "duration_ms": 540},  # type: ignore[dict-item]
        ),
        State("listening"),
    ),
]
CUT_AND_RESUMED: list[Step] = [
    _device(0, replace(HELLO, session_label=SESSION_ID)),
    *_server(5, SERVER_HELLO, State("idle"), _answer(386)),
]
ANNOUNCED: list[Step] = [
    _device(0, HELLO),
    *_server(4, SERVER_HELLO, State("idle")),
    _device(30_000, Ping()),
    *_server(30_001, Pong()),
    *_server(45_000, Face("surprised"), State("speaking"), SpeechStart(387), Sentence(387, "三分たったよ。")),
    *_server(45_000, Sound(VOICE, 2, apart_ms=0)),
    _device(45_160, Played(387, 120)),
    *_server(45_162, SpeechStop(387), State("idle")),
]
COMMANDED: list[Step] = [
    _device(0, HELLO),
    *_server(4, SERVER_HELLO, State("idle"), Command(1, "volume", {"percent": 40})),
    _device(20, CommandResult(1, True, {"percent": 40})),
    *_server(600, Command(2, "volume", {"change": -20})),
    _device(620, CommandResult(2, True, {"percent": 20})),
    *_server(900, Command(3, "backflip")),
    _device(915, CommandResult(3, False, "unknown_command")),
]

CONVERSATIONS: Mapping[str, list[Step]] = {
    "a whole turn": WHOLE,
    "interrupted by a touch": INTERRUPTED,
    "cut while the robot thought, connected again": CUT_AND_RESUMED,
    "an announcement": ANNOUNCED,
    "commands": COMMANDED,
}
