"""Memory out of a house, as lines that stream. Forgotten memories are not among them.

How the lines look is in `transfer_lines.py`; they are taken in by `importing.py`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import AsyncIterator, Sequence

from server.memory.transfer_lines import VERSION, Channel, End, Header, Line, MemoryLine, TurnLine, Words, written
from server.storage import memory_browse, memory_lookup
from server.storage.database import Databases, Db
from server.storage.memory_browse import WholeTurn
from server.storage.memory_ids import MEMORY_ID
from server.storage.memory_records import Memory
from server.storage.records import SourceTurn

_PAGE = 100
_MEMORY_ID = re.compile(MEMORY_ID)


async def export_lines(databases: Databases, *, now: dt.datetime, server_version: str = "") -> AsyncIterator[bytes]:
    """The lines of an export, a page of memories at a time.

    What is forgotten meanwhile is not in the pages that follow. Raises `StorageError`; the last line is missing then.
    """
    async with databases.world(write=False) as db:
        channels = await memory_browse.all_channels(db)
    yield written(Header(version=VERSION, exported_at=now, server=server_version))
    for channel in channels:
        yield written(
            Line(
                channel=Channel(
                    channel_id=channel.channel_id,
                    kind=channel.kind,
                    private=channel.private,
                    parent_channel_id=channel.parent_channel_id,
                    created_at=channel.created_at,
                )
            )
        )
    after, count = "", 0
    while True:
        async with databases.world(write=False) as db:
            page = await memory_lookup.page(db, after=after, limit=_PAGE)
            lines = await _lines(db, page)
        if not page:
            break
        yield b"".join(lines)
        after = page[-1].memory_id
        count += len(page)
    yield written(Line(end=End(memories=count)))


async def _lines(db: Db, page: Sequence[Memory]) -> list[bytes]:
    said = await memory_browse.exact_words(db, [number for memory in page for number in memory.source_turn_ids])
    words = {turn.source_turn_id: turn for turn in said}
    turns = await memory_browse.whole_turns(db, [turn.turn_id for turn in said])
    lines = []
    for memory in page:
        of_turns: dict[int, list[SourceTurn]] = {}
        for number in memory.source_turn_ids:
            of_turns.setdefault(words[number].turn_id, []).append(words[number])
        exchanges = [_turn_line(turns[turn_id], of_turn) for turn_id, of_turn in of_turns.items()]
        lines.append(written(Line(memory=_memory_line(memory, exchanges))))
    return lines


def _memory_line(memory: Memory, turns: list[TurnLine]) -> MemoryLine:
    values = {name: getattr(memory, name) for name in MemoryLine.model_fields if name != "turns"}
    values |= {"entities": list(memory.entities), "speakers": list(memory.speakers), "turns": turns}
    # Stored text was checked when it was stored.
    return MemoryLine.model_construct(**values)


def _turn_line(whole: WholeTurn, said: Sequence[SourceTurn]) -> TurnLine:
    turn = whole.turn
    same = set(TurnLine.model_fields) - {"recalled", "said"}
    recalled = _MEMORY_ID.findall(json.dumps([turn.memory, whole.tool_calls]))
    words = [
        Words.model_construct(**{name: getattr(one, name) for name in Words.model_fields} | {"text": one.text or None})
        for one in said
    ]
    return TurnLine.model_construct(
        **{name: getattr(turn, name) for name in same},
        recalled=list(dict.fromkeys(recalled)) if any(one.text for one in said) else [],
        said=words,
    )
