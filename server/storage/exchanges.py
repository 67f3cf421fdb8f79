"""Whole exchanges: both sides' words, and what was searched and forgotten in them. Read only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import String, bindparam, cast
from sqlalchemy import select as select_columns
from sqlalchemy.orm import aliased
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.session_tables import SourceTurnRow, TurnRow
from server.storage.turns import SERVER_STOPPED

_USER, _ROBOT = aliased(SourceTurnRow), aliased(SourceTurnRow)
_UNHEARD: Any = (col(TurnRow.outcome) == "interrupted") | (col(TurnRow.error_code) == SERVER_STOPPED)
# Every turn begins with it: it is made once, and reads the columns it needs and the count in one go.
_ANSWERED: Any = (
    select_columns(
        col(_USER.text).label("user_text"),
        col(_ROBOT.text).label("robot_text"),
        col(_USER.language),
        col(_USER.said_at),
        col(TurnRow.emotion),
        col(TurnRow.action),
        col(_ROBOT.interrupted),
        func.count().over().label("total"),
    )
    .select_from(TurnRow)
    .join(_USER, (col(_USER.turn_id) == TurnRow.turn_id) & (col(_USER.role) == "user"))
    .outerjoin(_ROBOT, (col(_ROBOT.turn_id) == TurnRow.turn_id) & (col(_ROBOT.role) == "robot"))
    .where(
        col(TurnRow.session_id) == bindparam("this_session_id"),
        (col(TurnRow.outcome) == "ok") | _UNHEARD,
        col(_USER.text) != "",
        # Who is interrupted before a word was heard has said nothing, and the question still stands.
        (col(_ROBOT.text) != "") | (col(_ROBOT.turn_id).is_(None) & _UNHEARD),
    )
    .order_by(col(TurnRow.turn_id).desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """A turn that ended with an answer, or was interrupted, be it by the server's end.

    `robot_text`: what was played; empty: nothing.
    """

    user_text: str
    robot_text: str
    language: str
    said_at: dt.datetime
    emotion: str | None
    action: str | None
    interrupted: bool


async def newest_exchanges(db: AsyncSession, session_id: str, limit: int) -> tuple[list[StoredExchange], int]:
    """The last `limit` answered or interrupted turns of a session, oldest first, and how many there are in all.

    Failed turns are left out: an apology answers nothing. Not so those that the server's end cut off, if nothing was
    said in them. Forgotten ones are, whose words are blank.
    """
    rows = (await db.exec(_ANSWERED, params={"this_session_id": session_id, "most": limit})).all()
    exchanges = [
        StoredExchange(
            user_text=row.user_text,
            robot_text=row.robot_text or "",
            language=row.language,
            said_at=row.said_at,
            emotion=row.emotion,
            action=row.action,
            interrupted=row.interrupted is not False,
        )
        for row in reversed(rows)
    ]
    return exchanges, rows[0].total if rows else 0


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
