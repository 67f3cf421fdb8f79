"""What one device is told to do, and what it answers: each command waits for the result with its number.

Knows no command by name and no connection: messages go to a function, results are handed in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from server.devices.wire import Command, CommandResult
from server.errors import NotFoundError, RequestError, StackChanError

RESULT_SECONDS = 5.0
_MOST_WAITING = 16
_REASON_CHARACTERS = 100


class Commands:
    """One device's."""

    def __init__(self, post: Callable[[Command], None], *, result_seconds: float = RESULT_SECONDS) -> None:
        self._post = post
        self._result_seconds = result_seconds
        self._number = 0
        self._waiting: dict[int, asyncio.Future[CommandResult]] = {}

    async def give(self, name: str, args: Mapping[str, Any]) -> Any:
        """Tell the device and return the value of its result.

        Raises `RequestError` (`command_refused`) when it will not, `StackChanError` (`device_silent`) when it does not
        answer in time, `NotFoundError` (`device_gone`) when it goes before.
        """
        if len(self._waiting) >= _MOST_WAITING:
            raise _silent()
        self._number += 1
        number = self._number
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._post(Command(number, name, args))
        try:
            async with asyncio.timeout(self._result_seconds):
                result = await answer
        except TimeoutError:
            raise _silent() from None
        finally:
            self._waiting.pop(number, None)
        if not result.ok:
            reason = result.value if isinstance(result.value, str) else "no reason"
            raise RequestError(f"The device refuses {name}: {reason[:_REASON_CHARACTERS]}.", code="command_refused")
        return result.value

    def answered(self, result: CommandResult) -> None:
        """A result has come; one that nobody waits for (any more) is passed over."""
        answer = self._waiting.get(result.id)
        if answer is not None and not answer.done():
            answer.set_result(result)

    def gone(self) -> None:
        """The device has gone: nothing that was not answered will be."""
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NotFoundError("The device has gone.", code="device_gone"))


def _silent() -> StackChanError:
    return StackChanError("The device does not answer.", code="device_silent", retryable=True)
