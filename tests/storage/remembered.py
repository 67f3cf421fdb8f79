"""Shorthand for a house with things said and memories of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from server.storage import memories
from server.storage.database import Databases
from server.storage.memory_records import Memory, MemoryFilter, NewMemory, SourceFilter
from server.storage.turns import add_user_turn, finish_turn
from tests.storage.house import CHANNEL, NOW, make_session, make_turn, robot_words, user_words

PERSONA = "tester"
EVERYONE = MemoryFilter(persona_id=PERSONA, speaker_id=None)
SAID_TO_ALL = SourceFilter(persona_id=PERSONA, speaker_id=None)


async def exchange(
    databases: Databases,
    turn_id: int,
    said: str,
    answered: str = "うん。",
    *,
    channel_id: str = CHANNEL,
    private: bool = False,
    speaker_id: str | None = None,
    tool_calls: Sequence[Any] | None = None,
    trace: Any = None,
) -> str:
    """One whole exchange: source turns `turn_id * 10` and one more. Returns the session."""
    session_id = await make_session(databases, channel_id=channel_id, private=private)
    await make_turn(databases, turn_id, session_id, channel_id=channel_id)
    async with databases.world() as db:
        await add_user_turn(db, turn_id, turn_id * 10, **user_words(said, speaker_id=speaker_id))
    async with databases.world() as db:
        words = robot_words(turn_id * 10 + 1, answered, tool_calls=tool_calls)
        await finish_turn(db, turn_id, outcome="ok", ended_at=NOW, robot=words, trace=trace)
    return session_id


def new_memory(number: int, summary: str = "富士通のPCを30,000円で買った。", **changes: Any) -> NewMemory:
    values: dict[str, Any] = {
        "memory_id": f"mem_{number:026d}",
        "topic": "買い物",
        "summary": summary,
        "entities": ("富士通",),
        "memory_type": "episode",
        "occurred_at": NOW,
        "zone": "Asia/Tokyo",
        "language": "ja",
        "speakers": (),
        "confidence": "said",
        "importance": 3,
        "persona_id": PERSONA,
        "channel_id": CHANNEL,
        "visibility": "house",
        "source_turn_ids": (),
    }
    return NewMemory(**values | changes)


async def remember(
    databases: Databases, number: int, summary: str = "富士通のPCを30,000円で買った。", **changes: Any
) -> Memory:
    async with databases.world() as db:
        return await memories.add(db, new_memory(number, summary, **changes), now=NOW)
