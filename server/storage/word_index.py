"""Queries on the word indexes over memories and source turns: SQLite's FTS5, which only SQLite has.

Each holds `words.tokens(text)`, written in the transaction that writes the row. What is searched for reaches FTS5 only
as quoted words, so no text can be its syntax.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    TableClause,
    Text,
    column,
    delete,
    insert,
    literal_column,
    select,
    table,
    text,
)
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from server.storage.memory_records import MemoryFilter, MemoryHit, SourceFilter, SourceHit
from server.storage.narrowing import memory_conditions, source_conditions
from server.storage.recall_tables import WORD_TABLES, RecallItemRow
from server.storage.session_tables import SourceTurnRow, TurnRow
from server.storage.sqlite import not_by_index
from server.storage.words import Term, entity_key, query_terms, tokens

_WordTable = Literal["recall_words", "source_words"]


async def index_memory(db: AsyncSession, item_id: int, topic: str, summary: str, entities: Sequence[str]) -> None:
    """Make a memory findable by its words; replaces what it was found by."""
    await _write(db, "recall_words", [(item_id, memory_body(topic, summary, entities))])


async def index_source_turn(db: AsyncSession, source_turn_id: int, said: str) -> None:
    """Make a source turn findable by its words; replaces what it was found by."""
    await _write(db, "source_words", [(source_turn_id, said)])


async def unindex_memory(db: AsyncSession, item_id: int) -> None:
    """A memory is no longer found by words."""
    await _remove(db, "recall_words", [item_id])


async def unindex_source_turns(db: AsyncSession, source_turn_ids: Collection[int]) -> None:
    """Source turns are no longer found by words."""
    await _remove(db, "source_words", source_turn_ids)


async def search_memories(
    db: AsyncSession, query: str, wanted: MemoryFilter, *, limit: int, memory_ids: Collection[str] | None = None
) -> list[MemoryHit]:
    """Memories that share words with `query`, best first; equal ones newest first.

    `memory_ids`: only among these. Empty when the query has no words.
    """
    item = RecallItemRow
    conditions = [memory_conditions(wanted, begin_here=False)]
    if memory_ids is not None:
        conditions.append(not_by_index(col(item.memory_id)).in_(list(memory_ids)))
    words = _words("recall_words")
    found = (
        select(col(item.memory_id), _score("recall_words"))
        .join_from(words, item, col(item.item_id) == words.c.rowid)
        .where(*conditions)
        .order_by(_score("recall_words").desc(), col(item.occurred_at).desc(), col(item.memory_id).desc())
    )
    return [MemoryHit(memory_id, score) for memory_id, score in await _search(db, "recall_words", found, query, limit)]


async def search_source_turns(db: AsyncSession, query: str, wanted: SourceFilter, *, limit: int) -> list[SourceHit]:
    """Source turns that share words with `query`, best first; equal ones newest first. Forgotten ones have no words."""
    source = SourceTurnRow
    words = _words("source_words")
    found = (
        select(col(source.source_turn_id), _score("source_words"))
        .join_from(words, source, col(source.source_turn_id) == words.c.rowid)
        .join(TurnRow, col(TurnRow.turn_id) == col(source.turn_id))
        .where(source_conditions(wanted))
        .order_by(_score("source_words").desc(), col(source.said_at).desc(), col(source.source_turn_id).desc())
    )
    return [SourceHit(turn_id, score) for turn_id, score in await _search(db, "source_words", found, query, limit)]


def is_indexed() -> ColumnElement[bool]:
    """Whether a row of `source_turns` is found by its words; one whose memory went without its words is not."""
    words = _words("source_words")
    return select(words.c.rowid).where(words.c.rowid == col(SourceTurnRow.source_turn_id)).exists()


async def is_mentioned(db: AsyncSession, names: Collection[str], wanted: MemoryFilter) -> bool:
    """Whether any memory has one of `names` in it as it stands, also inside a longer word; stops at the first."""
    phrases = [phrase for name in names if (phrase := " ".join(term.word for term in query_terms(name)))]
    if not phrases:
        return False
    words = _words("recall_words")
    found = (
        select(words.c.rowid)
        .join_from(words, RecallItemRow, col(RecallItemRow.item_id) == words.c.rowid)
        .where(memory_conditions(wanted, begin_here=False))
        .where(text("recall_words MATCH :words").bindparams(words=" OR ".join(f'"{phrase}"' for phrase in phrases)))
        .limit(1)
    )
    return (await db.exec(found)).first() is not None  # type: ignore[call-overload]


def memory_body(topic: str, summary: str, entities: Sequence[str]) -> str:
    """The text whose words find a memory. A name that the topic or summary says already does not count twice."""
    said = f"{topic}\n{summary}"
    folded = entity_key(said)
    return "\n".join([said, *(name for name in entities if entity_key(name) not in folded)])


async def _search(
    db: AsyncSession, name: _WordTable, found: Any, query: str, limit: int
) -> Sequence[tuple[Any, float]]:
    terms = query_terms(query)
    if not terms or limit < 1:
        return []
    matching = found.where(text(f"{name} MATCH :words").bindparams(words=_expression(terms))).limit(limit)
    return [(row[0], float(row[1])) for row in (await db.exec(matching)).all()]


def _expression(terms: Sequence[Term]) -> str:
    # Words hold letters, digits and points only; doubling quotes is for the day when they hold more.
    quoted = (f'"{term.word.replace(chr(34), chr(34) * 2)}"' + ("*" if term.begins else "") for term in terms)
    return " OR ".join(quoted)


def _words(name: str) -> TableClause:
    return table(name, column("rowid", Integer), column("body", Text))


_REPLACE = {name: insert(_words(name)).prefix_with("OR REPLACE") for name in WORD_TABLES}


def _score(name: _WordTable) -> ColumnElement[float]:
    return literal_column(f"-bm25({name})", Float)


async def _write(db: AsyncSession, name: _WordTable, texts: Sequence[tuple[int, str]]) -> None:
    bodies = [{"rowid": rowid, "body": " ".join(tokens(said))} for rowid, said in texts]
    if bodies:
        await db.exec(_REPLACE[name], params=bodies)


async def _remove(db: AsyncSession, name: _WordTable, rowids: Collection[int]) -> None:
    if rowids:
        words = _words(name)
        await db.exec(delete(words).where(words.c.rowid.in_(list(rowids))))
