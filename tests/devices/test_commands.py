"""Commands to one device: each waits for its own result, and for no longer than it may."""

from __future__ import annotations

import asyncio

import pytest

from server.devices.commands import Commands
from server.devices.wire import Command, CommandResult
from server.errors import NotFoundError, RequestError, StackChanError

pytestmark = pytest.mark.unit


async def given(commands: Commands, *names: str) -> list[asyncio.Task[object]]:
    tasks = [asyncio.create_task(commands.give(name, {"x": 1})) for name in names]
    await asyncio.sleep(0)
    return tasks


async def test_each_result_goes_to_its_command_in_any_order() -> None:
    sent: list[Command] = []
    commands = Commands(sent.append)
    first, second = await given(commands, "volume", "mute")
    assert [(one.id, one.name, one.args) for one in sent] == [(1, "volume", {"x": 1}), (2, "mute", {"x": 1})]
    commands.answered(CommandResult(2, True, "two"))
    commands.answered(CommandResult(2, True, "again"))
    commands.answered(CommandResult(99, True))
    commands.answered(CommandResult(1, True, {"percent": 5}))
    assert await first == {"percent": 5}
    assert await second == "two"


async def test_a_refusal_says_why_in_few_words() -> None:
    commands = Commands(lambda command: None)
    (refused,) = await given(commands, "fly")
    commands.answered(CommandResult(1, False, "壊" * 1000))
    with pytest.raises(RequestError, match="fly: 壊") as caught:
        await refused
    assert (caught.value.code, len(caught.value.message) < 200) == ("command_refused", True)


async def test_silence_and_leaving_are_told_apart_and_nothing_is_left() -> None:
    silent = Commands(lambda command: None, result_seconds=0.0)
    with pytest.raises(StackChanError) as caught:
        await silent.give("volume", {})
    assert (caught.value.code, caught.value.retryable) == ("device_silent", True)
    commands = Commands(lambda command: None)
    (waiting,) = await given(commands, "volume")
    commands.gone()
    with pytest.raises(NotFoundError) as gone:
        await waiting
    assert gone.value.code == "device_gone"
    assert (silent._waiting, commands._waiting) == ({}, {})


async def test_a_device_that_never_answers_does_not_collect_commands() -> None:
    sent: list[Command] = []
    commands = Commands(sent.append)
    waiting = await given(commands, *["volume"] * 16)
    with pytest.raises(StackChanError):
        await commands.give("volume", {})
    assert len(sent) == 16
    commands.gone()
    await asyncio.gather(*waiting, return_exceptions=True)
