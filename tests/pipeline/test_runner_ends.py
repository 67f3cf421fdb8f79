"""However a turn is torn down, it is closed in the store, and the device's place is free again."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from server.errors import StackChanError
from server.events import TurnEnded
from server.persona import default_persona_path, load_persona
from server.pipeline.live import LiveTurn
from server.pipeline.progress import stopping
from server.pipeline.request import TurnRequest
from server.pipeline.runner import TurnRunner
from server.pipeline.trace import TurnTrace
from server.pipeline.turn import TurnController
from server.storage.speech import SpeechStore
from tests.fakes.engines import fake_engines
from tests.pipeline.turns import SETTINGS, TURN, FakeJournal

pytestmark = pytest.mark.unit

NOON = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


class Killed(BaseException):
    """As `SystemExit` out of a storage thread, without ending the test run."""


class Journal:
    def __init__(self) -> None:
        self.abandoned: list[tuple[int, str]] = []

    async def next_turn_id(self) -> int:
        return 7

    async def begin(self, turn_id: int, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(turn_id=turn_id)

    async def abandon(self, turn: Any, error: StackChanError, *_: Any) -> None:
        self.abandoned.append((turn.turn_id, error.code))


class Controller:
    settings = SimpleNamespace(speech_sample_rate_hz=24_000)

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.told: list[tuple[int, str]] = []

    async def run(self, *_: Any) -> Any:
        raise self.error

    def torn(self, turn: Any, request: TurnRequest, error: StackChanError, trace: TurnTrace) -> None:
        self.told.append((turn.turn_id, error.code))


@pytest.mark.parametrize(("error", "raised"), [(Killed(), Killed), (ZeroDivisionError(), StackChanError)])
async def test_a_torn_turn_is_closed(tmp_path: Path, error: BaseException, raised: type[BaseException]) -> None:
    journal, controller = Journal(), Controller(error)
    runner = TurnRunner(
        cast(Any, controller),
        cast(Any, journal),
        SpeechStore(tmp_path, 60),
        running_turns=1,
        queued_turns=0,
        clock=lambda: NOON,
    )
    with runner.admit("desk") as admission:
        started = await runner.start(admission, TurnRequest("desk", text="やあ"))
    with pytest.raises(raised):
        await started.result()
    assert journal.abandoned == controller.told == [(7, "internal")]
    with runner.admit("desk"):
        assert runner.running == 0


@pytest.mark.parametrize(("ended", "told"), [(True, ("ok", None)), (False, ("failed", "stopping"))])
async def test_the_observers_are_told_of_every_turn_once(ended: bool, told: tuple[str, str | None]) -> None:
    seen: list[tuple[str | None, str | None]] = []
    controller = TurnController(
        fake_engines(),
        load_persona(default_persona_path()),
        FakeJournal(),
        SETTINGS,
        clock=lambda: NOON,
        observers=(lambda request, result, trace: seen.append((result.outcome, result.error and result.error.code)),),
    )
    request, trace = TurnRequest("desk", text="やあ"), TurnTrace(time.monotonic)

    async def cut_at_the_very_end(event: object) -> None:
        if isinstance(event, TurnEnded):
            running.cancel()
            await asyncio.Event().wait()

    if ended:
        running = asyncio.create_task(controller.run(TURN, request, cut_at_the_very_end, trace))
        with pytest.raises(asyncio.CancelledError):
            await running
    for _ in range(2):
        controller.torn(TURN, request, stopping(), trace)
    assert seen == [told]


@pytest.mark.parametrize(("speech_ms", "live"), [(2950, False), (2950, True), (None, False)])
async def test_a_device_is_in_its_turn_from_the_upload_until_the_answer_was_heard(
    tmp_path: Path, speech_ms: int | None, live: bool
) -> None:
    class Answers(Controller):
        async def run(self, *_: Any) -> Any:
            return SimpleNamespace(speech_duration_ms=speech_ms)

    now = 100.0
    runner = TurnRunner(
        cast(Any, Answers(ZeroDivisionError())),
        cast(Any, Journal()),
        SpeechStore(tmp_path, 60),
        running_turns=1,
        queued_turns=0,
        clock=lambda: NOON,
        monotonic=lambda: now,
    )
    assert not runner.is_in_turn("desk")
    request = TurnRequest("desk", text="やあ", live=LiveTurn(cast(Any, None)) if live else None)
    with runner.admit("desk") as admission:
        assert runner.is_in_turn("desk")
        started = await runner.start(admission, request)
    await started.result()
    # One that is spoken live has been heard by then.
    now += 2.9
    assert runner.is_in_turn("desk") is (speech_ms is not None and not live)
    now += 0.1
    assert not runner.is_in_turn("desk")
    assert not runner.is_in_turn("kitchen")
