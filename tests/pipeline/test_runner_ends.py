"""However a turn is torn down, it is closed in the store, and the device's place is free again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from server.errors import StackChanError
from server.pipeline.request import TurnRequest
from server.pipeline.runner import TurnRunner
from server.storage.speech import SpeechStore

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

    async def run(self, *_: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(("error", "raised"), [(Killed(), Killed), (ZeroDivisionError(), StackChanError)])
async def test_a_torn_turn_is_closed(tmp_path: Path, error: BaseException, raised: type[BaseException]) -> None:
    journal = Journal()
    runner = TurnRunner(
        cast(Any, Controller(error)),
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
    assert journal.abandoned == [(7, "internal")]
    with runner.admit("desk"):
        assert runner.running == 0
