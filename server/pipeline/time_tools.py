"""The tools of time: the clock, and timers.

A large model is offered all of them in every turn. A small one reads the time in its prompt, and is offered a timer
only when the words have the form of a request (`timer_words.py`); the length is taken from these words, not from the
model, which is no good at numbers. Knows no model but its capabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from server.context.prompts import day_text
from server.engines.base import LlmCapabilities, ToolSpec
from server.errors import RequestError
from server.memory.asking import Asker
from server.persona import Persona
from server.pipeline.timer_speech import length_text
from server.pipeline.timer_words import TimerRequest, durations, timer_label, timer_request
from server.pipeline.timers import Timers
from server.pipeline.tool_loop import Tool
from server.storage.records import Timer

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_LONGEST = {"seconds": 604_800, "minutes": 10_080}

GET_TIME = ToolSpec("get_time", "the time and the day where the robot is, now", _NOTHING)
SET_TIMER = ToolSpec(
    "set_timer",
    "the robot says when the time is over; give seconds or minutes",
    {
        "type": "object",
        "properties": {
            "seconds": {"type": "integer", "minimum": 1, "maximum": _LONGEST["seconds"]},
            "minutes": {"type": "number", "exclusiveMinimum": 0, "maximum": _LONGEST["minutes"]},
            "label": {"type": "string", "maxLength": 60, "description": "what it is for, in the user's words"},
        },
        "additionalProperties": False,
    },
)
LIST_TIMERS = ToolSpec("list_timers", "the timers that run, and how much of each is left", _NOTHING)
CANCEL_TIMER = ToolSpec(
    "cancel_timer",
    "end a timer before its time; without an id or label the only one that runs",
    {
        "type": "object",
        "properties": {
            "timer_id": {"type": "integer", "minimum": 1, "description": "from list_timers"},
            "label": {"type": "string", "maxLength": 60},
            "all": {"type": "boolean", "description": "every timer"},
        },
        "additionalProperties": False,
    },
)
TOOL_NAMES = (GET_TIME.name, SET_TIMER.name, LIST_TIMERS.name, CANCEL_TIMER.name)
_SMALL = {
    "set": ToolSpec(SET_TIMER.name, "starts the timer that the user asks for", _NOTHING, math.inf, on_request=True),
    "list": ToolSpec(LIST_TIMERS.name, "which timers run", _NOTHING, math.inf, on_request=True),
    "cancel": ToolSpec(CANCEL_TIMER.name, "ends the timer", _NOTHING, math.inf, on_request=True),
}


def stable_specs(capabilities: LlmCapabilities) -> tuple[ToolSpec, ...]:
    """The tools that the unchanging part of the prompt tells a model of."""
    return () if capabilities.wants_examples else (GET_TIME, SET_TIMER, LIST_TIMERS, CANCEL_TIMER)


def time_tools(
    timers: Timers, persona: Persona, capabilities: LlmCapabilities, clock: Callable[[], datetime]
) -> tuple[Tool, ...]:
    """What a model of these capabilities is offered."""
    if capabilities.wants_examples:
        return (SetTimer(timers, small=True), ListTimers(timers, clock, small=True), CancelTimer(timers, small=True))
    return (GetTime(persona, clock), SetTimer(timers), ListTimers(timers, clock), CancelTimer(timers))


class GetTime:
    """What the clock says, in the words of the prompt's clock."""

    spec = GET_TIME

    def __init__(self, persona: Persona, clock: Callable[[], datetime]) -> None:
        self._persona = persona
        self._clock = clock

    async def offer(self, asker: Asker) -> float | None:
        """Always."""
        return 0.0

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"now", "time", "date", "weekday", "zone"}`."""
        now = self._clock().astimezone(asker.zone)
        return {
            "now": day_text(self._persona, now, asker.language, with_time=True),
            "time": f"{now:%H:%M}",
            "date": f"{now:%Y-%m-%d}",
            "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[now.weekday()],
            "zone": self._persona.zone,
        }


class _TimerTool:
    request: TimerRequest

    def __init__(self, timers: Timers, spec: ToolSpec, *, small: bool) -> None:
        self.spec = _SMALL[self.request] if small else spec
        self._timers = timers
        self._small = small

    async def offer(self, asker: Asker) -> float | None:
        """To a small model only when the words ask for it."""
        if not asker.device_id or (self._small and timer_request(asker.words) != self.request):
            return None
        return 0.0


class SetTimer(_TimerTool):
    """Begins a timer on the device that is spoken to."""

    request: TimerRequest = "set"

    def __init__(self, timers: Timers, *, small: bool = False) -> None:
        super().__init__(timers, SET_TIMER, small=small)

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"timer_set", "length", "timer_id"}`. Raises `RequestError`, `StorageError`."""
        if self._small:
            said = durations(asker.words)
            if len(said) != 1:
                # Told as a result, not as an error: what is left is to ask.
                return {"timer_set": False, "note": "ask the user how long" if not said else "ask for one timer only"}
            seconds, label = said[0], timer_label(asker.words)
        else:
            seconds, label = _seconds(arguments), str(arguments.get("label") or "")
        timer = await self._timers.set(asker.device_id, seconds, label, asker.language)
        told = {"timer_set": True, "length": length_text(seconds, asker.language)}
        if label:
            told["label"] = timer.label
        return told if self._small else {**told, "timer_id": timer.timer_id}


class ListTimers(_TimerTool):
    """The timers of the device that is spoken to."""

    request: TimerRequest = "list"

    def __init__(self, timers: Timers, clock: Callable[[], datetime], *, small: bool = False) -> None:
        super().__init__(timers, LIST_TIMERS, small=small)
        self._clock = clock

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"timers": [{"length", "left", "label"?, "timer_id"?}]}`, the next one first."""
        now = self._clock()
        return {
            "timers": [_told(timer, asker.language, now, self._small) for timer in self._timers.of(asker.device_id)]
        }


class CancelTimer(_TimerTool):
    """Ends timers of the device that is spoken to."""

    request: TimerRequest = "cancel"

    def __init__(self, timers: Timers, *, small: bool = False) -> None:
        super().__init__(timers, CANCEL_TIMER, small=small)

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"cancelled": [lengths or labels]}`, or which there are to choose from. Raises `RequestError`."""
        there = self._timers.of(asker.device_id)
        meant = _meant(there, _named(asker.words, there) if self._small else arguments)
        if there and not meant:
            return {"cancelled": [], "which": [_name(timer, asker.language) for timer in there]}
        gone = await self._timers.cancel(asker.device_id, tuple(timer.timer_id for timer in meant))
        told: dict[str, Any] = {"cancelled": [_name(timer, asker.language) for timer in gone]}
        return told if gone else {**told, "note": "no timer runs"}


def _seconds(arguments: Mapping[str, Any]) -> int:
    seconds, minutes = arguments.get("seconds"), arguments.get("minutes")
    given = [(value, unit) for value, unit in ((seconds, 1), (minutes, 60)) if value not in (None, 0)]
    if not given:
        raise _wrong("give seconds or minutes; if the user did not say how long, ask")
    total = 0.0
    for value, unit in given:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value * unit <= _LONGEST["seconds"]:
            raise _wrong("seconds and minutes are numbers above 0, together at most 7 days")
        total += value * unit
    return max(1, round(total))


def _named(words: str, timers: tuple[Timer, ...]) -> Mapping[str, Any]:
    """Which timers the user's own words name."""
    folded = words.casefold()
    if any(word in folded for word in ("全部", "ぜんぶ", "すべて", "all ")):
        return {"all": True}
    for timer in timers:
        if timer.label and timer.label.casefold() in folded:
            return {"timer_id": timer.timer_id}
    lengths = durations(words)
    by_length = [timer for timer in timers if timer.duration_seconds in lengths]
    return {"timer_id": by_length[0].timer_id} if len(by_length) == 1 else {}


def _meant(timers: tuple[Timer, ...], arguments: Mapping[str, Any]) -> tuple[Timer, ...]:
    timer_id, label = arguments.get("timer_id"), arguments.get("label")
    if arguments.get("all") is True:
        return timers
    if timer_id is not None:
        return tuple(timer for timer in timers if timer.timer_id == timer_id)
    if isinstance(label, str) and label.strip():
        wanted = label.strip().casefold()
        return tuple(timer for timer in timers if timer.label.casefold() == wanted)[:1]
    return timers if len(timers) == 1 else ()


def _name(timer: Timer, language: str) -> str:
    return timer.label or length_text(timer.duration_seconds, language)


def _told(timer: Timer, language: str, now: datetime, small: bool) -> dict[str, Any]:
    left_seconds = max(0.0, (timer.due_at - now).total_seconds())
    told: dict[str, Any] = {
        "length": length_text(timer.duration_seconds, language),
        "left": length_text(left_seconds, language),
    }
    if timer.label:
        told["label"] = timer.label
    return told if small else {**told, "timer_id": timer.timer_id}


def _wrong(what: str) -> RequestError:
    return RequestError(what, code="arguments_invalid")
