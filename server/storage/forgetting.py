"""Forgetting: what it reaches, and how it is carried out so that no words are left in the world's database.

The order is the caller's, since two files cannot commit together: `reach` -> `tombstones.add`, committed -> `forget`,
committed -> `Databases.scrub_world` (the `scrub` job, when it was put off). Each step can be repeated. Rows stay, as
ids without words. Knows no vectors and no files.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import String, cast, delete, func, or_, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage import jobs, segments, word_index
from server.storage.memories import in_pages
from server.storage.memory_ids import MEMORY_ID
from server.storage.memory_records import Forgetting, Tombstone
from server.storage.recall_tables import RecallEntityRow, RecallItemRow, RecallSourceRow
from server.storage.session_tables import SourceTurnRow, TurnRow, TurnTraceRow

SCRUB_SUBJECT = "world"
_IDS = ("memory_id", "source_turn_id")
_SHOWN = re.compile(r'"source_turn_id":(\d{1,18})\b')


async def reach(
    db: AsyncSession,
    memory_ids: Sequence[str],
    *,
    also_source: bool,
    also_turn_ids: Iterable[int] = (),
    retold: Iterable[int] = (),
    keeps: Callable[[str], bool] = lambda said: False,
) -> Forgetting:
    """What forgetting these memories reaches; changes nothing. Ids that are not there are left out.

    Older versions that they superseded are reached as well. `also_source`: the words of their turns go too, and of the
    turns in which one of them was recalled, or words that go were shown; else those stay in the log and are only found
    no more, unless another memory needs them. `also_turn_ids`: exchanges to blank besides, such as the request itself.
    `retold`: source turns that tell it again (`said_after`). `keeps`: whether what a user said, while they were only
    shown what is to be forgotten, has nothing to do with it; their words stay then, and the robot's go.
    """
    reached = await _with_older(db, memory_ids)
    sources = await _sources(db, reached)
    turn_ids = set(also_turn_ids)
    hidden: list[int] = []
    shown = await _shown(db)
    if also_source:
        turn_ids |= await _turns_of(db, [*sources, *retold])
        blanked = set(await _words_of(db, turn_ids))
        found = (await _recalling(db, reached) | _shown_any(shown, blanked)) - turn_ids
        while found:
            # Who was shown words that go may have repeated them, and so on.
            turn_ids |= found
            going = await _going(db, found, keeps)
            blanked |= going
            found = _shown_any(shown, going) - turn_ids
    else:
        blanked = set(await _words_of(db, turn_ids))
        told = await _robots(db, await _recalling(db, reached) | _shown_any(shown, sources))
        taken_out = {*sources, *retold, *told}
        hidden = sorted(taken_out - await _needed_by_others(db, sorted(taken_out), reached))
    return Forgetting(
        memory_ids=tuple(reached),
        blanked_source_turn_ids=tuple(sorted(blanked)),
        hidden_source_turn_ids=tuple(hidden),
        turn_ids=tuple(sorted(turn_ids)),
    )


async def said_after(db: AsyncSession, memory_ids: Sequence[str]) -> list[tuple[int, str]]:
    """What may tell these memories again: number and text of what was said in the same talks since their first source.

    Left out: their sources, what another memory needs, and what has no words.
    """
    source = SourceTurnRow
    sources = await _sources(db, memory_ids)
    began: dict[str, int] = {}
    for page in in_pages(sources):
        there = select(source.session_id, source.source_turn_id).where(col(source.source_turn_id).in_(page))
        for session_id, number in (await db.exec(there)).all():
            began[session_id] = min(number, began.get(session_id, number))
    found: dict[int, str] = {}
    for session_id, first in began.items():
        since = select(source.source_turn_id, source.text).where(
            col(source.session_id) == session_id, col(source.source_turn_id) > first, col(source.text) != ""
        )
        for number, said in (await db.exec(since)).all():
            found[number] = said
    others = await _needed_by_others(db, sorted(found), memory_ids)
    return [(number, text) for number, text in sorted(found.items()) if number not in {*sources, *others}]


async def forget(db: AsyncSession, reached: Forgetting, *, now: dt.datetime) -> None:
    """Carry it out: memories, names, words of the index, and the blanked turns' texts; queue `unindex` and `scrub`.

    What tools gave back of it goes also from exchanges whose words stay.
    Whoever is making a vector of one of the memories finds its job gone. Doing it again changes nothing.
    """
    await _forget_memories(db, reached.memory_ids, now)
    await _blank(db, reached)
    sources = await _sources(db, reached.memory_ids)
    told = await _recalling(db, reached.memory_ids) | _shown_any(await _shown(db), sources)
    late = sorted(told - set(reached.turn_ids))
    await _empty_results(db, set(late))
    if sources and set(sources) <= set(reached.blanked_source_turn_ids):
        # They ended after it was seen what there is to blank.
        robots = tuple(await _robots(db, late))
        await _blank(db, Forgetting((), robots, (), tuple(late)))
        reached = replace(reached, blanked_source_turn_ids=(*reached.blanked_source_turn_ids, *robots))
    taken_out = [*reached.blanked_source_turn_ids, *reached.hidden_source_turn_ids]
    for page in in_pages(taken_out):
        await word_index.unindex_source_turns(db, page)
    still_told = await _worded_turns(db, reached.turn_ids, "user")
    await segments.leave_out(db, await _turns_of(db, taken_out) - still_told, now=now)
    await jobs.enqueue(db, "scrub", SCRUB_SUBJECT, now=now)


async def forget_shown(db: AsyncSession, turn_id: int, *, now: dt.datetime) -> bool:
    """In the transaction that ends a turn: blank what the robot said and was shown, if some of that was forgotten
    while the turn ran. Whether it was. What the user said stays.

    No tombstone: these words have never been on the disk.
    """
    source = SourceTurnRow
    made = select(source.tool_calls).where(col(source.turn_id) == turn_id, col(source.tool_calls).is_not(None))
    calls = json.dumps(list((await db.exec(made)).all()), separators=(",", ":"))
    memory_ids = sorted(set(re.findall(MEMORY_ID, calls)))
    gone = len(memory_ids) - len(await _living(db, memory_ids)) if memory_ids else 0
    for page in in_pages(sorted(set(map(int, _SHOWN.findall(calls))))):
        blank = select(source.source_turn_id).where(col(source.source_turn_id).in_(page), col(source.text) == "")
        gone += len((await db.exec(blank)).all())
    if gone:
        await forget(db, Forgetting((), tuple(await _robots(db, [turn_id])), (), (turn_id,)), now=now)
    return gone > 0


async def reapply(db: AsyncSession, stones: Iterable[Tombstone], *, now: dt.datetime) -> Forgetting:
    """After a restore, import or rebuild: forget again what the tombstones name and this world has got back.

    Returns what was there to forget; nothing is done, and no job queued, when that is nothing.
    """
    stones = list(stones)
    memory_ids = await _living(db, [stone.memory_id for stone in stones if stone.memory_id is not None])
    blanked = [stone.source_turn_id for stone in stones if stone.source_turn_id is not None and stone.blanked]
    hidden = [stone.source_turn_id for stone in stones if stone.source_turn_id is not None and not stone.blanked]
    worded = await _worded(db, blanked)
    found = Forgetting(
        memory_ids=tuple(memory_ids),
        blanked_source_turn_ids=tuple(worded),
        hidden_source_turn_ids=tuple(await _worded(db, hidden)),
        turn_ids=tuple(sorted(await _turns_of(db, worded))),
    )
    if found.memory_ids or found.blanked_source_turn_ids:
        await forget(db, found, now=now)
    elif found.hidden_source_turn_ids:
        for page in in_pages(found.hidden_source_turn_ids):
            await word_index.unindex_source_turns(db, page)
        await segments.leave_out(db, await _turns_of(db, found.hidden_source_turn_ids), now=now)
    return found


async def _forget_memories(db: AsyncSession, memory_ids: Sequence[str], now: dt.datetime) -> None:
    item = RecallItemRow
    for memory_id in memory_ids:
        forgetting = (
            update(item)
            .where(col(item.memory_id) == memory_id, col(item.status) != "forgotten")
            .values(
                status="forgotten",
                topic="",
                summary="",
                entities=[],
                error=None,
                index_state="pending",
                revision=col(item.revision) + 1,
                updated_at=now,
            )
            .returning(col(item.item_id))
            .execution_options(synchronize_session=False)
        )
        item_id = (await db.exec(forgetting)).scalar_one_or_none()
        if item_id is None:
            continue
        await word_index.unindex_memory(db, item_id)
        await _change(db, delete(RecallEntityRow).where(col(RecallEntityRow.memory_id) == memory_id))
        await jobs.cancel(db, ["index"], memory_id)
        await jobs.enqueue(db, "unindex", memory_id, now=now)


async def _blank(db: AsyncSession, reached: Forgetting) -> None:
    # Empty, not NULL: there were words, and a reader can tell.
    turn, source = TurnRow, SourceTurnRow
    for page in in_pages(reached.blanked_source_turn_ids):
        await _change(db, update(source).where(col(source.source_turn_id).in_(page)).values(text="", tool_calls=None))
    users = await _worded_turns(db, reached.turn_ids, "user")
    robots = await _worded_turns(db, reached.turn_ids, "robot")
    for page in in_pages(reached.turn_ids):
        await _change(db, delete(TurnTraceRow).where(col(TurnTraceRow.turn_id).in_(page)))
        said = update(turn).where(col(turn.turn_id).in_(page))
        await _change(db, said.values(memory=None, error_message=None, request_digest=None))
        heard = said.where(col(turn.transcript).is_not(None), col(turn.turn_id).not_in(users))
        await _change(db, heard.values(transcript=""))
        answered = said.where(col(turn.reply).is_not(None), col(turn.turn_id).not_in(robots))
        await _change(db, answered.values(reply=""))


async def _empty_results(db: AsyncSession, turn_ids: Collection[int]) -> None:
    # The calls stay, with ids: what was answered after them is nobody's own words, and may have to go later.
    source = SourceTurnRow
    for page in in_pages(sorted(turn_ids)):
        calls: Any = col(source.tool_calls)
        made = select(source.source_turn_id, calls).where(col(source.turn_id).in_(page), calls.is_not(None))
        for source_turn_id, tool_calls in (await db.exec(made)).all():
            emptied = [
                {
                    "name": call.get("name"),
                    "arguments": {},
                    "result": {"note": "forgotten", "shown": list(_ids_shown(call))},
                }
                for call in tool_calls
                if isinstance(call, Mapping)
            ]
            there = update(source).where(col(source.source_turn_id) == source_turn_id)
            await _change(db, there.values(tool_calls=emptied))


def _ids_shown(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, Mapping):
        yield from ({key: value[key]} for key in _IDS if isinstance(value.get(key), str | int))
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _ids_shown(inner)


async def _with_older(db: AsyncSession, memory_ids: Sequence[str]) -> list[str]:
    item = RecallItemRow
    reached: dict[str, None] = {}
    newest = list(memory_ids)
    while newest:
        there = select(item.memory_id).where(col(item.memory_id).in_(newest))
        reached |= dict.fromkeys((await db.exec(there)).all())
        older = select(item.memory_id).where(col(item.superseded_by).in_(newest))
        newest = [memory_id for memory_id in (await db.exec(older)).all() if memory_id not in reached]
    return list(reached)


async def _living(db: AsyncSession, memory_ids: Sequence[str]) -> list[str]:
    item = RecallItemRow
    found: list[str] = []
    for page in in_pages(memory_ids):
        there = select(item.memory_id).where(col(item.memory_id).in_(page), col(item.status) != "forgotten")
        found += (await db.exec(there)).all()
    return found


async def _sources(db: AsyncSession, memory_ids: Sequence[str]) -> list[int]:
    source = RecallSourceRow
    found: set[int] = set()
    for page in in_pages(memory_ids):
        found |= set((await db.exec(select(source.source_turn_id).where(col(source.memory_id).in_(page)))).all())
    return sorted(found)


async def _turns_of(db: AsyncSession, source_turn_ids: Sequence[int]) -> set[int]:
    source = SourceTurnRow
    found: set[int] = set()
    for page in in_pages(source_turn_ids):
        found |= set((await db.exec(select(source.turn_id).where(col(source.source_turn_id).in_(page)))).all())
    return found


async def _words_of(db: AsyncSession, turn_ids: Collection[int]) -> list[int]:
    source = SourceTurnRow
    found: list[int] = []
    for page in in_pages(sorted(turn_ids)):
        found += (await db.exec(select(source.source_turn_id).where(col(source.turn_id).in_(page)))).all()
    return sorted(found)


async def _going(db: AsyncSession, turn_ids: Collection[int], keeps: Callable[[str], bool]) -> set[int]:
    """The source turns of exchanges in which words that go were shown, without what has nothing to do with them."""
    source = SourceTurnRow
    found: set[int] = set()
    for page in in_pages(sorted(turn_ids)):
        said = select(source.source_turn_id, source.role, source.text).where(col(source.turn_id).in_(page))
        for number, role, text in (await db.exec(said)).all():
            if not (role == "user" and text and keeps(text)):
                found.add(number)
    return found


async def _worded_turns(db: AsyncSession, turn_ids: Sequence[int], role: str) -> set[int]:
    """Those of these exchanges in which this side still has words."""
    source = SourceTurnRow
    found: set[int] = set()
    for page in in_pages(turn_ids):
        there = select(source.turn_id).where(
            col(source.turn_id).in_(page), col(source.role) == role, col(source.text) != ""
        )
        found |= set((await db.exec(there)).all())
    return found


async def _worded(db: AsyncSession, source_turn_ids: Sequence[int]) -> list[int]:
    source = SourceTurnRow
    found: list[int] = []
    for page in in_pages(source_turn_ids):
        there = select(source.source_turn_id).where(col(source.source_turn_id).in_(page), col(source.text) != "")
        found += (await db.exec(there)).all()
    return sorted(found)


async def _recalling(db: AsyncSession, memory_ids: Sequence[str]) -> set[int]:
    """Exchanges whose tool calls, results or trace name one of the memories, and so may repeat its words."""
    found: set[int] = set()
    for row, column in (
        (SourceTurnRow, col(SourceTurnRow.tool_calls)),
        (TurnRow, col(TurnRow.memory)),
        (TurnTraceRow, col(TurnTraceRow.trace)),
    ):
        for page in in_pages(memory_ids, 50):
            named = or_(*(func.instr(cast(column, String), memory_id) > 0 for memory_id in page))
            turn_id: Any = col(row.turn_id)
            found |= set((await db.exec(select(turn_id).where(column.is_not(None), named))).all())
    return found


async def _shown(db: AsyncSession) -> dict[int, set[int]]:
    """Exchanges in which tools gave back words of source turns, and of which."""
    calls = cast(col(SourceTurnRow.tool_calls), String)
    # As `sqlite.py` writes JSON; inside a text its quotes would be escaped.
    named = select(col(SourceTurnRow.turn_id), calls).where(func.instr(calls, '"source_turn_id":') > 0)
    return {turn_id: set(map(int, _SHOWN.findall(made))) for turn_id, made in (await db.exec(named)).all()}


def _shown_any(shown: Mapping[int, set[int]], source_turn_ids: Collection[int]) -> set[int]:
    return {turn_id for turn_id, numbers in shown.items() if not numbers.isdisjoint(source_turn_ids)}


async def _robots(db: AsyncSession, turn_ids: Collection[int]) -> list[int]:
    source = SourceTurnRow
    found: list[int] = []
    for page in in_pages(sorted(turn_ids)):
        said = select(source.source_turn_id).where(col(source.turn_id).in_(page), col(source.role) == "robot")
        found += (await db.exec(said)).all()
    return found


async def _needed_by_others(db: AsyncSession, source_turn_ids: Sequence[int], forgotten: Collection[str]) -> set[int]:
    item, source = RecallItemRow, RecallSourceRow
    found: set[int] = set()
    for page in in_pages(source_turn_ids):
        kept = (
            select(source.source_turn_id, source.memory_id)
            .join(item, col(item.memory_id) == col(source.memory_id))
            .where(col(source.source_turn_id).in_(page), col(item.status) != "forgotten")
        )
        found |= {turn for turn, memory_id in (await db.exec(kept)).all() if memory_id not in forgotten}
    return found


async def _change(db: AsyncSession, statement: Any) -> None:
    await db.exec(statement.execution_options(synchronize_session=False))
