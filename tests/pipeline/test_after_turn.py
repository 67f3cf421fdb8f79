"""Around a turn: the gate that others wait at is held to its end, and what follows it costs the device nothing."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from server.errors import LlmError, StorageError
from server.events import SpeechProduced, TurnEnded
from server.memory.worker import TurnGate
from server.pipeline.request import TurnRequest
from server.pipeline.turn import FOLLOWING_SECONDS, TurnController
from tests.fakes.engines import FakeLlm, answer, fake_engines, silence
from tests.pipeline.test_filler import PERSONA
from tests.pipeline.turns import NOW, SETTINGS, TURN, FakeJournal, play_turn, take_turn
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

WORDS = TurnRequest("desk", text="左を見て")


def test_the_gate_is_held_from_the_first_event_to_the_last():
    gate, busy = TurnGate(), []

    async def emit(event):
        busy.append((type(event), gate.busy))

    play_turn(emit=emit, controller={"gate": gate})
    assert all(held for _, held in busy)
    assert {SpeechProduced, TurnEnded} <= {kind for kind, _ in busy}
    assert not gate.busy


@pytest.mark.parametrize(
    "failing", [{"journal": FakeJournal(error=StorageError("disk"))}, {"llm": FakeLlm([[LlmError("no")]])}]
)
def test_a_turn_that_fails_gives_the_gate_back(failing):
    gate = TurnGate()

    async def scenario():
        with contextlib.suppress(StorageError):
            await take_turn(WORDS, controller={"gate": gate}, **failing)

    in_virtual_time(scenario())
    assert not gate.busy


def test_a_cancelled_turn_gives_the_gate_back_and_nothing_follows():
    gate, followed = TurnGate(), []

    async def follow(turn, result):
        followed.append(turn)

    async def scenario():
        llm = FakeLlm([[60.0]])
        task = asyncio.create_task(take_turn(WORDS, llm=llm, controller={"gate": gate, "after_turn": follow}))
        await asyncio.sleep(1)
        assert gate.busy
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(scenario())
    assert (gate.busy, followed) == (False, [])


def test_what_follows_comes_when_the_turn_is_stored_told_and_the_gate_is_free():
    gate, journal, seen = TurnGate(), FakeJournal(), []

    async def follow(turn, result):
        seen.append((turn, result, gate.busy, list(journal.log)))

    played = play_turn(WORDS, journal=journal, controller={"gate": gate, "after_turn": follow})
    [(turn, result, busy, log)] = seen
    assert (turn, result, busy) == (TURN, played.result, False)
    assert log[-2:] == ["StateChanged", "TurnEnded"]
    assert "ended" in log


def test_the_device_does_not_wait_for_what_follows():
    async def follow(turn, result):
        await asyncio.sleep(30)

    assert play_turn(WORDS, controller={"after_turn": follow}).seconds == 0


@pytest.mark.parametrize("error", [StorageError("disk"), KeyError("x"), asyncio.CancelledError()])
def test_what_follows_and_fails_is_told_and_costs_nothing(error, caplog):
    async def follow(turn, result):
        raise error

    played = play_turn(WORDS, controller={"after_turn": follow})
    assert (played.result.outcome, played.result.error) == ("ok", None)
    assert [record.message for record in caplog.records] == ["what follows a turn failed"]


def controller(follow):
    return TurnController(
        fake_engines(llm=FakeLlm([answer()])), PERSONA, FakeJournal(), SETTINGS, clock=lambda: NOW, after_turn=follow
    )


async def ignore(event):
    pass


@pytest.mark.parametrize(("grace", "done"), [(5, True), (1, False)])
def test_closing_waits_for_it_for_a_while(grace, done):
    async def scenario():
        finished = []

        async def follow(turn, result):
            await asyncio.sleep(3)
            finished.append(turn)

        turns, loop = controller(follow), asyncio.get_running_loop()
        await turns.run(TURN, WORDS, ignore)
        began = loop.time()
        await turns.close(grace)
        await turns.close(grace)
        return bool(finished), loop.time() - began

    assert in_virtual_time(scenario()) == (done, min(grace, 3))


def test_what_never_ends_is_given_up(caplog):
    async def scenario():
        async def follow(turn, result):
            await asyncio.Event().wait()

        turns, loop = controller(follow), asyncio.get_running_loop()
        await turns.run(TURN, WORDS, ignore)
        await turns.close(10 * FOLLOWING_SECONDS)
        return loop.time()

    assert in_virtual_time(scenario()) == FOLLOWING_SECONDS
    assert "took longer" in caplog.text


def test_without_speech_it_follows_too():
    outcomes = []

    async def follow(turn, result):
        outcomes.append(result.outcome)

    play_turn(TurnRequest("desk", samples=silence(1.0)), controller={"after_turn": follow})
    play_turn(WORDS, llm=FakeLlm([[LlmError("no")]]), controller={"after_turn": follow})
    assert outcomes == ["no_speech", "failed"]
