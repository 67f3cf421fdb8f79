"""The answer of a turn that is known without the model, where the model is too small to say it truly.

After it did something, forgot something, looked something up or is asked of the clock, a small model has one thing to
say, and takes seconds to say it in other words than the truth. So these answers are made here, with a face and a
movement; only when more than one reply is true does the model choose. Knows results of tools as data, and persona ids.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from server.context.clock_replies import replies_of_the_clock
from server.context.deed_replies import replies_to_deed
from server.context.forget_replies import replies_to_forgetting
from server.context.memory_replies import asks_for_a_number_or_day, replies_from_memory
from server.context.prompts import json_text
from server.memory.wishes import wants_to_know
from server.persona import Persona
from server.pipeline.tool_loop import UNREACHABLE, ToolRun
from server.pipeline.tool_results import DEEDS, FORGET, READ_SOURCE, SEARCH, is_error

_NOT_NOW = {"ja": "ごめんね、今は思い出せないよ。", "en": "Sorry, I cannot remember right now."}
_DONE = ("timer_set", "volume_percent", "cancelled", "timers")
"""Of these a result that is neither false nor empty is a deed that was done."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """What may be said. `replies`: each of them is true. `is_whole`: nothing is left that the model could still do."""

    replies: tuple[str, ...]
    emotion: str = "neutral"
    action: str = "none"
    is_whole: bool = True

    def answer(self, persona: Persona) -> str | None:
        """The answer as a model would write it; None: the model chooses, or has something left to do."""
        if not self.is_whole or len(self.replies) != 1:
            return None
        emotion = self.emotion if _has(persona.emotions, self.emotion) else "neutral"
        action = self.action if _has(persona.actions, self.action) else "none"
        return json_text({"emotion": emotion, "action": action, "reply": self.replies[0]})


def ruled(words: str, language: str, runs: Sequence[ToolRun], now: dt.datetime) -> Ruled | None:
    """What a small model may say to `words` after these calls; None: anything. `now`: in the zone of the house."""
    results = {run.name: run.result for run in runs if not is_error(run.result)}
    if FORGET in results:
        forgotten = results[FORGET].get("forgotten")
        return _ruled(replies_to_forgetting(results[FORGET], language), done=bool(forgotten))
    if deeds := [run.result for run in runs if run.name in DEEDS]:
        done = any(deeds[-1].get(key) for key in _DONE) or deeds[-1].get("microphone") is not None
        return _ruled(replies_to_deed(deeds[-1], words, language), done=done)
    if told := replies_of_the_clock(words, now, language):
        return Ruled(told, "happy")
    if not wants_to_know(words):
        return None
    if SEARCH in results:
        found = bool(results[SEARCH].get("candidates") or results[SEARCH].get("said"))
        # A number or a day may be read in the source yet.
        is_whole = not found or READ_SOURCE in results or not asks_for_a_number_or_day(words)
        told = replies_from_memory(results[SEARCH], words, language)
        return Ruled(told, *(("happy", "nod") if found else ("sad", "none")), is_whole) if told else None
    if any(run.name == SEARCH and run.result.get("error") == UNREACHABLE for run in runs):
        # What it does not find in time a small model makes up.
        return Ruled((_NOT_NOW["ja" if language == "ja" else "en"],), "sad")
    return None


def _ruled(replies: tuple[str, ...], *, done: bool) -> Ruled | None:
    return Ruled(replies, *(("happy", "nod") if done else ())) if replies else None


def _has(entries: Iterable[object], wanted: str) -> bool:
    return any(getattr(entry, "id", None) == wanted for entry in entries)
