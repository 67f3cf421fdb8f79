"""Whole exchanges: both sides' words, and what was searched and forgotten in them. Read only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import String, cast
from sqlalchemy.orm import aliased
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.session_tables import SourceTurnRow, TurnRow


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """A turn that ended with an answer. `robot_text`: what was played."""

    user_text: str
    robot_text: str
    language: str
    said_at: dt.datetime
    emotion: str | None
    action: str | None
    interrupted: bool


async def newest_exchanges(db: AsyncSession, session_id: str, limit: int) -> tuple[list[StoredExchange], int]:
    """The last `limit` answered turns of a session, oldest first, and how many there are in all.

    Failed turns are left out: an apology answers nothing. So are forgotten ones, whose words are blank.
    """
    user, robot = aliased(SourceTurnRow), aliased(SourceTurnRow)
    answered = (
        select(TurnRow, user, robot)
        .join(user, (col(user.turn_id) == TurnRow.turn_id) & (col(user.role) == "user"))
        .join(robot, (col(robot.turn_id) == TurnRow.turn_id) & (col(robot.role) == "robot"))
        .where(
            TurnRow.session_id == session_id,
            col(TurnRow.outcome).in_(("ok", "interrupted")),
            col(user.text) != "",
            col(robot.text) != "",
        )
    )
    total = (await db.exec(select(func.count()).select_from(answered.subquery()))).one()
    rows = (await db.exec(answered.order_by(col(TurnRow.turn_id).desc()).limit(limit))).all()
    exchanges = [
        StoredExchange(u.text, r.text, u.language, u.said_at, turn.emotion, turn.action, r.interrupted)
        for turn, u, r in reversed(rows)
    ]
    return exchanges, total


async def count_searches(db: AsyncSession) -> tuple[int, int]:
    """In how many turns memory was searched, and in how many of them no memory was found; forgotten turns left out."""
    turn = TurnRow
    searched = func.json_extract(col(turn.memory), "$.searched") == 1
    found_none = func.json_array_length(col(turn.memory), "$.memory_ids") == 0
    counting = select(func.count(), func.sum(found_none)).where(col(turn.memory).is_not(None), searched)
    total, without = (await db.exec(counting)).one()
    return total, int(without or 0)


async def turns_that_forgot(db: AsyncSession, tool: str) -> list[int]:
    """Turns in which `tool` forgot something and whose own words are still there, as after a kill in between."""
    robot = SourceTurnRow
    calls: Any = col(robot.tool_calls)
    wanted = select(robot.turn_id, calls).where(
        calls.is_not(None), col(robot.text) != "", func.instr(cast(calls, String), tool) > 0
    )
    return sorted(
        turn_id for turn_id, made in (await db.exec(wanted)).all() if any(_forgot(call, tool) for call in made or ())
    )


def _forgot(call: object, tool: str) -> bool:
    result = call.get("result") if isinstance(call, Mapping) and call.get("name") == tool else None
    forgotten = result.get("forgotten") if isinstance(result, Mapping) else None
    return isinstance(forgotten, int) and forgotten > 0
