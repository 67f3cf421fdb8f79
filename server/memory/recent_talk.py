"""What the last turns of a conversation in progress were about: the memories shown in them, and what was told.

Reads what the turns have stored. Whoever says "forget that" points at it. Decides nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server.memory.asking import Asker
from server.memory.check import is_correction, is_filler
from server.memory.content import is_bare_value
from server.memory.meant import RecentTurn, Thing, memory_thing, turn_thing
from server.memory.questions import only_asks
from server.memory.telling import orders
from server.storage import memories, memory_lookup, turns
from server.storage.database import Databases, Db
from server.storage.memory_ids import MEMORY_ID
from server.storage.memory_records import Memory, MemoryFilter
from server.storage.records import SourceTurn

_TURNS = 20
_MEMORY_ID = re.compile(MEMORY_ID)
_READ = "read_memory_source"
_VERSIONS = 20

RecentTurns = Callable[[Asker], Awaitable[Sequence[RecentTurn]]]


@dataclass(frozen=True, slots=True)
class _Exchange:
    turn_id: int
    user: SourceTurn
    robot: SourceTurn | None

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        calls = self.robot.tool_calls if self.robot is not None else None
        return [one for one in calls or () if isinstance(one, Mapping)]


async def recent_turns(databases: Databases, asker: Asker) -> list[RecentTurn]:
    """The last turns of the asker's conversation before this one, newest last, as far as their words are there.

    Memories that the asker may not find are left out; of superseded ones the newest version stands.
    """
    readable = MemoryFilter(asker.persona, asker.speaker)
    async with databases.world(write=False) as db:
        said = await turns.recent_source_turns(db, asker.session_id, 2 * _TURNS + 2)
        exchanges = _exchanges(one for one in said if one.turn_id < asker.turn_id and one.text)
        made = await memory_lookup.of_source_turns(db, [one.user.source_turn_id for one in exchanges])
        found = [await _recent(db, one, made.get(one.user.source_turn_id, ()), readable) for one in exchanges]
    return found


def _exchanges(said: Iterable[SourceTurn]) -> list[_Exchange]:
    users: dict[int, SourceTurn] = {}
    robots: dict[int, SourceTurn] = {}
    for one in said:
        (robots if one.role == "robot" else users)[one.turn_id] = one
    return [_Exchange(turn_id, user, robots.get(turn_id)) for turn_id, user in sorted(users.items())]


async def _recent(db: Db, exchange: _Exchange, made: Sequence[str], readable: MemoryFilter) -> RecentTurn:
    said = exchange.user.text
    shown = await _current(db, _shown(exchange), readable)
    asked = only_asks(said) or orders(said)
    corrects = not made and (is_correction(said) or is_bare_value(said))
    told: tuple[Thing, ...] = ()
    if made:
        told = tuple(memory_thing(one) for one in await _current(db, made, readable))
    elif corrects or not (is_filler([said]) or asked):
        told = (turn_thing(exchange.turn_id, said),)
    read = frozenset(one for call in exchange.calls if call.get("name") == _READ for one in _ids(call.get("arguments")))
    # What was read under an older version was read of the newest.
    newest = {one.memory_id for one in await _current(db, sorted(read), readable)}
    return RecentTurn(
        said,
        exchange.robot.text if exchange.robot else "",
        shown=tuple(shown),
        read=frozenset(newest),
        told=told,
        asked=asked,
        corrects=corrects,
        turn_id=exchange.turn_id,
    )


def _shown(exchange: _Exchange) -> list[str]:
    return [one for call in exchange.calls for one in _ids([call.get("arguments"), call.get("result")])]


def _ids(value: object) -> list[str]:
    return _MEMORY_ID.findall(json.dumps(value))


async def _current(db: Db, memory_ids: Sequence[str], readable: MemoryFilter) -> list[Memory]:
    """Their newest versions, each once, in this order; forgotten ones and those of others are left out."""
    found: dict[str, Memory] = {}
    wanted = list(dict.fromkeys(memory_ids))
    for _ in range(_VERSIONS):
        if not wanted:
            break
        later: list[str] = []
        for one in await memories.get_many(db, wanted):
            if one.superseded_by is not None and one.status == "superseded":
                later.append(one.superseded_by)
            elif one.status == "active" and one.may_be_found_by(readable.persona_id, readable.speaker_id):
                found[one.memory_id] = one
        wanted = [one for one in later if one not in found]
    return list(found.values())
