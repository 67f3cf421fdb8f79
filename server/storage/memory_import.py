"""Writes memories from elsewhere, with the exact words they came from, into a world, a page in each transaction.

What is here already is left alone, what was forgotten here stays forgotten, and a number that was ever given out here
is never used again. A page looks at everything anew, since turns and forgettings come in between; one that is written
again changes nothing. Knows no file format. The order is the caller's: `take_numbers`, committed -> `MemoryImport`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import func, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage import jobs, tombstones
from server.storage.ids import SOURCE_TURN_IDS, TURN_IDS, raise_counters, reserve_ids
from server.storage.memories import in_pages
from server.storage.memory_import_records import ForgottenHere, Imported, ImportedChannel, ImportedMemory, Numbers
from server.storage.memory_import_turns import TurnsOfPage, add_rows, change, index_words
from server.storage.recall_tables import RecallEntityRow, RecallItemRow, RecallSourceRow, RecallSpeakerRow
from server.storage.server_tables import IdCounterRow
from server.storage.session_tables import ChannelKind, ChannelRow, Visibility
from server.storage.word_index import memory_body
from server.storage.words import entity_key

_FARTHEST_NUMBER = 10_000_000
"""A number so far above all others is not kept: it would use up the numbers of a house."""


async def take_numbers(
    server_db: AsyncSession, *, turn_ids: Collection[int], source_turn_ids: Collection[int]
) -> Numbers:
    """Numbers for the turns of a file: their own where nobody has had them here, else new ones in the same order."""
    return Numbers(
        turns=await _take(server_db, TURN_IDS, turn_ids),
        sources=await _take(server_db, SOURCE_TURN_IDS, source_turn_ids),
    )


async def forgotten_here(
    server_db: AsyncSession, page: Sequence[ImportedMemory], versions: Mapping[str, str]
) -> ForgottenHere:
    """What of a page was forgotten here, by the numbers of the file. Nothing may be forgotten until it is written."""
    turns = [turn for memory in page for turn in memory.turns]
    ids = {memory.memory_id for memory in page} | {one for turn in turns for one in turn.recalled}
    ids |= {versions[memory.memory_id] for memory in page if memory.memory_id in versions}
    sources = {one.source_turn_id for turn in turns for one in turn.said}
    memories, numbers = await tombstones.applies_to(server_db, memory_ids=ids, source_turn_ids=sources)
    return ForgottenHere(frozenset(memories), frozenset(numbers))


class MemoryImport:
    """One import into one world. `versions`: {older: newer} of the whole file; newer ones must be written first."""

    def __init__(self, numbers: Numbers, versions: Mapping[str, str], *, now: dt.datetime) -> None:
        self.done = Imported()
        self._numbers = numbers
        self._versions = versions
        self._now = now
        self._turns: dict[int, int] = {}

    async def make_channels(self, db: AsyncSession, channels: Iterable[ImportedChannel]) -> None:
        """Make those that are new."""
        here = set((await db.exec(select(ChannelRow.channel_id))).all())
        made = {one.channel_id: one for one in channels if one.channel_id not in here}
        same = ("channel_id", "kind", "private", "created_at")
        await add_rows(db, ChannelRow, [{name: getattr(one, name) for name in same} for one in made.values()])
        for one in made.values():
            if one.parent_channel_id in here | made.keys():
                child = update(ChannelRow).where(col(ChannelRow.channel_id) == one.channel_id)
                await change(db, child.values(parent_channel_id=one.parent_channel_id))

    async def write(self, db: AsyncSession, page: Sequence[ImportedMemory], forgotten: ForgottenHere) -> None:
        """The next memories of the file. `done` counts them at once: it holds only if `db` commits."""
        fresh = await self._new_ones(db, page, forgotten)
        if not fresh:
            return
        exchanges = [turn for memory in fresh for turn in memory.turns]
        used = {(turn.channel_id, turn.said[0].visibility) for turn in exchanges}
        await self._need_channels(db, used | {(memory.channel_id, memory.visibility) for memory in fresh})
        written = TurnsOfPage(db, self._numbers, forgotten, self._turns, now=self._now)
        await written.write(exchanges)
        self.done.turns += written.count
        first = ((await db.exec(select(func.max(col(RecallItemRow.item_id))))).one() or 0) + 1
        items, words, entities, speakers, sources = [], [], [], [], []
        for number, memory in enumerate(fresh, start=first):
            item = _item(memory, number)
            items.append(item)
            words.append((number, memory_body(memory.topic, memory.summary, item["entities"])))
            own = {"memory_id": memory.memory_id}
            entities += [own | {"entity_key": key} for key in sorted(map(entity_key, item["entities"]))]
            speakers += [own | {"speaker_id": speaker} for speaker in item["speakers"]]
            turns = {written.sources[one.source_turn_id] for turn in memory.turns for one in turn.said}
            sources += [own | {"source_turn_id": number} for number in sorted(turns)]
        await add_rows(db, RecallItemRow, items)
        await add_rows(db, RecallEntityRow, entities)
        await add_rows(db, RecallSpeakerRow, speakers)
        await add_rows(db, RecallSourceRow, sources)
        await jobs.enqueue_all(db, "index", [memory.memory_id for memory in fresh], now=self._now)
        await index_words(db, "recall_words", words)

    async def _new_ones(
        self, db: AsyncSession, page: Sequence[ImportedMemory], forgotten: ForgottenHere
    ) -> list[ImportedMemory]:
        item = RecallItemRow
        wanted = {memory.memory_id for memory in page}
        wanted |= {self._versions[memory_id] for memory_id in wanted if memory_id in self._versions}
        known: dict[str, str] = {}
        for ids in in_pages(sorted(wanted)):
            there = select(item.memory_id, item.status).where(col(item.memory_id).in_(ids))
            known |= dict((await db.exec(there)).all())
        fresh: list[ImportedMemory] = []
        for memory in page:
            newer = self._versions.get(memory.memory_id)
            if known.get(memory.memory_id, "forgotten") != "forgotten":
                self.done.already_there.append(memory.memory_id)
            elif memory.memory_id in known or memory.memory_id in forgotten.memories:
                self.done.forgotten.append(memory.memory_id)
            elif newer is not None and (newer in forgotten.memories or known.get(newer, "forgotten") == "forgotten"):
                # Also a newer one that was left out of the file, which only forgetting does.
                self.done.forgotten.append(memory.memory_id)
            else:
                known[memory.memory_id] = memory.status
                fresh.append(memory)
        self.done.imported += [memory.memory_id for memory in fresh]
        return fresh

    async def _need_channels(self, db: AsyncSession, used: Iterable[tuple[str, Visibility]]) -> None:
        """Channels that the file does not describe, as those made while it was written."""
        kinds: dict[str, ChannelKind] = {"stackchan": "stackchan", "web": "web"}
        await self.make_channels(
            db,
            [
                ImportedChannel(one, kinds.get(one.partition(":")[0], "pool"), seen == "private", None, self._now)
                for one, seen in sorted(used)
            ],
        )


def _item(memory: ImportedMemory, number: int) -> dict[str, Any]:
    names: dict[str, str] = {}
    for name in memory.entities:
        if key := entity_key(name.strip()):
            names.setdefault(key, name.strip())
    same = ("memory_id", "memory_type", "occurred_at", "zone", "status", "superseded_by", "language", "confidence")
    more = ("importance", "persona_id", "channel_id", "visibility", "created_at", "updated_at")
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
