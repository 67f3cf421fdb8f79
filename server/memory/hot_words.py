"""Names the ear should expect: those in the memories nearest to what is being talked about.

Asks `Recall` as any search does, so nothing private reaches a stranger's ear. Knows no ASR; whether a word is used is
the engine's to guard.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from server.errors import StackChanError
from server.memory.recall import OpenWorld, Recall
from server.memory.recall_records import SearchQuery
from server.storage import memory_lookup
from server.storage.memory_records import MemoryFilter
from server.storage.words import entity_key

MOST_HOT_WORDS = 20
_MEMORIES = 20
_LONGEST_WORD = 24
_SHORTEST_WORD = 2
_log = logging.getLogger(__name__)


class HotWords:
    """Looks them up, after each turn; cheap enough for that (one search), and never in front of a reply."""

    def __init__(self, open_world: OpenWorld, recall: Recall) -> None:
        self._open_world = open_world
        self._recall = recall

    async def near(self, said: Iterable[str], query: SearchQuery, *, limit: int = MOST_HOT_WORDS) -> tuple[str, ...]:
        """Names for the next utterance, most relevant first.

        `said`: the last things the user said in this session, oldest first; with nothing said or found the newest
        memories tell. `query` says who speaks, when and where; its text is not used. A memory that cannot be reached
        gives none.
        """
        text = "\n".join(words for words in said if words.strip())
        try:
            memory_ids = await self._nearest(text, query) if text else []
            memory_ids = memory_ids or await self._newest(query)
            async with self._open_world() as db:
                names = await memory_lookup.entities_near(db, memory_ids, limit=4 * limit)
        except StackChanError as error:
            _log.warning("no hot words: %s", error.code)
            return ()
        return tuple(name for name in names if is_hot_word(name))[:limit]

    async def _nearest(self, text: str, query: SearchQuery) -> list[str]:
        asked = SearchQuery(
            text[-400:],
            query.persona,
            query.speaker,
            query.now,
            query.zone,
            limit=_MEMORIES,
            except_session_id=query.except_session_id,
        )
        found = await self._recall.search(asked)
        return [one.memory.memory_id for one in found.candidates]

    async def _newest(self, query: SearchQuery) -> list[str]:
        async with self._open_world() as db:
            ids = await memory_lookup.narrow(db, MemoryFilter(query.persona, query.speaker))
        # Ids sort by when they were made.
        return sorted(ids, reverse=True)[:_MEMORIES]


def is_hot_word(name: str) -> bool:
    """Whether a name can help an ear: of a word's length, and not a number alone."""
    key = entity_key(name)
    return _SHORTEST_WORD <= len(key) <= _LONGEST_WORD and any(character.isalpha() for character in key)
