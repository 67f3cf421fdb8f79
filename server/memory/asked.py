"""Memory as a turn's tools ask it: for somebody, in a turn.

The tools read arguments and write results (`tools.py`), the parts search, read and forget; this is between them: it
says who asks, and bounds what they may reach. Knows no model and no prompt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from server.engines.base import EmbeddingEngine
from server.errors import EmbeddingError, NotFoundError
from server.events import Samples
from server.memory.asking import Asker
from server.memory.besides import nothing_of, told_besides, told_with_request
from server.memory.check import is_filler
from server.memory.clock_questions import clock_question
from server.memory.forget_tool import ForgetMemory, Talk
from server.memory.forget_words import asks_to_forget, parted
from server.memory.keeper import Forgotten, Keeper
from server.memory.nearness import Nearness
from server.memory.question_words import needs_what_was_said, telling_words
from server.memory.recall import Recall
from server.memory.recall_records import SearchQuery, SearchResult
from server.memory.recent_talk import recent_turns
from server.memory.telling import tells, written_in
from server.memory.to_the_point import to_the_point
from server.memory.tool_results import DEFAULT_LIMITS, SMALL_MODEL_LIMITS
from server.memory.tools import (
    FORGET_MEMORY_SHORT,
    READ_MEMORY_SOURCE_SHORT,
    SEARCH_MEMORY,
    SEARCH_MEMORY_FULL,
    ForgetMemories,
    Offer,
    ReadMemorySource,
    ReadSource,
    SearchArguments,
    SearchMemories,
    SearchMemory,
)
from server.memory.wishes import is_of_their_life, wants_to_know
from server.storage import memories, memory_browse, memory_lookup, turns, word_index
from server.storage.database import Databases
from server.storage.memory_records import Memory, MemoryFilter, SourceFilter
from server.storage.records import SourceTurn

MemoryTool = SearchMemory | ReadMemorySource | ForgetMemory
SearchOutcome = Literal["found", "nothing", "late", "failed"]
OnSearch = Callable[[SearchOutcome, float], None]
"""Told of every search of a model: how it went (`late`: it was given up), and its seconds."""

MENTIONED_LOG_ODDS, UNMENTIONED_LOG_ODDS = 1.75, -1.25
"""Of 191 Japanese questions about 81 memories 65 % share a telling word with one, of 115 other utterances 24 %. Chosen
with the small model's bias, whose log-odds are on a scale of their own, on development utterances. A search for nothing
costs seconds; asked for what it does not know, and not searching, the model makes it up: so away it leans less.
"""
_LOG_ODDS_PER_WIDTH = 5.0
_MOST_MEANT_LOG_ODDS = 4.0
"""Of a memory that is nearer than `Nearness.meant` the words speak, perhaps in other words. With E5 (0.825; a width is
0.05) 30 questions about 30 memories (half English) have one at 0.80 to 0.91, questions about the world at 0.74 to 0.81,
what is told or felt at 0.76 to 0.86, but that the model itself tells from a question. Asked first in a conversation and
after four exchanges, 7 of 60 were not searched for and 10 of 60 others were; with a step at 0.86, 19 and 5 (all on
development utterances).
"""
_ASKED_LOG_ODDS = 2.0
"""More for a question that is near to a memory: not searching, the model makes the answer up."""
OF_THEIR_LIFE_LOG_ODDS = 5.0
"""Of a question about who asks, which nobody but memory can answer; with 2.8 one of 12 was not searched for."""
TOLD_LOG_ODDS = -4.0
"""What tells something and asks nothing needs no search, however near it is to what was told before."""
OF_THE_CLOCK_LOG_ODDS = -2.5
_NEARER_WIDTHS = 0.2
_LOG_ODDS_PER_NEARER_WIDTH = 10.0
_LIKE_THE_CLOCK_WIDTHS = 0.6
"""What is nearer to the date than to any memory is asked of the clock: 9 of 9 such questions, by 0.01 to 0.05, also
beside memories full of dates; the 30 questions about memories are nearer to one of those, by 0.02 to 0.13. Where there
are none, what is so near to the date."""


_QUESTION_CHARACTERS = 500
_CLOCK_EN = "It is {0:%A}, {0:%B} {0.day}, {0.year}, {0.hour}:{0.minute:02}."
_CLOCK_JA = "今は{0.year}年{0.month}月{0.day}日 {1}曜日 {0.hour}時{0.minute}分。"


def memory_tools(
    search: SearchMemories,
    offer: Offer,
    read: ReadSource,
    forget: ForgetMemories,
    *,
    small: bool,
    talk: Talk | None = None,
    answering: SearchMemories | None = None,
) -> tuple[MemoryTool, ...]:
    """Search, read, forget, as a model is offered them. `small`: with short specs and short results. `talk`: what
    forgetting knows of the conversation in progress. `answering`: what a model searches with for its answer, instead.
    """
    if small:
        limits = SMALL_MODEL_LIMITS
        return (
            SearchMemory(answering or search, offer, spec=SEARCH_MEMORY, limits=limits),
            ReadMemorySource(read, spec=READ_MEMORY_SOURCE_SHORT, limits=limits),
            ForgetMemory(search, forget, talk=talk, spec=FORGET_MEMORY_SHORT, limits=limits),
        )
    return (
        SearchMemory(answering or search, offer, spec=SEARCH_MEMORY_FULL, limits=DEFAULT_LIMITS),
        ReadMemorySource(read),
        ForgetMemory(search, forget, talk=talk),
    )


class AskedMemory:
    """`in_hand`: turns that are forgetting now. `near`: how near a memory is that is spoken of in other words; None:
    the cosines tell nothing. What may be meant by a request to forget is asked about by them only if they are known
    from the beginning."""

    def __init__(
        self,
        databases: Databases,
        recall: Recall,
        keeper: Keeper,
        *,
        near: Nearness | None = None,
        embedding: EmbeddingEngine | None = None,
        on_search: OnSearch | None = None,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.in_hand: set[int] = set()
        self._databases = databases
        self._recall = recall
        self._keeper = keeper
        self.near = near
        self._embedding = embedding
        self._clock: tuple[str, Samples] = "", np.zeros(0, np.float32)
        self._on_search = on_search
        self._monotonic = monotonic
        self._talk = Talk(partial(recent_turns, databases), self.forget_told, None if near is None else near.perhaps)

    def tools(self, *, small: bool) -> tuple[MemoryTool, ...]:
        """Search, read, forget. `small`: with a short spec and short results, for models that read slowly."""
        # Others decide by themselves, and need not wait for it.
        offer = partial(self.offer_search, by_meaning=small)
        answering = self.search_for_answer if small else partial(self.search, rerank=True)
        return memory_tools(
            self.search, offer, self.read, self.forget, small=small, talk=self._talk, answering=answering
        )

    async def search(self, arguments: SearchArguments, asker: Asker, *, rerank: bool = False) -> SearchResult:
        """What is remembered for it. Raises as `Recall.search`; whoever calls limits its time."""
        query = replace(
            query_of(asker, arguments.query),
            entities=arguments.entities,
            date_from=arguments.date_from,
            date_to=arguments.date_to,
            memory_type=arguments.memory_type,
            limit=arguments.limit,
            history=arguments.history,
            rerank=rerank,
        )
        started = self._monotonic()
        outcome: SearchOutcome = "failed"
        try:
            result = await self._recall.search(query)
            outcome = "found" if result.candidates or result.said else "nothing"
            return result
        except asyncio.CancelledError:
            outcome = "late"
            raise
        finally:
            if self._on_search is not None:
                self._on_search(outcome, self._monotonic() - started)

    async def search_for_answer(self, arguments: SearchArguments, asker: Asker) -> SearchResult:
        """As `search`, for a small model: with the words of the user, and only what may answer them, in short.

        Its own words for them are often odd ones. They help where the user's point back or name nothing: of 22 such
        questions the user's words found 16, both together 22; of 20 others the user's found 20, and with the price of
        another thing beside them 8 to 14 (E5, written for it).
        """
        words = asker.words
        if needs_what_was_said(words):
            words = f"{words} {arguments.query}"
        words = words[:_QUESTION_CHARACTERS]
        result = await self.search(replace(arguments, query=words), asker, rerank=True)
        return await to_the_point(result, words, self._embedding, self.near)

    async def offer_search(self, asker: Asker, *, by_meaning: bool = True) -> float | None:
        """None while nothing is remembered, and nothing was said in another conversation, that the asker may find.

        A memory that mentions what they speak of makes a search likelier, and none less likely. `by_meaning`: the
        nearer one is in meaning, too, and a question about who asks does; and there is none for a greeting, and hardly
        one for what is told. What asks the clock asks no memory.
        """
        if by_meaning and (is_filler([asker.words]) or clock_question(asker.words) is not None):
            return None
        memories_of = MemoryFilter(asker.persona, asker.speaker)
        said = SourceFilter(asker.persona, asker.speaker, except_session_id=asker.session_id)
        async with self._databases.world(write=False) as db:
            if not await memory_lookup.anything(db, memories_of, said):
                return None
            mentioned = await word_index.is_mentioned(db, telling_words(asker.words), memories_of)
        by_words = MENTIONED_LOG_ODDS if mentioned else UNMENTIONED_LOG_ODDS
        if not by_meaning:
            return by_words
        if _only_tells(asker):
            return TOLD_LOG_ODDS
        asks = wants_to_know(asker.words)
        if asks and is_of_their_life(asker.words):
            return OF_THEIR_LIFE_LOG_ODDS
        if self.near is None:
            return by_words
        try:
            clock = await self._cosine_of_the_clock(asker)
        except EmbeddingError:
            return by_words
        near = await self._recall.search(query_of(asker, asker.words))
        cosines = [one.retrieval_score for one in near.candidates if one.retrieval_score is not None]
        nearest = max(cosines, default=self.near.meant + _LIKE_THE_CLOCK_WIDTHS * self.near.width)
        nearer = (nearest - clock) / self.near.width
        if nearer < 0:
            return OF_THE_CLOCK_LOG_ODDS
        if not cosines:
            return by_words
        by_cosine = _LOG_ODDS_PER_WIDTH * (nearest - self.near.meant) / self.near.width
        by_clock = _LOG_ODDS_PER_NEARER_WIDTH * (nearer - _NEARER_WIDTHS)
        asked = _ASKED_LOG_ODDS if asks and nearest >= self.near.meant else 0.0
        return max(by_words, min(_MOST_MEANT_LOG_ODDS, by_cosine, by_clock) + asked)

    async def _cosine_of_the_clock(self, asker: Asker) -> float:
        """How near the words are to what a clock says, in their language."""
        if self._embedding is None:
            return 0.0
        at = asker.asked_at.astimezone(asker.zone).replace(minute=0)
        japanese = written_in(asker.words) == "ja"
        hour = _CLOCK_JA.format(at, "月火水木金土日"[at.weekday()]) if japanese else _CLOCK_EN.format(at)
        if self._clock[0] != hour:
            self._clock = hour, (await self._embedding.embed_documents([hour]))[0]
        return float(np.dot((await self._embedding.embed_queries([asker.words]))[0], self._clock[1]))

    async def read(
        self, memory_id: str | None, turn_ids: tuple[int, ...], around: int, asker: Asker
    ) -> Sequence[SourceTurn]:
        """The exact words. Raises `NotFoundError`, as `Recall.read_source`."""
        query = query_of(asker, asker.words)
        return await self._recall.read_source(query, memory_id=memory_id, source_turn_ids=turn_ids, around=around)

    async def forget(self, memory_ids: tuple[str, ...], asker: Asker) -> Mapping[str, Any]:
        """Forget those that the asker may find, with their words, and with what is said in this turn.

        `{"forgotten": n}`, with how much is `still_found` if anything is. Raises `NotFoundError` when they are not
        there for the asker.
        """
        return await self.forget_told(memory_ids, (), asker)

    async def forget_told(
        self, memory_ids: tuple[str, ...], turn_ids: tuple[int, ...], asker: Asker
    ) -> Mapping[str, Any]:
        """As `forget`, with exchanges of which no memory has been made yet."""
        async with self._databases.world(write=False) as db:
            there = await memories.get_many(db, memory_ids)
        allowed = [one.memory_id for one in there if one.may_be_found_by(asker.persona, asker.speaker)]
        if not allowed and not turn_ids:
            raise NotFoundError("There is no such memory.", hint="Search for it first.")
        await self._keep_what_else_was_told(asker, turn_ids, [one for one in there if one.memory_id in allowed])
        forgotten = await self._forget(allowed, asker.turn_id, turn_ids)
        left = {"still_found": len(forgotten.still_found)} if forgotten.still_found else {}
        return {"forgotten": len(allowed) + len(turn_ids), **left}

    async def _keep_what_else_was_told(self, asker: Asker, turn_ids: Sequence[int], going: Sequence[Memory]) -> None:
        """As memories of their own, before the words go: in the request itself, and in exchanges that are in none.

        Nothing at all when anything of it has a name, thing or number of what goes.
        """
        requests = {asker.turn_id}
        async with self._databases.world(write=False) as db:
            if not asks_to_forget(asker.words):
                # "Both" answers what was asked about the request before it.
                last = await turns.recent_source_turns(db, asker.session_id, 3)
                requests |= {one.turn_id for one in last if one.turn_id < asker.turn_id}
            said = await memory_browse.words_of_turns(db, [*turn_ids, *requests])
        user = [one for one in said if one.role == "user"]
        asking = [one for one in user if one.turn_id in requests]
        told = [one for one in user if one.turn_id not in requests]
        texts = [f"{one.topic}\n{one.summary}\n{' '.join(one.entities)}" for one in going]
        words = "\n".join(parted(one.text)[0] for one in asking)
        with_request = [proposal for one in asking for proposal in told_with_request(asker.persona, one)]
        if not nothing_of(with_request, [*texts, *(one.text for one in told)], words):
            with_request = []
        besides = [proposal for one in told for proposal in told_besides(asker.persona, one, asker.words)]
        if not nothing_of(besides, texts, ""):
            besides = []
        if with_request or besides:
            await self._keeper.keep_besides([*with_request, *besides])

    async def forget_turn(self, turn_id: int) -> None:
        """Blank a turn that has ended and in which something was forgotten: its words name what that was."""
        await self._forget([], turn_id)

    async def _forget(self, memory_ids: Sequence[str], turn_id: int, told: Sequence[int] = ()) -> Forgotten:
        with self._holding(turn_id):
            meanwhile = bool(memory_ids or told)
            return await self._keeper.forget(memory_ids, also_turn_ids=[*told, turn_id], made_meanwhile=meanwhile)

    @contextmanager
    def _holding(self, turn_id: int) -> Iterator[None]:
        self.in_hand.add(turn_id)
        try:
            yield
        finally:
            self.in_hand.discard(turn_id)


def _only_tells(asker: Asker) -> bool:
    """Whether the words tell something that may matter later, and ask nothing."""
    said_on = asker.asked_at.astimezone(asker.zone).date()
    words = asker.words[:_QUESTION_CHARACTERS]
    return tells(words, said_on, asker.language) and not wants_to_know(words)


def query_of(asker: Asker, text: str) -> SearchQuery:
    """A question of somebody, who has the conversation in progress before their eyes."""
    return SearchQuery(
        text, asker.persona, asker.speaker, asker.asked_at, asker.zone, except_session_id=asker.session_id
    )
