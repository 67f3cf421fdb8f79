"""Many robots and few models, in virtual time: who waited longest is next, and who cannot be served soon is told so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from server.errors import OverloadError
from server.events import SpeechProduced, TurnEvent
from server.persona import default_persona_path, load_persona
from server.pipeline.live import LiveTurn
from server.pipeline.request import OpenTurn, TurnRequest, TurnResult
from server.pipeline.runner import TurnRunner
from server.pipeline.turn import TurnController
from tests.fakes.engines import FakeLlm, FakeTts, answer, fake_engines
from tests.pipeline.test_live_turn import Device
from tests.pipeline.turns import NOW, SETTINGS, TURN, FakeJournal
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

SENTENCE_SECONDS = 0.1
MANY = 30
LONG = '{"emotion":"happy","action":"nod","reply":"' + "今日はとてもいい天気だね。" * MANY + '"}'


class OneVoice(FakeTts):
    """As a model on a thread of its own: a sentence at a time, in the order they were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = asyncio.Lock()

    async def synthesize(self, request: Any) -> Any:
        async with self._thread:
            await asyncio.sleep(SENTENCE_SECONDS)
        async for chunk in super().synthesize(request):
            yield chunk


class WordyFor(FakeLlm):
    """Answers the robot called `name` at length, and everybody else shortly; each takes `seconds`."""

    def __init__(self, name: str, seconds: float = 0.0) -> None:
        super().__init__()
        self._name = name
        self._seconds = seconds

    async def generate(self, request: Any) -> Any:
        self.requests.append(request)
        await asyncio.sleep(self._seconds)
        for delta in answer(LONG) if request.messages[-1].content == self._name else answer():
            yield delta


class Journal(FakeJournal):
    def __init__(self) -> None:
        super().__init__()
        self._ids = itertools.count(1)

    async def next_turn_id(self) -> int:
        return next(self._ids)

    async def begin(self, turn_id: int, request: TurnRequest, now: Any, *, status: str) -> OpenTurn:
        return replace(TURN, turn_id=turn_id, device_id=request.device_id)

    async def started(self, turn: OpenTurn) -> None: ...


class Speech:
    def begin(self, turn_id: int, rate_hz: int) -> None: ...
    async def append(self, turn_id: int, chunk: Any) -> None: ...
    async def end(self, turn_id: int, *, keep: bool) -> None: ...


class House:
    """`heard`: when each robot began to sound; `refused`: when each was sent away, and the error."""

    def __init__(self, running: int, queued: int, **engines: Any) -> None:
        self.engines = fake_engines(**engines)
        journal: Any = Journal()
        speech: Any = Speech()
        controller = TurnController(
            self.engines, load_persona(default_persona_path()), journal, SETTINGS, clock=lambda: NOW, monotonic=self.now
        )
        self.runner = TurnRunner(
            controller,
            journal,
            speech,
            running_turns=running,
            queued_turns=queued,
            clock=lambda: NOW,
            monotonic=self.now,
        )
        self.heard: dict[str, float] = {}
        self.refused: dict[str, tuple[float, OverloadError]] = {}

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def ask(self, name: str, live: LiveTurn | None = None) -> TurnResult | None:
        """One turn of a robot, to its end; None: there was no place."""

        async def emit(event: TurnEvent) -> None:
            if isinstance(event, SpeechProduced):
                self.heard.setdefault(name, self.now())
                if live is not None:
                    await live.playback.take(event)  # type: ignore[attr-defined]

        try:
            with self.runner.admit(name) as admission:
                started = await self.runner.start(admission, TurnRequest(name, text=name, live=live), emit)
        except OverloadError as error:
            self.refused[name] = self.now(), error
            return None
        return await started.result()


def play(script: Callable[[], Coroutine[Any, Any, House]]) -> House:
    return in_virtual_time(script())


def test_a_robot_with_many_sentences_holds_up_nobody_for_more_than_one_of_each() -> None:
    names = ["wordy", "a", "b", "c"]

    async def script() -> House:
        house = House(4, 0, llm=WordyFor("wordy"), tts=OneVoice())
        await asyncio.gather(*(house.ask(name) for name in names))
        return house

    house = play(script)
    assert len(house.engines.tts.spoken) > MANY  # type: ignore[attr-defined]
    # The first round: a sentence of each.
    assert max(house.heard.values()) <= len(names) * SENTENCE_SECONDS + 0.01


def test_who_waited_longest_is_next_however_often_another_asks() -> None:
    served: list[str] = []

    async def script() -> House:
        house = House(1, 8, llm=WordyFor("nobody", 1.0))

        async def again_and_again(name: str, times: int, after: float) -> None:
            await asyncio.sleep(after)
            for _ in range(times):
                await house.ask(name)
                served.append(name)

        await asyncio.gather(
            again_and_again("greedy", 4, 0.0),
            *(again_and_again(name, 1, 0.1 * place) for place, name in enumerate("abc", 1)),
        )
        return house

    house = play(script)
    assert served == ["greedy", "a", "b", "c", "greedy", "greedy", "greedy"]
    assert house.refused == {}


def test_too_many_are_told_so_at_once_and_the_others_are_served_as_soon_as_ever() -> None:
    names = [f"robot-{number}" for number in range(10)]

    async def script() -> House:
        house = House(1, 2, llm=WordyFor("nobody", 1.0))
        await asyncio.gather(*(house.ask(name) for name in names))
        return house

    house = play(script)
    assert list(house.heard.values()) == pytest.approx([1.0, 2.0, 3.0], abs=0.05)
    assert list(house.refused) == names[3:]
    assert {at for at, _ in house.refused.values()} == {0.0}
    waits = [error.retry_after_seconds for _, error in house.refused.values()]
    assert waits == sorted(waits)  # not all in the same second
    assert waits[0] >= 1
    assert {error.code for _, error in house.refused.values()} == {"overloaded"}


def test_who_only_listens_to_an_answer_takes_no_place() -> None:
    async def script() -> House:
        house = House(1, 0, llm=WordyFor("wordy"))
        listening = asyncio.create_task(house.ask("wordy", LiveTurn(Device())))
        await asyncio.sleep(1.0)
        assert not listening.done()
        assert await house.ask("a") is not None
        await listening
        return house

    house = play(script)
    assert house.refused == {}


def test_who_is_interrupted_in_line_leaves_it() -> None:
    async def script() -> House:
        house = House(1, 1, llm=WordyFor("nobody", 5.0))
        working = asyncio.create_task(house.ask("a"))
        await asyncio.sleep(0.1)
        live = LiveTurn(Device())
        waiting = asyncio.create_task(house.ask("b", live))
        await asyncio.sleep(0.1)
        live.interrupt("touch")
        result = await waiting
        assert result is not None
        assert (result.outcome, house.now()) == ("interrupted", pytest.approx(0.2, abs=0.05))
        assert house.runner.queued == 0
        await working
        return house

    house = play(script)
    assert "b" not in house.heard
    assert len(house.engines.llm.requests) == 1  # type: ignore[attr-defined]
