"""A new memory beside the ones that may be about the same: finds them, compares vectors, and has it decided.

Reads only; what is decided is carried out by the keeper, and by what rules in `contradiction.py`.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from server.engines.base import EmbeddingEngine
from server.errors import MemoryIndexError
from server.events import Samples
from server.memory.contradiction import (
    Decision,
    KeepRecipe,
    Proposal,
    day_of,
    decide,
    names,
    of_another_person,
    says_no_more,
)
from server.memory.dates import named_days
from server.memory.index.base import IndexFilter, MemoryIndex
from server.memory.indexer import document_text, memory_text
from server.memory.restating import PutRight, restated, with_words
from server.storage import memories, memory_lookup
from server.storage.database import Databases
from server.storage.memory_records import Memory, MemoryFilter, NewMemory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    memory: NewMemory
    decision: Decision
    compared: tuple[Memory, ...]
    """As they were then; if one has changed since, the decision is void."""


class Neighbours:
    """`index` None: vectors are all made anew, and a memory that names nothing is compared with none."""

    def __init__(
        self, databases: Databases, index: MemoryIndex | None, embedding: EmbeddingEngine, recipe: KeepRecipe
    ) -> None:
        self.index = index
        self._databases = databases
        self._embedding = embedding
        self._recipe = recipe

    async def judge(self, proposals: Sequence[Proposal]) -> list[Judged]:
        """What to do with each proposal of one segment; repeated ones are joined. Raises `EmbeddingError`."""
        together, vectors = await self._without_repetition(proposals)
        return [await self._judge(one, vector) for one, vector in zip(together, vectors, strict=True)]

    async def _without_repetition(self, proposals: Sequence[Proposal]) -> tuple[list[Proposal], list[Samples]]:
        """Proposals with their vectors; what one segment says twice is one, with the sources of both."""
        texts = [document_text(one.memory.topic, one.memory.summary) for one in proposals]
        vectors = list(await self._embedding.embed_documents(texts)) if texts else []
        kept: list[Proposal] = []
        of_kept: list[Samples] = []
        for proposal, vector in zip(proposals, vectors, strict=True):
            for place, (other, near) in enumerate(zip(kept, of_kept, strict=True)):
                alike = float(vector @ near) >= self._recipe.duplicate
                if (
                    alike
                    and not of_another_person(proposal.memory, other.memory)
                    and says_no_more(proposal.memory, other.memory)
                ):
                    kept[place] = _joined(other, proposal)
                    break
            else:
                kept.append(proposal)
                of_kept.append(vector)
        return kept, of_kept

    async def _judge(self, proposal: Proposal, vector: Samples) -> Judged:
        candidates = await self._candidates(proposal, vector)
        known = await self._known_vectors(candidates)
        missing = [memory for memory in candidates if memory.memory_id not in known]
        if missing:
            made = await self._embedding.embed_documents([memory_text(memory) for memory in missing])
            known |= {memory.memory_id: one for memory, one in zip(missing, made, strict=True)}
        scored = [(memory, float(vector @ known[memory.memory_id])) for memory in candidates]
        decision = decide(proposal, scored, self._recipe)
        replaced = next((one for one in candidates if one.memory_id in decision.supersedes), None)
        corrects = proposal.corrects or bool(proposal.told)
        memory = proposal.memory
        if replaced and proposal.put_right and (anew := told_anew(memory, replaced, proposal.put_right)):
            memory = anew
        elif replaced and corrects:
            memory = _about_the_same(memory, replaced)
        return Judged(memory, decision, tuple(candidates))

    async def _candidates(self, proposal: Proposal, vector: Samples) -> list[Memory]:
        """Active memories that may be about the same, of the same people: by names, by recall, else the nearest."""
        new, limit = proposal.memory, self._recipe.candidates
        keys = tuple(sorted(names(new)))
        wanted = MemoryFilter(new.persona_id, new.speakers[0] if new.speakers else None, entity_keys=keys)
        near = [] if keys else await self._nearest(replace(wanted, entity_keys=()), new, vector)
        async with self._databases.world(write=False) as db:
            sharing = await memory_lookup.sharing_entities(db, wanted, limit=4 * limit) if keys else []
            others = await memories.get_many(db, [*proposal.recalled, *near])
        found = {one.memory_id: one for one in (*others, *sharing) if _belongs_with(one, new)}
        return list(found.values())[: 2 * limit]

    async def _nearest(self, wanted: MemoryFilter, new: NewMemory, vector: Samples) -> list[str]:
        if self.index is None:
            return []
        try:
            if self.index.takes_filters:
                where = IndexFilter(status=("active",), persona_id=(new.persona_id,), visibility=(new.visibility,))
                hits = await self.index.search(vector, limit=self._recipe.candidates, where=where)
            else:
                async with self._databases.world(write=False) as db:
                    among = await memory_lookup.narrow(db, wanted)
                hits = await self.index.search(vector, limit=self._recipe.candidates, only=among) if among else []
        except MemoryIndexError as error:
            _log.warning("a new memory was not compared with its nearest: %s", error.code)
            return []
        return [hit.memory_id for hit in hits]

    async def _known_vectors(self, candidates: Sequence[Memory]) -> dict[str, Samples]:
        indexed = [memory.memory_id for memory in candidates if memory.index_state == "indexed"]
        if self.index is None or not indexed:
            return {}
        try:
            return await self.index.vectors(indexed)
        except MemoryIndexError as error:
            _log.warning("vectors are made anew: %s", error.code)
            return {}


def told_anew(new: NewMemory, replaced: Memory, said: PutRight) -> NewMemory | None:
    """The older statement with the value that was put right, instead of the bare value; None where it has no such one.

    Its sources are those of both: the words around the value were said then, the value now.
    """
    made = restated(replaced.summary, day_of(replaced), said)
    if made is None:
        return None
    when, zone = replaced.occurred_at, replaced.zone
    if made.days:
        when, zone = _when(made.text, new, replaced), new.zone
    return replace(
        new,
        topic=with_words(replaced.topic, made),
        summary=made.text,
        entities=tuple(dict.fromkeys(with_words(name, made) for name in replaced.entities)),
        memory_type=replaced.memory_type,
        occurred_at=when,
        zone=zone,
        language=replaced.language,
        speakers=tuple(dict.fromkeys((*replaced.speakers, *new.speakers))),
        confidence=replaced.confidence,
        importance=max(replaced.importance, new.importance),
        source_turn_ids=tuple(sorted({*replaced.source_turn_ids, *new.source_turn_ids})),
    )


def _when(text: str, new: NewMemory, replaced: Memory) -> dt.datetime:
    """Noon of the day it names where that is over, else when it was put right: what its days are counted from."""
    said_on = day_of(new)
    days = {(one.first, one.last) for one in named_days(text, said_on)}
    if replaced.memory_type == "episode" and len(days) == 1:
        first, last = days.pop()
        if first == last < said_on:
            return dt.datetime.combine(first, dt.time(12), ZoneInfo(new.zone))
    return new.occurred_at


def _about_the_same(new: NewMemory, replaced: Memory) -> NewMemory:
    """What says only 違う、二万五千円 is about what it replaces: without that it would not be found."""
    if names(new) & names(replaced):
        return new
    topic = replaced.topic if new.topic in new.summary or not new.entities else f"{replaced.topic} {new.topic}"
    return replace(new, topic=topic, entities=tuple(dict.fromkeys((*replaced.entities, *new.entities))))


def _belongs_with(memory: Memory, new: NewMemory) -> bool:
    """Whether one may replace or repeat the other: active, of one character, and for the same ears."""
    if memory.status != "active" or (memory.persona_id, memory.visibility) != (new.persona_id, new.visibility):
        return False
    return new.visibility == "house" or set(memory.speakers) == set(new.speakers)


def _joined(one: Proposal, other: Proposal) -> Proposal:
    memory = one.memory
    turns = tuple(dict.fromkeys((*memory.source_turn_ids, *other.memory.source_turn_ids)))
    people = tuple(dict.fromkeys((*memory.speakers, *other.memory.speakers)))
    memory = replace(memory, source_turn_ids=turns, speakers=people)
    return replace(one, memory=memory, corrects=one.corrects or other.corrects, told=one.told or other.told)
