"""A data folder in which long-term memory is opened, talked to and closed, as a server does it."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from server.config_sections import MemorySettings, SessionSettings
from server.engines.base import EmbeddingFingerprint, LlmCapabilities
from server.memory.asking import Asker
from server.memory.reranking import Reranking
from server.memory.service import LongTermMemory
from server.storage import memory_lookup
from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.ids import IdAllocator
from server.storage.memory_records import Forgetting
from server.storage.sessions import open_session
from server.storage.turns import RobotWords, add_user_turn, create_turn, finish_turn
from tests.memory.making import DIMENSIONS, MONDAY, PERSONA, TOKYO, Summarizer, WordVectors, note

PC = "富士通のパソコンを三万円で買った。"


class OtherVectors(WordVectors):
    fingerprint = EmbeddingFingerprint("other", DIMENSIONS)


class Home:
    """A data folder in which memory is opened, used and closed, time after time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = folder / "worlds" / "home"
        self.at = MONDAY
        self.summarizer = Summarizer(
            lambda said, request: [note(PC, "富士通", "パソコン") for one in said if "富士通" in one]
        )
        self.told: list[Forgetting] = []
        self.searches: list[str] = []
        self.databases: Databases
        self.memory: LongTermMemory

    @asynccontextmanager
    async def open(
        self,
        *,
        embedding: WordVectors | None = None,
        start: bool = True,
        reranking: Reranking | None = None,
        **settings: Any,
    ) -> AsyncIterator[LongTermMemory]:
        async def remember(reached: Forgetting) -> None:
            self.told.append(reached)

        async with await Databases.open(self.folder, "home") as self.databases:
            self.memory = LongTermMemory(
                self.databases,
                self.summarizer,
                embedding or WordVectors(),
                MemorySettings(**settings),
                SessionSettings(),
                world_folder=self.world,
                persona_id=PERSONA,
                zone=TOKYO,
                clock=lambda: self.at,
                on_forgotten=(remember,),
                on_search=lambda outcome, seconds: self.searches.append(outcome),
                reranking=reranking,
            )
            try:
                await self.memory.open()
                if start:
                    await self.memory.start()
                yield self.memory
            finally:
                await self.memory.close()

    async def say(self, text: str, answer: str = "うん。", *, tool_calls: Sequence[Any] | None = None) -> Asker:
        """One exchange of the open session, told to the memory as a server does."""
        turn_ids, source_ids = (
            IdAllocator(self.databases.server, "turn"),
            IdAllocator(self.databases.server, "source_turn"),
        )
        turn_id, source, robot = await turn_ids.next_id(), await source_ids.next_id(), await source_ids.next_id()
        spoken: dict[str, Any] = {"language": "ja", "said_at": self.at, "zone": "Asia/Tokyo"}
        async with self.databases.world() as db:
            await ensure_channel(db, "stackchan:desk", kind="stackchan", now=self.at)
            session = await open_session(
                db, channel_id="stackchan:desk", device_id="desk", now=self.at, idle_close=dt.timedelta(minutes=10)
            )
            await create_turn(
                db,
                turn_id=turn_id,
                session_id=session.session_id,
                channel_id="stackchan:desk",
                device_id="desk",
                input_kind="audio",
                persona_id=PERSONA,
                started_at=self.at,
            )
            await add_user_turn(db, turn_id, source, text=text, speaker_id=None, **spoken)
        asker = Asker(PERSONA, None, session.session_id, turn_id, self.at, TOKYO, text)
        words = RobotWords(robot, answer, tool_calls=tool_calls, **spoken)
        async with self.databases.world() as db:
            await finish_turn(db, turn_id, outcome="ok", ended_at=self.at, robot=words)
        return asker

    async def remember_the_pc(self) -> Asker:
        """Says it, and lets the session end."""
        asker = await self.say("富士通のパソコンを三万円で買ったよ")
        await self.memory.turn_ended(asker)
        self.at += dt.timedelta(minutes=11)
        await self.memory.session_ended(asker.session_id)
        await self.memory.worker.idle()
        return asker

    def asker(self, words: str) -> Asker:
        return Asker(PERSONA, None, "another session", 10_000, self.at, TOKYO, words)

    async def search(self, words: str = "富士通のパソコンはいくらだった？", *, small: bool = False) -> dict[str, Any]:
        (tool, *_) = self.memory.tools_for(capabilities(small=small))
        return dict(await tool.run({"query": words}, self.asker(words)))

    async def stored(self) -> list[str]:
        async with self.databases.world(write=False) as db:
            return [one.summary for one in await memory_lookup.page(db)]


def capabilities(*, small: bool) -> LlmCapabilities:
    return LlmCapabilities(native_tools=not small, max_tools=8, streams=True, context_tokens=4096, wants_examples=small)
