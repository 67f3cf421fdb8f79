"""A completion that is begun early and held."""

from __future__ import annotations

import asyncio

import pytest

from server.engines.base import LlmMessage, LlmRequest, LlmText
from server.errors import LlmError
from server.pipeline import speculation
from server.pipeline.speculation import HeldCompletion
from tests.fakes.engines import FakeLlm, answer

pytestmark = pytest.mark.unit

REQUEST = LlmRequest((LlmMessage("user", "こんにちは"),))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_was_held_comes_first_and_the_rest_as_it_is_written() -> None:
    more = asyncio.Event()
    llm = FakeLlm(scripts=[[LlmText("あ"), LlmText("い"), more, *answer("う")]])
    held = HeldCompletion(llm, REQUEST)
    await settle()
    assert llm.requests == [REQUEST]
    reading = held.take()
    assert [await anext(reading), await anext(reading)] == [LlmText("あ"), LlmText("い")]
    third = asyncio.ensure_future(anext(reading))
    await settle()
    assert not third.done()
    more.set()
    assert await third == LlmText("う")
    assert [delta async for delta in reading] == answer("う")[1:]
    assert held.used
    assert llm.cancelled == 0


async def test_it_may_be_taken_when_it_is_whole_or_before_it_begins() -> None:
    for rounds in (0, 1):
        held = HeldCompletion(FakeLlm(), REQUEST)
        for _ in range(rounds):
            await settle()
        assert [delta async for delta in held.take()] == answer()


async def test_one_that_failed_raises_when_it_is_taken_after_what_it_wrote() -> None:
    held = HeldCompletion(FakeLlm(scripts=[[LlmText("あ"), LlmError("no")]]), REQUEST)
    await settle()
    reading = held.take()
    assert await anext(reading) == LlmText("あ")
    with pytest.raises(LlmError, match="no"):
        await anext(reading)


async def test_dropped_it_cancels_the_engine_and_a_failure_is_nobodys() -> None:
    never = asyncio.Event()
    llm = FakeLlm(scripts=[[LlmText("あ"), never], [LlmError("no")]])
    waiting, failed = HeldCompletion(llm, REQUEST), HeldCompletion(llm, REQUEST)
    await settle()
    for held in (waiting, failed):
        await held.drop()
        await held.drop()
        assert not held.used
    assert llm.cancelled == 1


async def test_who_stops_reading_cancels_the_engine() -> None:
    llm = FakeLlm(scripts=[[LlmText("あ"), LlmText("い"), asyncio.Event()]])
    held = HeldCompletion(llm, REQUEST)
    reading = held.take()
    assert await anext(reading) == LlmText("あ")
    await reading.aclose()
    assert llm.cancelled == 1
    with pytest.raises(RuntimeError):
        await anext(held.take())


async def test_a_model_that_never_stops_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculation, "MOST_HELD", 3)
    llm = FakeLlm(scripts=[answer("あいうえおかきくけこ", step=1)])
    held = HeldCompletion(llm, REQUEST)
    await settle()
    assert len(held._held) == 3
    assert [delta async for delta in held.take()] == answer("あいうえおかきくけこ", step=1)
    stuck = HeldCompletion(llm, REQUEST)
    await settle()
    await stuck.drop()
    assert llm.cancelled == 1
