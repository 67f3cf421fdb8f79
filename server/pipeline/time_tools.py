"""The tools of time: the clock, and timers.

A large model is offered all of them in every turn. A small one reads the time in its prompt, and is offered a timer
only when the words have the form of a request (`timer_words.py`); the length or the time is taken from these words, not
from the model, which is no good at numbers. Knows no model but its capabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta
from types import NoneType
from typing import Any

from server.context.deed_replies import ASK_HOW_LONG, CANNOT_RING, NO_SUCH, ONE_ONLY, TAKEN_BACK, TOO_FAR
from server.context.prompts import day_text
from server.engines.base import LlmCapabilities, ToolSpec
from server.errors import RequestError
from server.memory.asking import Asker
from server.persona import Persona
from server.pipeline.clock_words import clock_times, first_moment, wakes
from server.pipeline.length_words import durations
from server.pipeline.timer_names import Named, named_timers
from server.pipeline.timer_speech import due_text, length_text
from server.pipeline.timer_words import TimerRequest, corrected, taken_back, timer_label, timer_request
from server.pipeline.timers import LONGEST_SECONDS, Timers
from server.pipeline.tool_loop import Tool
from server.storage.records import Timer

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_LONGEST = {"seconds": 604_800, "minutes": 10_080}

GET_TIME = ToolSpec("get_time", "the time and the day where the robot is, now", _NOTHING)
SET_TIMER = ToolSpec(
    "set_timer",
    "the robot says when the time is over: after so many seconds or minutes, or at a time of the clock",
    {
        "type": "object",
        "properties": {
            "seconds": {"type": "integer", "minimum": 1, "maximum": _LONGEST["seconds"]},
            "minutes": {"type": "number", "exclusiveMinimum": 0, "maximum": _LONGEST["minutes"]},
            "at": {
                "type": "string",
                "maxLength": 20,
                "description": "instead of a length, by the user's clock: 2026-01-31T07:30, or 07:30 (the next)",
            },
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
        return tuple(kind(timers, clock, small=True) for kind in (SetTimer, ListTimers, CancelTimer))
    return (GetTime(persona, clock), *(kind(timers, clock) for kind in (SetTimer, ListTimers, CancelTimer)))


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
    large: ToolSpec

    def __init__(self, timers: Timers, clock: Callable[[], datetime], *, small: bool = False) -> None:
        self.spec = _SMALL[self.request] if small else self.large
        self._timers = timers
        self._clock = clock
        self._small = small

    async def offer(self, asker: Asker) -> float | None:
        """To a small model only when the words ask for it, and then always: it has no other true answer."""
        if self._small:
            return 0.0 if timer_request(asker.words) == self.request else None
        return 0.0 if asker.device_id else None


class SetTimer(_TimerTool):
    """Begins a timer on the device that is spoken to."""

    request: TimerRequest = "set"
    large = SET_TIMER

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"timer_set", "length" or "at", "label"?, "timer_id"?}`; false with a `note`: it was not set, and why.

        It counts from when it was said. Raises `RequestError`, `StorageError`.
        """
        now = asker.asked_at.astimezone(asker.zone)
        if not self._timers.can_ring(asker.device_id):
            return {"timer_set": False, "note": CANNOT_RING}
        if taken_back(asker.words):
            return {"timer_set": False, "note": TAKEN_BACK}
        if self._small:
            words = corrected(asker.words)
            said = (*durations(words), *clock_times(words, now))
            if len(said) != 1:
                # Told as a result, not as an error: what is left is to ask.
                return {"timer_set": False, "note": ONE_ONLY if said else ASK_HOW_LONG}
            if said[0] is None or _seconds_until(said[0], now) > LONGEST_SECONDS:
                return {"timer_set": False, "note": TOO_FAR}
            due, label = said[0], timer_label(words)
        else:
            due, label = _due(arguments, now), _text(arguments, "label")
        timer = await self._timers.set(asker.device_id, due, label, asker.language, said_at=now)
        told = {"timer_set": True, **_when(timer, asker.language, now)}
        if self._small and timer.zone is not None and wakes(asker.words):
            told["wakes"] = True
        if label:
            told["label"] = timer.label
        return told if self._small else {**told, "timer_id": timer.timer_id}


class ListTimers(_TimerTool):
    """The timers of the device that is spoken to."""

    request: TimerRequest = "list"
    large = LIST_TIMERS

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"timers": [{"length" or "at", "left", "label"?, "timer_id"?}]}`, the next one first."""
        now = self._clock()
        return {
            "timers": [_told(timer, asker.language, now, self._small) for timer in self._timers.of(asker.device_id)]
        }


class CancelTimer(_TimerTool):
    """Ends timers of the device that is spoken to."""

    request: TimerRequest = "cancel"
    large = CANCEL_TIMER

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"cancelled": [lengths, times or labels]}`, or with `which` there are to choose from, and a `note` where
        something was named that does not run. Raises `RequestError`.
        """
        there, now = self._timers.of(asker.device_id), self._clock().astimezone(asker.zone)
        if taken_back(asker.words):
            return {"cancelled": [], "note": TAKEN_BACK}
        named = named_timers(asker.words, there, now)
        meant = _meant(there, {} if self._small else arguments, named)
        if there and not meant:
            which = {"cancelled": [], "which": [_name(timer, asker.language, now) for timer in there]}
            return {**which, "note": NO_SUCH} if named.no_such else which
        gone = await self._timers.cancel(asker.device_id, tuple(timer.timer_id for timer in meant))
        told: dict[str, Any] = {"cancelled": [_name(timer, asker.language, now) for timer in gone]}
        return told if gone else {**told, "note": "no timer runs"}


def _due(arguments: Mapping[str, Any], now: datetime) -> int | datetime:
    """What a model has asked for: a length in seconds, or a time of the clock of `now`."""
    at = arguments.get("at")
    if at in (None, ""):
        return _seconds(arguments)
    if any(arguments.get(name) not in (None, 0) for name in ("seconds", "minutes")):
        raise _wrong("give a length or at, not both")
    try:
        if not isinstance(at, str):
            raise ValueError
        if "T" not in at and " " not in at:
            today = datetime.combine(now.date(), time.fromisoformat(at), now.tzinfo)
            next_one = first_moment(today, now) or first_moment(today + timedelta(days=1), now)
            assert next_one is not None
            return next_one
        given = datetime.fromisoformat(at)
        local = given.tzinfo is None
        due = first_moment(given.replace(tzinfo=now.tzinfo), now) if local else given.astimezone(now.tzinfo)
    except (ValueError, OverflowError):  # OverflowError: at the ends of the calendar
        raise _wrong("at is a time such as 2026-01-31T07:30 or 07:30") from None
    if due is None or not 0 < due.timestamp() - now.timestamp() <= LONGEST_SECONDS:
        raise _wrong(f"at lies within the 7 days from now, which is {now:%Y-%m-%dT%H:%M}")
    return due


def _seconds_until(due: int | datetime, now: datetime) -> float:
    return due.timestamp() - now.timestamp() if isinstance(due, datetime) else due


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
    if total > LONGEST_SECONDS:
        raise _wrong("seconds and minutes are numbers above 0, together at most 7 days")
    return max(1, round(total))


def _meant(timers: tuple[Timer, ...], arguments: Mapping[str, Any], named: Named) -> tuple[Timer, ...]:
    """Those that a model's arguments name; where they name none, the user's words. Raises `RequestError`."""
    timer_id, label, everything = arguments.get("timer_id"), _text(arguments, "label"), arguments.get("all")
    if type(timer_id) not in (int, NoneType) or type(everything) not in (bool, NoneType):
        raise _wrong("timer_id is a whole number, and all is true or false")
    if everything and named.is_named and not named.every:
        raise _wrong("the user did not say all; give the timer_id that they mean")
    if timer_id is None and not label and not everything:
        return named.meant if named.is_named else timers if len(timers) == 1 else ()
    found = timers
    if timer_id is not None:
        found = tuple(timer for timer in found if timer.timer_id == timer_id)
    if label:
        found = tuple(timer for timer in found if timer.label.casefold() == label.casefold())
    return found if everything or len(found) == 1 else ()


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str | None):
        raise _wrong(f"{name} is a text")
    return (value or "").strip()


def _name(timer: Timer, language: str, now: datetime) -> str:
    return timer.label or next(iter(_when(timer, language, now).values()))


def _when(timer: Timer, language: str, now: datetime) -> dict[str, Any]:
    """For how long, or for when, a timer was set."""
    if timer.zone is not None:
        return {"at": due_text(replace(timer, language=language), now)}
    return {"length": length_text(timer.duration_seconds, language)}


def _told(timer: Timer, language: str, now: datetime, small: bool) -> dict[str, Any]:
    left_seconds = max(0.0, (timer.due_at - now).total_seconds())
    told = {**_when(timer, language, now), "left": length_text(left_seconds, language)}
    if timer.label:
        told["label"] = timer.label
    return told if small else {**told, "timer_id": timer.timer_id}


def _wrong(what: str) -> RequestError:
    return RequestError(what, code="arguments_invalid")
