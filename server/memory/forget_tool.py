"""The tool through which a model forgets what the user asks to forget: all that is meant, and nothing else.

What is meant for certain is forgotten together. When something else may be meant too, nothing is forgotten yet and the
user is asked: a turn in which something was forgotten loses its words, so a question asked in it would be gone before
its answer came, and what is forgotten by halves looks like done. What only has the same word is told as still
remembered. Which is which is decided in `meant.py`, what an answer means in `choosing.py`. Knows no model, no table.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from server.engines.base import ToolSpec
from server.memory.asking import Asker
from server.memory.choosing import agrees, chosen, named, refuses
from server.memory.forget_words import asks_to_forget, parted, turns_to_something_else
from server.memory.meant import (
    Meant,
    RecentTurn,
    Thing,
    covered,
    meant,
    memory_thing,
    request_of,
    turn_thing,
)
from server.memory.meant_words import all_words, excepts, mentions, to_search, wanted_words
from server.memory.recall_records import Candidate, SearchResult
from server.memory.recent_talk import RecentTurns
from server.memory.tool_results import ToolLimits, bounded, candidate
from server.memory.tools import (
    FORGET_MEMORY,
    ForgetMemories,
    SearchArguments,
    SearchMemories,
    query_argument,
    texts_argument,
    wrong,
)
from server.storage.memory_records import Memory

ForgetWithTurns = Callable[[tuple[str, ...], tuple[int, ...], Asker], Awaitable[Mapping[str, Any]]]
"""As `ForgetMemories`, with exchanges that are in no memory yet."""

_SEARCHED = 20
_LOOKED_BACK = 3
"""Turns that "that" can point at."""
_CHOICE_LIMITS = ToolLimits(candidates=5)
_SESSIONS_WITH_CHOICES = 64
_LEFT = 3
_LEFT_CHARACTERS = 40
_ASK_WHICH = "nothing is forgotten yet; ask the user which of these, then call again with their answer as query"
ASK_WHAT = "nothing was forgotten; ask the user what is meant"
TAKEN_BACK = "the user does not want it after all; nothing was forgotten"
_NOTHING = "nothing found"


@dataclass(frozen=True, slots=True)
class Talk:
    """The conversation in progress. `near`: cosine to the query from which a memory may be meant without a word of it;
    None: not measured for this embedding model, and whatever is found may be meant."""

    recent: RecentTurns
    forget: ForgetWithTurns
    near: float | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the user was asked about. `things`: the first `shown` of them were told, the others counted."""

    turn_id: int
    speaker: str | None
    things: tuple[Thing, ...]
    shown: int

    def chosen(self, answer: str) -> tuple[Thing, ...] | None:
        return chosen(answer, self.things, self.shown)


class ForgetMemory:
    """Forgets on request. By words only what is meant for certain: else it gives back what to ask about.

    A model that was talked into it, by a memory or by anything else it has read, forgets nothing: the user must have
    asked for it in this very turn, or have been asked which memory is meant in the turn before. `talk` None: nothing is
    known of the conversation but the words of this turn.
    """

    def __init__(
        self,
        search: SearchMemories,
        forget: ForgetMemories,
        *,
        talk: Talk | None = None,
        spec: ToolSpec = FORGET_MEMORY,
        limits: ToolLimits = _CHOICE_LIMITS,
    ) -> None:
        self.spec = spec
        self._search = search
        self._forget = forget
        self._talk = talk
        self._limits = limits
        self._choices: dict[str, _Choice] = {}

    async def offer(self, asker: Asker) -> float | None:
        """Only where `run` could do it: the user asks for it, or was just asked which memory is meant.

        A model that calls whatever it is offered gets it only when the words do choose.
        """
        if asks_to_forget(asker.words):
            return 0.0
        choice = await self._pending(asker)
        if choice is None or (math.isinf(self.spec.prior) and not choice.chosen(asker.words)):
            return None
        return 0.0

    async def run(self, arguments: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """`{"forgotten": n, ...}`, or `which`: candidates among which the user must choose. `still_remembered`: what
        was not forgotten though it has to do with it. Raises `RequestError`.
        """
        memory_ids = texts_argument(arguments, "memory_ids")
        if bool(memory_ids) == (arguments.get("query") is not None):
            raise wrong("give query or memory_ids, one of them")
        query = "" if memory_ids else query_argument(arguments)
        asks, choice = asks_to_forget(asker.words), await self._pending(asker)
        offered = choice.things if choice is not None else ()
        known = {one.key for one in offered}
        if not asks and not (offered and known.issuperset(memory_ids)):
            raise wrong("the user did not ask to forget anything just now; nothing was forgotten")
        if not asks and memory_ids and refuses(asker.words):
            # Whatever a model has understood.
            return self._ask(Meant(perhaps=offered), asker)
        if memory_ids:
            return await self._forget_named(memory_ids[:10], asker, offered)
        picked = _picked(query, asker.words, choice, asks=asks) if choice is not None else None
        if picked is not None:
            return await self._forget_picked(picked, asker, offered)
        if not asks:
            return self._ask(Meant(perhaps=offered), asker)
        if excepts(asker.words):
            return {"forgotten": 0, "note": ASK_WHAT}
        goes_on = turns_to_something_else(asker.words)
        # What is told in the same breath names nothing that is to be forgotten.
        asker = replace(asker, words=parted(asker.words)[0])
        found = await self._meant(query, asker)
        if goes_on:
            found = Meant(perhaps=(*found.certain, *found.perhaps), left=found.left)
        return await self._carry_out(found, asker)

    async def _forget_picked(
        self, picked: Sequence[Thing], asker: Asker, offered: Sequence[Thing]
    ) -> Mapping[str, Any]:
        self._choices.pop(asker.session_id, None)
        if not picked:
            return {"forgotten": 0, "note": TAKEN_BACK}
        keys = {one.key for one in picked}
        return await self._forgotten(picked, [one for one in offered if one.key not in keys], asker)

    async def _forget_named(
        self, memory_ids: tuple[str, ...], asker: Asker, offered: Sequence[Thing]
    ) -> Mapping[str, Any]:
        left = [one for one in offered if one.key not in memory_ids]
        turn_ids: tuple[int, ...] = ()
        self._choices.pop(asker.session_id, None)
        if asks_to_forget(asker.words) and not offered:
            found = await self._meant(asker.words, replace(asker, words=parted(asker.words)[0]))
            left = [one for one in (*found.certain, *found.perhaps) if one.memory and one.key not in memory_ids]
            # A model can name no exchange that is in no memory yet.
            turn_ids = tuple(one.turn_id for one in found.certain if one.memory is None)
        if turn_ids and self._talk is not None:
            return dict(await self._talk.forget(memory_ids, turn_ids, asker)) | self._still(left)
        return dict(await self._forget(memory_ids, asker)) | self._still(left)

    async def _meant(self, query: str, asker: Asker) -> Meant:
        recent = list(await self._talk.recent(asker)) if self._talk is not None else []
        last = recent[-_LOOKED_BACK:]
        results = [
            await self._search(SearchArguments(text, limit=_SEARCHED), asker) for text in to_search(query, asker.words)
        ]
        wanted = _wanted(query, asker.words, last if self._talk is not None else None)
        on = asker.asked_at.astimezone(asker.zone).date()
        return meant(request_of(asker.words, wanted, on), self._pool(results, recent, asker), last)

    def _pool(self, results: Sequence[SearchResult], recent: Sequence[RecentTurn], asker: Asker) -> list[Thing]:
        pool: dict[str, Thing] = {}
        found = [one for result in results for one in result.candidates]
        near = {one.memory.memory_id for one in found if self._near(one)}
        for one in found:
            memory = one.memory
            thing = memory_thing(memory, near=memory.memory_id in near, of_others=_of_others(memory, asker))
            pool.setdefault(thing.key, thing)
        for turn in reversed(recent):
            for thing in (*(memory_thing(one, of_others=_of_others(one, asker)) for one in turn.shown), *turn.told):
                pool.setdefault(thing.key, thing)
        for said in (one for result in results for one in result.said if one.role == "user"):
            thing = turn_thing(said.turn_id, said.text)
            pool.setdefault(thing.key, thing)
        return list(pool.values())

    def _near(self, found: Candidate) -> bool:
        near = self._talk.near if self._talk is not None else None
        return near is None or (found.retrieval_score is not None and found.retrieval_score >= near)

    async def _carry_out(self, found: Meant, asker: Asker) -> Mapping[str, Any]:
        if found.perhaps:
            return self._ask(found, asker)
        self._choices.pop(asker.session_id, None)
        if found.certain:
            return await self._forgotten(found.certain, found.left, asker)
        points = not wanted_words(asker.words)
        return {"forgotten": 0, "note": ASK_WHAT if points else _NOTHING}

    def _ask(self, found: Meant, asker: Asker) -> Mapping[str, Any]:
        things = list({one.key: one for one in (*found.certain, *found.perhaps)}.values())
        which = bounded([self._told(one) for one in things], self._limits)
        shown, rest = things[: len(which)], things[len(which) :]
        # "All of them" is also what has the very words, and did not fit; not what was never named.
        words = request_of(asker.words, wanted_words(asker.words))
        along = [one for one in rest if one in found.certain or covered(words, one)]
        self._choices.pop(asker.session_id, None)
        self._choices[asker.session_id] = _Choice(asker.turn_id, asker.speaker, (*shown, *along), len(shown))
        while len(self._choices) > _SESSIONS_WITH_CHOICES:
            del self._choices[next(iter(self._choices))]
        more = {"more": len(rest)} if rest else {}
        return {"forgotten": 0, "which": which, **more, "note": _ASK_WHICH}

    async def _forgotten(self, things: Sequence[Thing], left: Sequence[Thing], asker: Asker) -> Mapping[str, Any]:
        memory_ids = tuple(one.key for one in things if one.memory is not None)
        turn_ids = tuple(one.turn_id for one in things if one.memory is None)
        if turn_ids and self._talk is not None:
            told = dict(await self._talk.forget(memory_ids, turn_ids, asker))
        else:
            told = dict(await self._forget(memory_ids, asker))
        return told | self._still(left)

    def _still(self, left: Sequence[Thing]) -> dict[str, Any]:
        """So that the answer is true."""
        if not left:
            return {}
        short = [_short(self._told(one)) for one in left[: 2 if self._limits.brief else _LEFT]]
        return {"still_remembered": short}

    def _told(self, one: Thing) -> dict[str, Any]:
        if one.memory is None:
            return {"turn_id": one.turn_id, "text": one.text}
        return candidate(Candidate(one.memory, None, 0.0), self._limits)

    async def _pending(self, asker: Asker) -> _Choice | None:
        """What this speaker has been asked in the turn before; the first turn that is no answer ends it."""
        choice = self._choices.get(asker.session_id)
        if choice is None or asker.turn_id <= choice.turn_id or asker.speaker != choice.speaker:
            return None
        # Turn numbers count the turns of all devices.
        if self._talk is None:
            return choice if asker.turn_id == choice.turn_id + 1 else None
        between = [one for one in await self._talk.recent(asker) if choice.turn_id < one.turn_id < asker.turn_id]
        return None if between else choice


def _picked(query: str, words: str, choice: _Choice, *, asks: bool) -> tuple[Thing, ...] | None:
    """What an answer to "which one?" chooses; None: it chooses nothing, or is a new request."""
    if asks and wanted_words(words) and not named(words, choice.things):
        return None
    picked = choice.chosen(words)
    # Yes, to what the model has asked.
    return choice.chosen(query) if picked is None and not asks and agrees(words) else picked


def _wanted(query: str, words: str, last: Sequence[RecentTurn] | None) -> tuple[str, ...]:
    """The words that name what is meant: the user's, and those of the model that the last turns bear out."""
    said, asked = wanted_words(words), wanted_words(query)
    if last is not None:
        text = "\n".join(f"{one.user}\n{one.robot}" for one in last)
        known = all_words(text)
        asked = tuple(one for one in asked if one in said or mentions(one, text, known))
    return tuple(dict.fromkeys((*(one for one in asked if one not in said), *said)))


def _of_others(memory: Memory, asker: Asker) -> bool:
    speakers = memory.speakers
    return asker.speaker is not None and bool(speakers) and asker.speaker not in speakers


def _short(told: dict[str, Any]) -> dict[str, Any]:
    kept = {name: told[name] for name in ("memory_id", "summary", "text") if name in told}
    return {
        name: f"{value[:_LEFT_CHARACTERS]}…" if len(value) > _LEFT_CHARACTERS else value for name, value in kept.items()
    }
