"""One robot in one live conversation with scripted engines, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from server.audio.endpointing import EndpointSettings
from server.events import SentenceStarted, SpeechProduced, TranscriptReady, TurnEvent
from server.persona import default_persona_path, load_persona
from server.pipeline.announcing import Announcer
from server.pipeline.conversation import Conversation, ConversationSettings
from server.pipeline.foresight import Foresight
from server.pipeline.live_listener import LiveListener
from server.pipeline.progress import Progress, StartedTurn
from server.pipeline.request import OpenTurn, TurnRequest, TurnResult
from server.pipeline.trace import TurnTrace
from server.pipeline.turn import TurnController
from tests.fakes.engines import fake_engines
from tests.pipeline.test_live_turn import REPLY, Device
from tests.pipeline.turns import NOW, SETTINGS, TURN, FakeJournal
from tests.virtual_time import in_virtual_time

FRAME_SECONDS = 0.032
SPOKEN_SECONDS = len(REPLY) * 0.01


class Runner:
    """Runs one turn at a time with the real controller, as `TurnRunner` would; `refusal`: says no; `start_seconds`: so
    long it takes to store a turn."""

    def __init__(self, house: House) -> None:
        self.refusal: Exception | None = None
        self.start_seconds = 0.0
        self.uploads = False
        """A turn of the same device runs over HTTP."""
        self.requests: list[TurnRequest] = []
        self._house = house
        self._turn_id = 0

    def new_trace(self, received_seconds_ago: float = 0.0) -> TurnTrace:
        return TurnTrace(self._house.now, received_seconds_ago)

    def is_in_turn(self, device_id: str) -> bool:
        return self.uploads

    async def next_turn_id(self) -> int:
        self._turn_id += 1
        return self._turn_id

    @contextmanager
    def admit(self, device_id: str, idempotency_key: str | None = None) -> Iterator[Any]:
        if self.refusal is not None:
            raise self.refusal
        yield type("Admission", (), {})()

    async def start(self, admission: Any, request: TurnRequest, emit: Any) -> StartedTurn:
        await asyncio.sleep(self.start_seconds)
        self._turn_id += 1
        self.requests.append(request)
        turn = replace(TURN, turn_id=self._turn_id)
        task = asyncio.ensure_future(self._house.controller.run(turn, request, emit, admission.trace))
        return StartedTurn(turn, task, None, Progress())  # type: ignore[arg-type]


class House:
    """One robot in one conversation. `log`: states, words and complaints in their order."""

    def __init__(
        self, *, echo_cancel: bool = False, answer_early: bool = True, tools: Sequence[Any] = (), **engines: Any
    ) -> None:
        self.log: list[str] = []
        self.results: list[TurnResult] = []
        self.devices: list[Device] = []
        self.hushed: list[float] = []
        self.early_calls: list[str] = []
        self.idle = True
        self.shut_out: Exception | None = None
        self.expected: tuple[str, ...] = ()
        self.journal = FakeJournal()
        self.engines = fake_engines(**engines)
        persona = load_persona(default_persona_path())
        self.controller = TurnController(
            self.engines, persona, self.journal, SETTINGS, clock=lambda: NOW, monotonic=self.now, tools=tools
        )
        self.runner = Runner(self)
        foresight = Foresight(
            self.engines,
            persona,
            self,
            SETTINGS,
            self.controller.thinker,
            clock=lambda: NOW,
            hot_words=self.hot_words,
            idle=lambda: self.idle,
            answer_early=answer_early,
            on_early_call=self.early_calls.append,
        )
        runner: Any = self.runner
        listener = LiveListener(self.engines.vad, foresight, EndpointSettings(), runner.new_trace)
        self.conversation = Conversation(
            TurnRequest("desk"),
            self,
            runner,
            listener,
            foresight,
            ConversationSettings(),
            Announcer(self.engines.tts, self.runner.next_turn_id, SETTINGS.speech_sample_rate_hz, 5),
            echo_cancel=echo_cancel,
            monotonic=self.now,
        )

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def hot_words(self, turn: OpenTurn) -> tuple[str, ...]:
        return self.expected

    # as the journal
    async def expect(self, request: TurnRequest, now: Any) -> OpenTurn:
        return replace(TURN, turn_id=0)

    async def look_again(self, expected: OpenTurn, now: Any) -> OpenTurn:
        return expected

    # as the way to the device
    async def emit(self, event: TurnEvent) -> None:
        if isinstance(event, TranscriptReady):
            self.log.append(f"heard {event.text}")
        elif isinstance(event, SentenceStarted):
            self.log.append(f"says {event.text}")
        elif isinstance(event, SpeechProduced):
            await self.devices[-1].take(event)

    async def show(self, state: str) -> None:
        self.log.append(state)

    def show_words(self, text: str) -> None:
        self.log.append(f"hears {text}")

    async def tell(self, result: TurnResult) -> None:
        self.results.append(result)

    async def complain(self, error: Any) -> None:
        self.log.append(f"error {error.code}")

    async def admit(self) -> None:
        if self.shut_out is not None:
            raise self.shut_out

    def playback(self) -> Device:
        self.devices.append(Device())
        return self.devices[-1]

    def hush(self) -> None:
        self.hushed.append(self.now())

    # as the person
    async def hear(self, seconds: float, level: float) -> None:
        """Sound in real time."""
        for _ in range(round(seconds / FRAME_SECONDS)):
            await asyncio.sleep(FRAME_SECONDS)
            await self.conversation.hear(np.full(512, level, np.float32))

    async def speak(self, seconds: float) -> None:
        await self.hear(seconds, 0.5)

    async def quiet(self, seconds: float) -> None:
        await self.hear(seconds, 0.0)


def converse(script: Callable[[House], Awaitable[None]], **house: Any) -> House:
    async def run() -> House:
        made = House(**house)
        assert await made.conversation.begin() == TURN.session_id
        await script(made)
        await made.conversation.close()
        await asyncio.sleep(60)
        return made

    return in_virtual_time(run())
