"""The names each conversation's ears should expect, at hand: looked up after a turn, given at once before the next.

Nothing here is kept beyond the process, and after a forgetting nothing of before. What the names are is the matter of
`hot_words.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from server.memory.hot_words import HotWords
from server.memory.recall import Recall
from server.memory.recall_records import SearchQuery
from server.storage import turns
from server.storage.database import Databases

Key = TypeVar("Key")
_SESSIONS = 64
_SPEAKERS = 16
_TURNS_LOOKED_AT = 6


class NamesToHear:
    """By session and speaker: what one may expect from a person is not listened for when a stranger speaks."""

    def __init__(self, databases: Databases, recall: Recall) -> None:
        self._databases = databases
        self._hot_words = HotWords(lambda: databases.world(write=False), recall)
        self._of_session: dict[tuple[str, str | None], tuple[str, ...]] = {}
        self._newest: dict[str | None, tuple[str, ...]] = {}
        self._forgotten = 0

    def known(self, session_id: str, speaker: str | None) -> tuple[str, ...]:
        """Names, the most likely first; of a new conversation those that were talked about last."""
        found = self._of_session.get((session_id, speaker))
        return found if found is not None else self._newest.get(speaker, self._newest.get(None, ()))

    async def refresh(self, query: SearchQuery) -> None:
        """Look them up for the session that `query` names in `except_session_id`, and for new ones. Raises nothing of
        the memory; `StorageError`.
        """
        session_id = query.except_session_id
        assert session_id is not None
        before = self._forgotten
        async with self._databases.world(write=False) as db:
            recent = await turns.recent_source_turns(db, session_id, _TURNS_LOOKED_AT)
        said = [turn.text for turn in recent if turn.role == "user" and turn.speaker_id == query.speaker]
        names = await self._hot_words.near(said, query)
        if before == self._forgotten:
            _put(self._of_session, (session_id, query.speaker), names, _SESSIONS)
        await self.refresh_newest(query)

    async def refresh_newest(self, query: SearchQuery) -> None:
        """Look up what this speaker's next conversation may begin with."""
        before = self._forgotten
        names = await self._hot_words.near((), replace(query, except_session_id=None))
        if before == self._forgotten:
            _put(self._newest, query.speaker, names, _SPEAKERS)

    def clear(self) -> None:
        """Something was forgotten."""
        self._forgotten += 1
        self._of_session.clear()
        self._newest.clear()


def _put(known: dict[Key, tuple[str, ...]], key: Key, names: tuple[str, ...], most: int) -> None:
    known.pop(key, None)
    known[key] = names
    while len(known) > most:
        del known[next(iter(known))]
