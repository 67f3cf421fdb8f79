"""What a turn starts from and what comes out of it, before any wire format.

Plain values between `devices` and the controller. Knows no HTTP, no tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from server.context.session_turns import SessionTurns
from server.events import Samples, TurnOutcome, TurnStatus
from server.pipeline.live import LiveTurn

NO_HISTORY = SessionTurns()


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One thing somebody said to a device: exactly one of `samples` (float32 mono, 16 kHz) and `text` is set."""

    device_id: str
    samples: Samples | None = None
    text: str | None = None
    session_label: str | None = None
    """The device's own name for its conversation; a new one closes the previous session."""
    speaker_id: str | None = None
    """Who speaks; None: the device's owner."""
    idempotency_key: str | None = None
    """The device's name for this one request: sent again, it is the same turn."""
    request_digest: str | None = None
    """Of everything that was sent under that key."""
    heard_early: asyncio.Future[Heard | None] | None = None
    """The words of `samples`, begun to be heard before the end of the utterance was certain. Raises `AsrError`."""
    live: LiveTurn | None = None
    """Of a device that listens and plays all the time; None: the turn was sent whole, its answer is fetched."""

    @property
    def known_words(self) -> Heard | None:
        """The words, if they were heard early and are there already."""
        early = self.heard_early
        if early is None or not early.done() or early.cancelled() or early.exception() is not None:
            return None
        return early.result()


@dataclass(frozen=True, slots=True)
class Heard:
    """The user's words. `audio_duration_ms` is None for typed text."""

    text: str
    language: str
    audio_duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn that is stored as `queued` or `running`."""

    turn_id: int
    session_id: str
    channel_id: str
    device_id: str
    speaker_id: str | None
    started_at: datetime
    history: SessionTurns = NO_HISTORY
    """The earlier turns of this session."""
    heard: Heard | None = None
    """The user's words, where they were known when it began, and stored with it; None: they are stored later."""


@dataclass(frozen=True, slots=True)
class TurnError:
    code: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class TurnResult:
    """A finished turn: what a device gets, on every interface."""

    turn_id: int
    session_id: str
    status: TurnStatus
    outcome: TurnOutcome | None
    """None while the turn runs."""
    transcript: str = ""
    language: str = ""
    reply: str = ""
    emotion: str = "neutral"
    action: str = "none"
    speech_duration_ms: int | None = None
    """None: there is no audio."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    latency_ms: Mapping[str, int] = field(default_factory=dict)
    error: TurnError | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()


TurnObserver = Callable[[TurnRequest, TurnResult, Mapping[str, Any]], None]
"""Told of every turn that ended, with its trace: metrics and logs. Must not raise and must not block."""
