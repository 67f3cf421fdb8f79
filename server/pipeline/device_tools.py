"""The tools of the robot's own body that a conversation may turn: how loud it speaks, and its microphone.

Offered where the device that is spoken to is there and obeys. A large model gives the numbers; a small one is offered
them only when the words have the form of a request (`volume_words.py`), and the numbers are taken from these words;
then on every device: where it does not obey, the result says that it was not done. Knows commands by name; not how
they are sent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from server.engines.base import LlmCapabilities, ToolSpec
from server.errors import RequestError
from server.memory.asking import Asker
from server.pipeline.tool_loop import Tool
from server.pipeline.volume_words import mute_request, volume_request

VOLUME, MUTE = "volume", "mute"
"""Commands of `firmware/PROTOCOL.md`."""

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
SET_VOLUME = ToolSpec(
    "set_volume",
    "how loud the robot speaks: percent, or change for louder (20) and quieter (-20)",
    {
        "type": "object",
        "properties": {
            "percent": {"type": "integer", "minimum": 0, "maximum": 100},
            "change": {"type": "integer", "minimum": -100, "maximum": 100},
        },
        "additionalProperties": False,
    },
)
MUTE_MICROPHONE = ToolSpec(
    "mute_microphone",
    "the robot's microphone off (muted: true) or on; while it is off the robot hears nothing, so only when asked to",
    {
        "type": "object",
        "properties": {"muted": {"type": "boolean"}},
        "required": ["muted"],
        "additionalProperties": False,
    },
)
TOOL_NAMES = (SET_VOLUME.name, MUTE_MICROPHONE.name)
_SMALL_VOLUME = ToolSpec(SET_VOLUME.name, "does as the user asks", _NOTHING, math.inf, on_request=True)
_SMALL_MUTE = ToolSpec(MUTE_MICROPHONE.name, "does as the user asks", _NOTHING, math.inf, on_request=True)


class Controls(Protocol):
    """A connected device, as far as it can be told to do something."""

    def obeys(self, command: str) -> bool:
        """Whether it is there and knows this command."""

    async def command(self, name: str, args: Mapping[str, Any]) -> Any:
        """What it answers. Raises `StackChanError` when it will not, or does not answer."""


FindControls = Callable[[str], Controls | None]
"""A device by its name; None: it is not connected."""


def stable_device_specs(capabilities: LlmCapabilities) -> tuple[ToolSpec, ...]:
    """The tools that the unchanging part of the prompt tells a model of."""
    return () if capabilities.wants_examples else (SET_VOLUME, MUTE_MICROPHONE)


def device_tools(find: FindControls, capabilities: LlmCapabilities) -> tuple[Tool, ...]:
    """What a model of these capabilities is offered."""
    small = capabilities.wants_examples
    return SetVolume(find, small=small), MuteMicrophone(find, small=small)


class _DeviceTool(ABC):
    command: str

    def __init__(self, find: FindControls, spec: ToolSpec, *, small: bool) -> None:
        self.spec = spec
        self._find = find
        self._small = small

    async def offer(self, asker: Asker) -> float | None:
        """Where the device obeys; to a small model when the words ask for it: it has no other true answer."""
        offered = self.is_asked(asker.words) if self._small else self._device(asker) is not None
        return 0.0 if offered else None

    @abstractmethod
    def is_asked(self, words: str) -> bool:
        """Whether the user's words ask for it."""

    def _device(self, asker: Asker) -> Controls | None:
        """The device, if it is there and obeys."""
        device = self._find(asker.device_id) if asker.device_id else None
        return device if device is not None and device.obeys(self.command) else None

    async def _tell(self, asker: Asker, args: Mapping[str, Any]) -> Any:
        device = self._device(asker)
        if device is None:
            raise RequestError("this device cannot do that", code="arguments_invalid")
        return await device.command(self.command, args)


class SetVolume(_DeviceTool):
    """Louder, quieter, or so loud."""

    command = VOLUME

    def __init__(self, find: FindControls, *, small: bool = False) -> None:
        super().__init__(find, _SMALL_VOLUME if small else SET_VOLUME, small=small)

    def is_asked(self, words: str) -> bool:
        return volume_request(words) is not None

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"volume_percent"}` as it is now, or `{"volume_set"}`; false: not here. Raises `StackChanError`."""
        if self._small and self._device(asker) is None:
            return {"volume_set": False}
        args = self._asked(asker.words) if self._small else _volume(arguments)
        answer = await self._tell(asker, args)
        percent = answer.get("percent", args.get("percent")) if isinstance(answer, Mapping) else args.get("percent")
        is_number = isinstance(percent, int) and not isinstance(percent, bool)
        return {"volume_percent": percent} if is_number else {"volume_set": True}

    def _asked(self, words: str) -> Mapping[str, Any]:
        request = volume_request(words)
        if request is None:
            raise RequestError("the user did not say how loud", code="arguments_invalid")
        return {"percent": request.percent} if request.percent is not None else {"change": request.change}


class MuteMicrophone(_DeviceTool):
    """The microphone off, or on again."""

    command = MUTE

    def __init__(self, find: FindControls, *, small: bool = False) -> None:
        super().__init__(find, _SMALL_MUTE if small else MUTE_MICROPHONE, small=small)

    def is_asked(self, words: str) -> bool:
        return mute_request(words) is not None

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"microphone": "off" or "on"}`, or `{"microphone_set": false}`: not here. Raises `StackChanError`."""
        if self._small and self._device(asker) is None:
            return {"microphone_set": False}
        muted = mute_request(asker.words) if self._small else arguments.get("muted")
        if not isinstance(muted, bool):
            raise RequestError("muted is true or false", code="arguments_invalid")
        await self._tell(asker, {"on": muted})
        return {"microphone": "off" if muted else "on"}


def _volume(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    given = {name: arguments[name] for name in ("percent", "change") if arguments.get(name) is not None}
    if len(given) != 1:
        raise RequestError("give percent or change", code="arguments_invalid")
    ((name, value),) = given.items()
    lowest = 0 if name == "percent" else -100
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= 100:
        raise RequestError(f"{name} is a whole number from {lowest} to 100", code="arguments_invalid")
    return given
