"""Reading source turns back: the exact words behind a memory, with what was said around them. Read only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage import word_index
from server.storage.memory_records import SourceFilter
from server.storage.narrowing import source_conditions
from server.storage.records import SourceTurn, record
from server.storage.session_tables import SourceTurnRow, TurnRow

_AROUND_LIMIT = 50


async def read_source_turns(
    db: AsyncSession, source_turn_ids: Sequence[int], wanted: SourceFilter, *, around: int = 0
) -> list[SourceTurn]:
    """These source turns, in the order they were said, each with `around` turns of its session before and after.

    Left out: those that are not there, were forgotten, are only in the log since their memory was forgotten, or that
    `wanted` does not let this speaker find. At most 50 around.
    """
    around = max(0, min(around, _AROUND_LIMIT))
    source = SourceTurnRow
    readable = (
        select(source)
        .join(TurnRow, col(TurnRow.turn_id) == col(source.turn_id))
        .where(source_conditions(wanted), col(source.text) != "", word_index.is_indexed())
        .execution_options(populate_existing=True)
    )
    asked = readable.where(col(source.source_turn_id).in_(list(source_turn_ids)))
    found = {row.source_turn_id: row for row in (await db.exec(asked)).all()}
    for row in list(found.values()) if around else ():
        same = readable.where(col(source.session_id) == row.session_id)
        before = same.where(col(source.source_turn_id) < row.source_turn_id)
        after = same.where(col(source.source_turn_id) > row.source_turn_id)
        for side in (
            before.order_by(col(source.source_turn_id).desc()).limit(around),
            after.order_by(col(source.source_turn_id)).limit(around),
        ):
            found |= {near.source_turn_id: near for near in (await db.exec(side)).all()}
    return [record(SourceTurn, row) for _, row in sorted(found.items())]
