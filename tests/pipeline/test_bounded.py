"""Work that is bounded in time: whatever an engine does, its caller goes on."""

from __future__ import annotations

import asyncio

import pytest

from server.errors import AsrError, LlmError, StorageError, TtsError
from server.pipeline.bounded import bounded, engine_work
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit


async def give(value, after=0.0):
    await asyncio.sleep(after)
    return value


async def fail(error):
    await asyncio.sleep(0)
    raise error


def test_work_in_time_gives_its_result():
    assert in_virtual_time(bounded(give(3, after=0.9), 1)) == 3


def test_work_that_takes_too_long_is_cancelled_at_its_time():
    async def scenario():
        ended = []

        async def work():
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(asyncio.get_running_loop().time())

        with pytest.raises(TimeoutError):
            await bounded(work(), 2)
        return ended

    assert in_virtual_time(scenario()) == [2]


@pytest.mark.parametrize("late", [None, ValueError("late")])
def test_work_that_refuses_to_end_is_left_behind_and_what_it_raises_later_troubles_nobody(late):
    async def scenario():
        loop = asyncio.get_running_loop()
        troubles = []
        loop.set_exception_handler(lambda _, context: troubles.append(context))
        release = asyncio.Event()

        async def stubborn():
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            if late:
                raise late

        with pytest.raises(TimeoutError):
            await bounded(stubborn(), 2)
        gave_up_at = loop.time()
        release.set()
        await asyncio.sleep(0.1)
        return gave_up_at, troubles

    assert in_virtual_time(scenario()) == (3, [])


def test_cancelling_the_caller_cancels_the_work():
    async def scenario():
        ended = asyncio.Event()

        async def work():
            try:
                await asyncio.sleep(100)
            finally:
                ended.set()

        caller = asyncio.create_task(bounded(work(), 50))
        await asyncio.sleep(1)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        return ended.is_set(), asyncio.get_running_loop().time()

    assert in_virtual_time(scenario()) == (True, 1)


def test_work_that_cancels_itself_is_a_failure_and_no_cancellation():
    async def scenario():
        with pytest.raises(AsrError) as caught:
            await engine_work(fail(asyncio.CancelledError()), 5, AsrError)
        return caught.value.code

    assert in_virtual_time(scenario()) == "asr_failed"


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (AsrError("no", code="asr_model_lost", retryable=True), "asr_model_lost", True),
        (TtsError("another kind", retryable=True), "asr_failed", True),
        (TtsError("closed", code="engine_unavailable"), "engine_unavailable", False),
        (StorageError("not an engine's"), "asr_failed", False),
        (TimeoutError(), "asr_timeout", True),
        (KeyError("secret words"), "asr_failed", False),
        (RecursionError(), "asr_failed", False),
    ],
)
def test_every_failure_becomes_the_stages_own(error, code, retryable):
    async def scenario():
        with pytest.raises(AsrError) as caught:
            await engine_work(fail(error), 5, AsrError)
        return caught.value

    found = in_virtual_time(scenario())
    assert (found.code, found.retryable) == (code, retryable)
    assert "secret words" not in found.message


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        BaseExceptionGroup("some", [KeyboardInterrupt()]),
        type("Odd", (BaseException,), {})(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_would_end_the_process_is_a_defect_of_the_engine(error, caplog):
    async def scenario():
        with pytest.raises(AsrError) as caught:
            await engine_work(fail(error), 5, AsrError)
        with pytest.raises(RuntimeError):
            await bounded(fail(error), 5)
        return caught.value

    found = in_virtual_time(scenario())
    assert found.code == "asr_failed"
    assert "a defect of the engine" in caplog.text


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), "5", True, [5]], ids=repr)
def test_an_error_with_anything_in_it_can_be_stored(seconds):
    error = LlmError(12345, code="we\nird code", retryable="yes", hint={"a": 1}, retry_after_seconds=seconds)

    async def scenario():
        with pytest.raises(LlmError) as caught:
            await engine_work(fail(error), 5, LlmError)
        return caught.value

    found = in_virtual_time(scenario())
    assert (found.code, found.message, found.hint, found.retryable) == ("llm_failed", "12345", "dict", False)
    assert found.retry_after_seconds is None


def test_a_message_is_cut_and_cleaned():
    async def scenario():
        with pytest.raises(TtsError) as caught:
            await engine_work(fail(TtsError("\ud800\0" + "x" * 5000)), 5, TtsError)
        return caught.value.message

    assert in_virtual_time(scenario()) == "\ufffd" + "x" * 999


def test_too_late_is_named_after_the_stage():
    async def scenario():
        with pytest.raises(TtsError) as caught:
            await engine_work(give(1, after=9), 5, TtsError)
        return caught.value.code, caught.value.retryable

    assert in_virtual_time(scenario()) == ("tts_timeout", True)
