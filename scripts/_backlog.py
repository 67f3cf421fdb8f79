"""A backlog of memories to be made, beside a server that runs: put in line, held back and let go.

Held back means parked, as work that was given up; it is let go by the owner's own request to try again, which is how
the server hears of it. Knows the database, no turn and no request.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import _search_world as worlds
from sqlalchemy import text

from server.storage import memories
from server.storage.channels import ensure_channel
from server.storage.database import SESSION_DATABASE, WORLDS, Databases, Db
from server.storage.ids import IdAllocator
from server.storage.sessions import close_session, open_session
from server.storage.turns import RobotWords, add_user_turn, create_turn, finish_turn

EXCHANGES_OF_A_SESSION = 10
_PARK = "UPDATE jobs SET state = 'parked' WHERE state = 'queued'"
_HELD = """
SELECT kind, count(*) FROM jobs WHERE state = 'parked' AND (kind <> 'ingest' OR subject IN
    (SELECT session_id FROM sessions WHERE channel_id LIKE 'stackchan:backlog-%')) GROUP BY kind
"""
_REST_SECONDS = 60.0
_UNTOLD = 1_000_000
"""The first story that no memory tells yet."""


@dataclass
class Backlog:
    """`exchanges` in other conversations, and `index_jobs`: so much is to wait before a measured turn."""

    data_dir: Path
    exchanges: int
    index_jobs: int
    memories: int
    """Stories that are memories already: their vectors are made anew."""
    sessions: int = field(default=0, init=False)
    """Conversations put in line so far."""

    async def __aenter__(self) -> Self:
        self._databases = await Databases.open(self.data_dir, worlds.WORLD)
        self._turn_ids = IdAllocator(self._databases.server, "turn")
        self._source_ids = IdAllocator(self._databases.server, "source_turn")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._databases.close()

    async def top_up(self) -> None:
        """Have as much in line, held back, as was asked for. Only while all is held."""
        waiting = self.held()
        sessions = max(0, -(-self.exchanges // EXCHANGES_OF_A_SESSION) - waiting.get("ingest", 0))
        points = max(0, self.index_jobs - waiting.get("index", 0))
        parts = max(1, sessions)
        # Both kinds mixed, as they come in a house.
        for part in range(parts):
            if part < sessions:
                await self._talk()
            numbers = range(points * part // parts, points * (part + 1) // parts)
            async with self._databases.world() as db:
                ids = [worlds.memory_id(number % self.memories) for number in numbers]
                await memories.queue_index(db, ids, now=_now())
                await db.exec(text(_PARK))

    async def hold(self) -> None:
        """Everything that waits is left alone; what runs comes to its end first."""
        for _ in range(round(_REST_SECONDS / 0.02)):
            with closing(self._connect()) as connection:
                connection.execute(_PARK)
            if not self._count("SELECT count(*) FROM jobs WHERE state <> 'parked'"):
                return
            await asyncio.sleep(0.02)
        raise RuntimeError("the server does not come to rest")

    def clear(self) -> None:
        """Take out of line what a start has put there. Only while all is held."""
        with closing(self._connect()) as connection:
            connection.execute("DELETE FROM jobs")

    def held(self) -> dict[str, int]:
        """What is held back, by kind; without the conversations of those who are measured."""
        with closing(self._connect()) as connection:
            return dict(connection.execute(_HELD))

    def waiting(self) -> int:
        """Jobs that are not done."""
        return self._count("SELECT count(*) FROM jobs")

    def done(self) -> int:
        """A number that grows with everything that is done: vectors made, parts of conversations taken in."""
        return self.segments() + self._count("SELECT count(*) FROM recall_items WHERE index_state = 'indexed'")

    def segments(self) -> int:
        """Parts of conversations that were taken in."""
        return self._count(
            "SELECT count(*) FROM segments JOIN sessions USING (session_id) WHERE channel_id LIKE 'stackchan:backlog-%'"
        )

    async def _talk(self) -> None:
        """A conversation somewhere else, which has ended."""
        channel, now = f"stackchan:backlog-{self.sessions}", _now()
        first = _UNTOLD + self.sessions * EXCHANGES_OF_A_SESSION
        self.sessions += 1
        told = [worlds.story(first + place) for place in range(EXCHANGES_OF_A_SESSION)]
        ids = [
            (await self._turn_ids.next_id(), await self._source_ids.next_id(), await self._source_ids.next_id())
            for _ in told
        ]
        async with self._databases.world() as db:
            await ensure_channel(db, channel, kind="stackchan", now=now)
            session = await open_session(
                db, channel_id=channel, device_id=None, now=now, idle_close=dt.timedelta(minutes=10)
            )
            for story, numbers in zip(told, ids, strict=True):
                await _exchange(db, session.session_id, channel, story, numbers, now)
            await close_session(db, session.session_id, now=now)
            await db.exec(text(_PARK))

    def _connect(self) -> sqlite3.Connection:
        path = self.data_dir / WORLDS / worlds.WORLD / SESSION_DATABASE
        return sqlite3.connect(path, timeout=30, isolation_level=None)

    def _count(self, sql: str) -> int:
        with closing(self._connect()) as connection:
            counted: int = connection.execute(sql).fetchone()[0]
        return counted


async def _exchange(
    db: Db, session_id: str, channel: str, story: worlds.Story, ids: tuple[int, int, int], now: dt.datetime
) -> None:
    turn_id, source, robot = ids
    spoken: dict[str, Any] = {"language": "ja", "said_at": now, "zone": worlds.ZONE.key}
    await create_turn(
        db,
        turn_id=turn_id,
        session_id=session_id,
        channel_id=channel,
        device_id=None,
        input_kind="text",
        persona_id=worlds.PERSONA,
        started_at=now,
    )
    await add_user_turn(db, turn_id, source, text=story.said, speaker_id=None, **spoken)
    words = RobotWords(robot, story.answered, **spoken)
    await finish_turn(db, turn_id, outcome="ok", ended_at=now, robot=words)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
