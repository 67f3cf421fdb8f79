"""What travels between rooms: audio, and the events of one turn.

Plain frozen values. This module does not know where audio comes from, which engine made it, or how an event is
written on a wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Pcm16 = NDArray[np.int16]
Samples = NDArray[np.float32]

ASR_SAMPLE_RATE_HZ = 16_000
"""Every `Utterance` has this rate: what Silero, Whisper and Qwen3-ASR were trained on."""

TurnState = Literal["idle", "listening", "thinking", "speaking", "error"]
TurnStatus = Literal["queued", "running", "done", "failed"]
TurnOutcome = Literal["ok", "no_speech", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A piece of speech on its way out. `samples`: int16 mono, shape (n,)."""

    samples: Pcm16
    sample_rate_hz: int

    @property
    def duration_seconds(self) -> float:
        return len(self.samples) / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one person said, still as sound. `samples`: float32 mono in [-1, 1] at 16 kHz, shape (n,)."""

    samples: Samples

    @property
    def duration_seconds(self) -> float:
        return len(self.samples) / ASR_SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The turn moved to `state`."""

    turn_id: int
    state: TurnState


@dataclass(frozen=True, slots=True)
class TranscriptReady:
    """The user's words. `language`: ISO 639-1."""

    turn_id: int
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class FaceChosen:
    """The emotion to show; known before the first clause is spoken."""

    turn_id: int
    emotion: str


@dataclass(frozen=True, slots=True)
class ActionChosen:
    """The body movement to make."""

    turn_id: int
    action: str


@dataclass(frozen=True, slots=True)
class SentenceStarted:
    """The audio that follows says `text`."""

    turn_id: int
    text: str


@dataclass(frozen=True, slots=True)
class SpeechProduced:
    """The next piece of the robot's voice."""

    turn_id: int
    chunk: AudioChunk


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is stored and over."""

    turn_id: int
    outcome: TurnOutcome


TurnEvent = StateChanged | TranscriptReady | FaceChosen | ActionChosen | SentenceStarted | SpeechProduced | TurnEnded
