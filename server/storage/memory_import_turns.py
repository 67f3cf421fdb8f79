"""Writes the exchanges behind imported memories, those of one page, in the caller's transaction.

Words that are here already are taken instead of written again; those that were forgotten here come in blank. Knows no
memory.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Integer, Text, column, insert, table, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage import segments
from server.storage.memories import in_pages
from server.storage.memory_import_records import ForgottenHere, ImportedTurn, ImportedWords, Numbers
from server.storage.session_tables import SessionRow, SourceTurnRow, TurnRow
from server.storage.words import tokens

_Key = tuple[str, str, dt.datetime]
"""Session, side and time: nobody says two things at once."""
_SHOWN = {"user": "transcript", "robot": "reply"}
"""Where a turn shows what each side said."""


class TurnsOfPage:
    """`known`: which turn of ours a turn of the file has become, of the pages before; this one adds its own."""

    def __init__(
        self, db: AsyncSession, numbers: Numbers, forgotten: ForgottenHere, known: dict[int, int], *, now: dt.datetime
    ) -> None:
        self.sources: dict[int, int] = {}
        """Our numbers for the words of this page."""
        self.count = 0
        """Exchanges that were written."""
        self._db = db
        self._numbers = numbers
        self._forgotten = forgotten
        self._turns = known
        self._now = now
        self._ours_taken: frozenset[int] = frozenset()
        self._here: dict[_Key, tuple[int, int]] = {}
        self._sides: dict[tuple[int, str], int] = {}
        self._blank: set[int] = set()
        self._written: set[int] = set()

    async def write(self, turns: Sequence[ImportedTurn]) -> None:
        """Their words, each once; called once."""
        await self._look(turns)
        new_turns: dict[int, dict[str, Any]] = {}
        new_words: dict[int, dict[str, Any]] = {}
        for turn in turns:
            keys = {one.source_turn_id: (turn.session_id, one.role, one.said_at) for one in turn.said}
            number = next((self._here[key][0] for key in keys.values() if key in self._here), None)
            if number is None:
                number = self._turns.get(turn.turn_id, self._numbers.turns[turn.turn_id])
            if number not in self._written:
                self._written.add(number)
                new_turns[number] = self._turn_row(turn, number)
                if self._is_blanked(turn):
                    self._blank.add(number)
            self._turns[turn.turn_id] = number
            for one in turn.said:
                # Of each side a turn has one, whatever time the file gives it.
                source = self._sides.get((number, one.role))
                if source is None:
                    source = self._numbers.sources[one.source_turn_id]
                    new_words[source] = self._words_row(turn, one, number, source)
                    self._sides[number, one.role] = source
                self._here.setdefault(keys[one.source_turn_id], (number, source))
                self.sources[one.source_turn_id] = source
        for row in new_words.values():
            if (of := new_turns.get(row["turn_id"])) is not None:
                of[_SHOWN[row["role"]]] = row["text"]
        await add_rows(self._db, TurnRow, list(new_turns.values()))
        await add_rows(self._db, SourceTurnRow, list(new_words.values()))
        worded = [(number, row["text"]) for number, row in new_words.items() if row["text"]]
        await index_words(self._db, "source_words", worded)
        await self._say_in_turns([row for row in new_words.values() if row["turn_id"] not in new_turns])
        await self._take_in(new_turns.values())
        self.count += len(new_turns)

    async def _look(self, turns: Sequence[ImportedTurn]) -> None:
        """What was said in the sessions of these turns; sessions that are new are made."""
        for numbers in in_pages(sorted(self._forgotten.sources)):
            ours = select(SourceTurnRow.source_turn_id).where(col(SourceTurnRow.source_turn_id).in_(numbers))
            self._ours_taken |= set((await self._db.exec(ours)).all())
        sessions: dict[str, list[ImportedTurn]] = {}
        for turn in turns:
            sessions.setdefault(turn.session_id, []).append(turn)
        for page in in_pages(sorted(sessions)):
            said = select(SourceTurnRow).where(col(SourceTurnRow.session_id).in_(page))
            for row in (await self._db.exec(said.execution_options(populate_existing=True))).all():
                self._here[row.session_id, row.role, row.said_at] = (row.turn_id, row.source_turn_id)
                self._sides[row.turn_id, row.role] = row.source_turn_id
                self._written.add(row.turn_id)
                if row.role == "user" and not row.text:
                    self._blank.add(row.turn_id)
            there = select(SessionRow.session_id).where(col(SessionRow.session_id).in_(page))
            known = set((await self._db.exec(there)).all())
            await add_rows(self._db, SessionRow, [_session_row(sessions[one]) for one in page if one not in known])

    def _turn_row(self, turn: ImportedTurn, number: int) -> dict[str, Any]:
        same = ("session_id", "channel_id", "persona_id", "outcome", "input_kind", "emotion", "action")
        recalled = list(turn.recalled)
        told = {"searched": True, "memory_ids": recalled, "source_checked": False} if recalled else None
        return {name: getattr(turn, name) for name in (*same, "started_at", "ended_at")} | {
            "turn_id": number,
            "status": "failed" if turn.outcome == "failed" else "done",
            "language": turn.said[0].language,
            "transcript": None,
            "reply": None,
            "memory": None if self._is_blanked(turn) else told,
        }

    def _words_row(self, turn: ImportedTurn, words: ImportedWords, turn_id: int, number: int) -> dict[str, Any]:
        same = ("role", "speaker_id", "language", "visibility", "said_at", "zone", "audio_duration_ms", "interrupted")
        return {name: getattr(words, name) for name in same} | {
            "source_turn_id": number,
            "turn_id": turn_id,
            "session_id": turn.session_id,
            "channel_id": turn.channel_id,
            "text": "" if turn_id in self._blank or self._is_blanked(turn) else words.text,
        }

    def _is_blanked(self, turn: ImportedTurn) -> bool:
        """Its words, or a memory that was told in it, were forgotten here."""
        numbers = {one.source_turn_id for one in turn.said}
        # A number of ours that others have too: the words that have it here are not these, or they had been found.
        ours = numbers & self._forgotten.sources - self._ours_taken
        return bool(ours) or any(one in self._forgotten.memories for one in turn.recalled)

    async def _say_in_turns(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            turn = update(TurnRow).where(col(TurnRow.turn_id) == row["turn_id"])
            await change(self._db, turn.values({_SHOWN[row["role"]]: row["text"]}))

    async def _take_in(self, rows: Iterable[dict[str, Any]]) -> None:
        """Memories were made of them already."""
        sessions: dict[str, list[int]] = {}
        for row in rows:
            sessions.setdefault(row["session_id"], []).append(row["turn_id"])
        for session_id, turn_ids in sessions.items():
            await segments.close_segment(self._db, session_id, turn_ids, "memories", now=self._now)


async def change(db: AsyncSession, statement: Any) -> None:
    """An UPDATE whose rows nobody has loaded."""
    await db.exec(statement.execution_options(synchronize_session=False))


async def add_rows(db: AsyncSession, kind: Any, rows: Sequence[dict[str, Any]]) -> None:
    """INSERT them all in one statement."""
    if rows:
        # Else a value that is missing in one row and not in the next begins another statement.
        await db.exec(insert(kind).execution_options(render_nulls=True), params=list(rows))


async def index_words(db: AsyncSession, name: str, texts: Sequence[tuple[int, str]]) -> None:
    """Put new texts into a word index."""
    if bodies := [{"rowid": number, "body": " ".join(tokens(text))} for number, text in texts]:
        words = table(name, column("rowid", Integer), column("body", Text))
        await db.exec(insert(words), params=bodies)


def _session_row(turns: Sequence[ImportedTurn]) -> dict[str, Any]:
    ended = max(turn.ended_at for turn in turns)
    return {
        "session_id": turns[0].session_id,
        "channel_id": turns[0].channel_id,
        "opened_at": min(turn.started_at for turn in turns),
        "last_active_at": ended,
        "closed_at": ended,
        "close_reason": "idle",
    }
