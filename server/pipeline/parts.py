"""What every turn of a server shares: the knobs, and where words and events go.

Plain values and Protocols, so that the stages of a turn can be read one by one. Knows no stage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from server.audio.segmenter import SegmenterSettings
from server.events import Samples, TurnEvent
from server.pipeline.request import Heard, OpenTurn, TurnResult

Emit = Callable[[TurnEvent], Awaitable[None]]
KeepRecording = Callable[[int, Samples], Awaitable[None]]
"""Keeps what a turn recorded (float32 mono, 16 kHz) because it was not understood. Must not raise."""

HotWords = Callable[[OpenTurn], Awaitable[Sequence[str]]]
"""Words that a turn's ears should expect: names, places, things that were talked about. Asked before every recording;
one that is slow or fails costs nothing but its words."""

AfterTurn = Callable[[OpenTurn, TurnResult], Awaitable[None]]
"""What is to be done when a turn is stored and its device has its answer."""


class Journal(Protocol):
    """Where a turn's words go. Every method returns only when they are on the disk."""

    async def heard(self, turn: OpenTurn, heard: Heard, now: datetime) -> None:
        """Store the user's words; from here on they are never lost."""

    async def ended(self, turn: OpenTurn, result: TurnResult, trace: Mapping[str, Any], now: datetime) -> None:
        """Store the robot's words, the outcome and the trace, together."""


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The knobs of a turn. Time-outs in seconds, rates in Hz."""

    segmenter: SegmenterSettings
    asr_timeout_seconds: float
    llm_timeout_seconds: float
    tts_timeout_seconds: float
    max_answer_tokens: int
    temperature: float
    seed: int
    tool_rounds: int
    speech_sample_rate_hz: int
    context_tokens: int
    context_turns: int
    search_seconds: float = 2.0
    """For all that a turn looks up in memory, together."""
    filler_seconds: float | None = 1.2
    """When a turn that looks something up shows and says that it takes a moment; None: never."""
