"""One turn with scripted engines, played without a server: on the running loop, or in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from server.audio.segmenter import SegmenterSettings
from server.events import SentenceStarted, SpeechProduced, StateChanged, TurnEvent
from server.persona import default_persona_path, load_persona
from server.pipeline.request import OpenTurn, TurnRequest, TurnResult
from server.pipeline.turn import TurnController, TurnSettings
from tests.fakes.engines import fake_engines, loud
from tests.virtual_time import in_virtual_time

NOW = datetime(2026, 7, 23, 1, 0, tzinfo=UTC)
TURN = OpenTurn(384, "01J00000000000000000000000", "stackchan:desk", "desk", None, NOW)
SETTINGS = TurnSettings(
    segmenter=SegmenterSettings(),
    asr_timeout_seconds=5,
    llm_timeout_seconds=5,
    tts_timeout_seconds=5,
    max_answer_tokens=100,
    temperature=0,
    seed=1,
    tool_rounds=4,
    speech_sample_rate_hz=24_000,
    context_tokens=1200,
    context_turns=12,
)


@dataclass
class FakeJournal:
    """Remembers what it is told to store, and in `log` the order of everything."""

    log: list[str] = field(default_factory=list)
    heard_words: list = field(default_factory=list)
    results: list = field(default_factory=list)
    traces: list = field(default_factory=list)
    error: Exception | None = None

    async def heard(self, turn, heard, now):
        if self.error:
            raise self.error
        self.log.append("heard")
        self.heard_words.append(heard)

    async def ended(self, turn, result, trace, now):
        self.log.append("ended")
        self.results.append(result)
        self.traces.append(trace)


@dataclass
class Played:
    """A turn that has ended. `seconds`: how long it took on the loop's clock."""

    result: TurnResult
    events: list[TurnEvent]
    journal: FakeJournal
    seconds: float

    @property
    def trace(self) -> dict[str, Any]:
        return self.journal.traces[0]

    @property
    def states(self) -> list[str]:
        return [event.state for event in kinds(self.events, StateChanged)]

    @property
    def spoken(self) -> list[str]:
        """The sentences that were begun."""
        return [event.text for event in kinds(self.events, SentenceStarted)]

    @property
    def samples(self) -> int:
        return sum(len(event.chunk.samples) for event in kinds(self.events, SpeechProduced))


async def take_turn(
    request: TurnRequest | None = None,
    *,
    persona=None,
    turn: OpenTurn = TURN,
    tools: Sequence[Any] = (),
    settings: TurnSettings = SETTINGS,
    journal: FakeJournal | None = None,
    emit: Callable[[TurnEvent], Awaitable[None]] | None = None,
    controller: dict[str, Any] | None = None,
    **engines: Any,
) -> Played:
    """Play a turn: by default one second of speech, and engines that do their work."""
    events: list[TurnEvent] = []
    journal = journal or FakeJournal()
    loop = asyncio.get_running_loop()
    ticks = itertools.count()

    async def collect(event: TurnEvent) -> None:
        events.append(event)
        journal.log.append(type(event).__name__)
        if emit:
            await emit(event)

    turns = TurnController(
        fake_engines(**engines),
        persona or load_persona(default_persona_path()),
        journal,
        settings,
        clock=lambda: NOW,
        tools=tools,
        monotonic=lambda: loop.time() + next(ticks) / 1000,
        **(controller or {}),
    )
    began = loop.time()
    result = await turns.run(turn, request or TurnRequest("desk", samples=loud(1.0)), collect)
    seconds = loop.time() - began
    await turns.close(60)
    return Played(result, events, journal, seconds)


def play_turn(*args: Any, **kwargs: Any) -> Played:
    """`take_turn` in virtual time; nothing of it may be left running."""
    return in_virtual_time(take_turn(*args, **kwargs))


def shown(value: object) -> str:
    """A value in a test's name, which must be the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def kinds(events: Sequence[TurnEvent], *wanted: type) -> list[Any]:
    return [event for event in events if isinstance(event, wanted)]
