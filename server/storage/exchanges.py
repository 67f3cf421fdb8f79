"""Whole exchanges of a session: both sides' words with the face and movement that went with them. Read only."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

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

    Failed turns are left out: an apology answers nothing.
    """
    user, robot = aliased(SourceTurnRow), aliased(SourceTurnRow)
    answered = (
        select(TurnRow, user, robot)
        .join(user, (col(user.turn_id) == TurnRow.turn_id) & (col(user.role) == "user"))
        .join(robot, (col(robot.turn_id) == TurnRow.turn_id) & (col(robot.role) == "robot"))
        .where(TurnRow.session_id == session_id, col(TurnRow.outcome).in_(("ok", "interrupted")))
    )
    total = (await db.exec(select(func.count()).select_from(answered.subquery()))).one()
    rows = (await db.exec(answered.order_by(col(TurnRow.turn_id).desc()).limit(limit))).all()
    exchanges = [
        StoredExchange(u.text, r.text, u.language, u.said_at, turn.emotion, turn.action, r.interrupted)
        for turn, u, r in reversed(rows)
    ]
    return exchanges, total
