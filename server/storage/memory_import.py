"""Writes memories from elsewhere, with the exact words they came from, into a world, all in the caller's transaction.

What is here already is left alone, what was forgotten here stays forgotten, and a number that was ever given out here
is never used again. Knows no file format. The order is the caller's: `take_numbers`, committed -> `MemoryImport`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Integer, Text, column, func, insert, table, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage import segments, tombstones
from server.storage.ids import SOURCE_TURN_IDS, TURN_IDS, raise_counters, reserve_ids
from server.storage.memories import in_pages
from server.storage.memory_import_records import (
    Imported,
    ImportedChannel,
    ImportedMemory,
    ImportedTurn,
    ImportedWords,
    Numbers,
)
from server.storage.recall_tables import (
    JobRow,
    RecallEntityRow,
    RecallItemRow,
    RecallSourceRow,
    RecallSpeakerRow,
)
from server.storage.server_tables import IdCounterRow
from server.storage.session_tables import (
    ChannelKind,
    ChannelRow,
    SessionRow,
    SourceTurnRow,
    TurnRow,
    Visibility,
)
from server.storage.word_index import memory_body
from server.storage.words import entity_key, tokens

_Key = tuple[str, str, dt.datetime]
"""Session, side and time: nobody says two things at once."""
_SHOWN = {"user": "transcript", "robot": "reply"}
"""Where a turn shows what each side said."""
_FARTHEST_NUMBER = 10_000_000
"""A number so far above all others is not kept: it would use up the numbers of a house."""


async def take_numbers(
    server_db: AsyncSession, *, turn_ids: Collection[int], source_turn_ids: Collection[int], memory_ids: Collection[str]
) -> Numbers:
    """Numbers for the turns of a file: their own where nobody has had them here, else new ones in the same order."""
    memories, sources = await tombstones.applies_to(server_db, memory_ids=memory_ids, source_turn_ids=source_turn_ids)
    return Numbers(
        turns=await _take(server_db, TURN_IDS, turn_ids),
        sources=await _take(server_db, SOURCE_TURN_IDS, source_turn_ids),
        forgotten_memories=memories,
        forgotten_sources=sources,
    )


class MemoryImport:
    """One import into one world. `versions`: {older: newer} of the whole file."""

    def __init__(self, db: AsyncSession, numbers: Numbers, versions: Mapping[str, str], *, now: dt.datetime) -> None:
        self.done = Imported()
        self._db = db
        self._numbers = numbers
        self._versions = versions
        self._now = now
        self._known: dict[str, str] = {}
        self._fates: dict[str, bool] = {}
        self._file_ids: frozenset[str] = frozenset()
        self._taken: frozenset[int] = frozenset()
        self._channels: set[str] = set()
        self._here: dict[_Key, tuple[int, int]] = {}
        self._sides: dict[tuple[int, str], int] = {}
        self._blank: set[int] = set()
        self._sessions: set[str] = set()
        self._turns: dict[int, int] = {}
        self._sources: dict[int, int] = {}
        self._next_item = 0
        self._replaced: list[tuple[str, str]] = []

    async def begin(self, memory_ids: Collection[str], channels: Iterable[ImportedChannel]) -> None:
        """Look what is here, and make the channels that are new. `memory_ids`: all of the file."""
        item = RecallItemRow
        for page in in_pages(sorted({*memory_ids, *self._versions.values()})):
            there = select(item.memory_id, item.status).where(col(item.memory_id).in_(page))
            self._known |= dict((await self._db.exec(there)).all())
        self._file_ids = frozenset(memory_ids)
        self._next_item = ((await self._db.exec(select(func.max(col(item.item_id))))).one() or 0) + 1
        self._channels = set((await self._db.exec(select(ChannelRow.channel_id))).all())
        taken: set[int] = set()
        for numbers in in_pages(sorted(self._numbers.forgotten_sources)):
            ours = select(SourceTurnRow.source_turn_id).where(col(SourceTurnRow.source_turn_id).in_(numbers))
            taken |= set((await self._db.exec(ours)).all())
        self._taken = frozenset(taken)
        await self._make_channels([one for one in channels if one.channel_id not in self._channels])

    async def write(self, batch: Sequence[ImportedMemory]) -> None:
        """The next memories of the file."""
        fresh = [memory for memory in batch if self._is_new(memory.memory_id)]
        used = {(turn.channel_id, turn.said[0].visibility) for memory in fresh for turn in memory.turns}
        await self._need_channels(used | {(memory.channel_id, memory.visibility) for memory in fresh})
        await self._write_turns([turn for memory in fresh for turn in memory.turns])
        items, words, entities, speakers, sources, jobs = [], [], [], [], [], []
        for memory in fresh:
            item = self._item(memory)
            items.append(item)
            words.append((item["item_id"], memory_body(memory.topic, memory.summary, item["entities"])))
            own = {"memory_id": memory.memory_id}
            entities += [own | {"entity_key": key} for key in sorted(map(entity_key, item["entities"]))]
            speakers += [own | {"speaker_id": speaker} for speaker in item["speakers"]]
            turns = {self._sources[one.source_turn_id] for turn in memory.turns for one in turn.said}
            sources += [own | {"source_turn_id": number} for number in sorted(turns)]
            jobs.append(_index_job(memory.memory_id, self._now))
            if memory.superseded_by is not None:
                self._replaced.append((memory.memory_id, memory.superseded_by))
        await self._insert(RecallItemRow, items)
        await self._insert(RecallEntityRow, entities)
        await self._insert(RecallSpeakerRow, speakers)
        await self._insert(RecallSourceRow, sources)
        await self._insert(JobRow, jobs)
        await self._index_words("recall_words", words)
        self.done.imported += [memory.memory_id for memory in fresh]

    async def finish(self) -> Imported:
        """The last step: which memory has replaced which."""
        for older, newer in self._replaced:
            replaced = update(RecallItemRow).where(col(RecallItemRow.memory_id) == older)
            await self._change(replaced.values(superseded_by=newer))
        return self.done

    def _is_new(self, memory_id: str) -> bool:
        if self._known.get(memory_id, "forgotten") != "forgotten":
            self.done.already_there.append(memory_id)
            return False
        if self._is_forgotten(memory_id):
            self.done.forgotten.append(memory_id)
            return False
        return True

    def _is_forgotten(self, memory_id: str) -> bool:
        """Here, or the newest version of it; also when that was left out of the file, which only forgetting does."""
        chain: list[str] = []
        while memory_id not in self._fates:
            chain.append(memory_id)
            newer = self._versions.get(memory_id)
            if memory_id in self._numbers.forgotten_memories or self._known.get(memory_id) == "forgotten":
                self._fates[memory_id] = True
            elif memory_id in self._known or newer is None:
                self._fates[memory_id] = False
            elif newer not in self._versions and newer not in self._known and newer not in self._file_ids:
                self._fates[memory_id] = True
            else:
                memory_id = newer
        fate = self._fates[memory_id]
        self._fates |= dict.fromkeys(chain, fate)
        return fate

    def _item(self, memory: ImportedMemory) -> dict[str, Any]:
        names: dict[str, str] = {}
        for name in memory.entities:
            if key := entity_key(name.strip()):
                names.setdefault(key, name.strip())
        number, self._next_item = self._next_item, self._next_item + 1
        same = ("memory_id", "memory_type", "occurred_at", "zone", "status", "language", "confidence", "importance")
        more = ("persona_id", "channel_id", "visibility", "created_at", "updated_at")
        return {name: getattr(memory, name) for name in same + more} | {
            "item_id": number,
            "topic": memory.topic.strip(),
            "summary": memory.summary.strip(),
            "entities": list(names.values()),
            "speakers": list(dict.fromkeys(memory.speakers)),
            "index_state": "pending",
            "revision": 1,
            "attempts": 0,
        }

    async def _make_channels(self, new: Sequence[ImportedChannel]) -> None:
        made = {one.channel_id: one for one in new}
        self._channels |= made.keys()
        same = ("channel_id", "kind", "private", "created_at")
        await self._insert(ChannelRow, [{name: getattr(one, name) for name in same} for one in made.values()])
        for one in made.values():
            if one.parent_channel_id in self._channels:
                child = update(ChannelRow).where(col(ChannelRow.channel_id) == one.channel_id)
                await self._change(child.values(parent_channel_id=one.parent_channel_id))

    async def _need_channels(self, used: Iterable[tuple[str, Visibility]]) -> None:
        """Channels that the file does not describe, as those made while it was written."""
        missing = {channel_id: seen for channel_id, seen in used if channel_id not in self._channels}
        kinds: dict[str, ChannelKind] = {"stackchan": "stackchan", "web": "web"}
        await self._make_channels(
            [
                ImportedChannel(one, kinds.get(one.partition(":")[0], "pool"), seen == "private", None, self._now)
                for one, seen in missing.items()
            ]
        )

    async def _write_turns(self, turns: Sequence[ImportedTurn]) -> None:
        """Their words, each once; those that are here are taken instead."""
        await self._know_sessions(turns)
        new_turns: dict[int, dict[str, Any]] = {}
        new_words: dict[int, dict[str, Any]] = {}
        for turn in turns:
            keys = {one.source_turn_id: (turn.session_id, one.role, one.said_at) for one in turn.said}
            number = next((self._here[key][0] for key in keys.values() if key in self._here), None)
            if number is None:
                number = self._turns.get(turn.turn_id)
            if number is None:
                number = self._numbers.turns[turn.turn_id]
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
                self._sources[one.source_turn_id] = source
        for row in new_words.values():
            if (of := new_turns.get(row["turn_id"])) is not None:
                of[_SHOWN[row["role"]]] = row["text"]
        await self._insert(TurnRow, list(new_turns.values()))
        await self._insert(SourceTurnRow, list(new_words.values()))
        worded = [(number, row["text"]) for number, row in new_words.items() if row["text"]]
        await self._index_words("source_words", worded)
        await self._say_in_turns([row for row in new_words.values() if row["turn_id"] not in new_turns])
        await self._take_in(new_turns.values())
        self.done.turns += len(new_turns)

    async def _know_sessions(self, turns: Sequence[ImportedTurn]) -> None:
        """What was said in the sessions of these turns; sessions that are new are made."""
        new: dict[str, list[ImportedTurn]] = {}
        for turn in turns:
            if turn.session_id not in self._sessions:
                new.setdefault(turn.session_id, []).append(turn)
        for page in in_pages(sorted(new)):
            self._sessions |= set(page)
            said = select(SourceTurnRow).where(col(SourceTurnRow.session_id).in_(page))
            for row in (await self._db.exec(said.execution_options(populate_existing=True))).all():
                self._here[row.session_id, row.role, row.said_at] = (row.turn_id, row.source_turn_id)
                self._sides[row.turn_id, row.role] = row.source_turn_id
                if row.role == "user" and not row.text:
                    self._blank.add(row.turn_id)
            there = select(SessionRow.session_id).where(col(SessionRow.session_id).in_(page))
            known = set((await self._db.exec(there)).all())
            await self._insert(SessionRow, [_session_row(new[one]) for one in page if one not in known])

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
        ours = numbers & set(self._numbers.forgotten_sources) - self._taken
        return bool(ours) or any(one in self._numbers.forgotten_memories for one in turn.recalled)

    async def _say_in_turns(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            turn = update(TurnRow).where(col(TurnRow.turn_id) == row["turn_id"])
            await self._change(turn.values({_SHOWN[row["role"]]: row["text"]}))

    async def _take_in(self, rows: Iterable[dict[str, Any]]) -> None:
        """Memories were made of them already."""
        sessions: dict[str, list[int]] = {}
        for row in rows:
            sessions.setdefault(row["session_id"], []).append(row["turn_id"])
        for session_id, turn_ids in sessions.items():
            await segments.close_segment(self._db, session_id, turn_ids, "memories", now=self._now)

    async def _change(self, statement: Any) -> None:
        await self._db.exec(statement.execution_options(synchronize_session=False))

    async def _insert(self, kind: Any, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            # Else a value that is missing in one row and not in the next begins another statement.
            await self._db.exec(insert(kind).execution_options(render_nulls=True), params=list(rows))

    async def _index_words(self, name: str, texts: Sequence[tuple[int, str]]) -> None:
        if bodies := [{"rowid": number, "body": " ".join(tokens(text))} for number, text in texts]:
            words = table(name, column("rowid", Integer), column("body", Text))
            await self._db.exec(insert(words), params=bodies)


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


def _index_job(memory_id: str, now: dt.datetime) -> dict[str, Any]:
    asked = {"kind": "index", "subject": memory_id, "state": "queued", "requests": 1, "attempts": 0}
    return asked | {"not_before": now, "created_at": now}


async def _take(server_db: AsyncSession, name: str, wanted: Collection[int]) -> dict[int, int]:
    if not wanted:
        return {}
    row = (await server_db.exec(select(IdCounterRow.next_id).where(IdCounterRow.name == name))).first() or 1
    free = {number for number in wanted if row <= number < row + _FARTHEST_NUMBER}
    if free:
        await raise_counters(server_db, {name: max(free)})
        await server_db.flush()
    taken = sorted(set(wanted) - free)
    new = await reserve_ids(server_db, name, len(taken)) if taken else range(0)
    return {number: number for number in free} | dict(zip(taken, new, strict=True))
