"""A house that makes memories: real SQLite, the real local index, vectors made of words, a scripted summarizer."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from server.engines.base import (
    EmbeddingFingerprint,
    LlmCapabilities,
    LlmDelta,
    LlmDone,
    LlmMessage,
    LlmRequest,
    LlmText,
    ToolSpec,
)
from server.events import Samples
from server.memory.contradiction import KeepRecipe
from server.memory.index.base import MemoryIndex
from server.memory.index.factory import IndexKind, open_index
from server.memory.indexer import Indexer
from server.memory.ingest import Ingestor
from server.memory.keeper import Keeper
from server.memory.recall import Recall
from server.memory.recall_records import SearchQuery
from server.memory.segment import SegmentRecipe
from server.memory.worker import MemoryWorker, TurnGate, WorkerRecipe
from server.storage import memory_lookup
from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.ids import IdAllocator
from server.storage.memory_records import Memory
from server.storage.sessions import close_session, open_session
from server.storage.turns import RobotWords, add_user_turn, create_turn, finish_turn
from server.storage.words import tokens

TOKYO = ZoneInfo("Asia/Tokyo")
PERSONA = "tester"
MONDAY = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
DIMENSIONS = 256
SEGMENTING = SegmentRecipe("test", drop=0.2, never_above=0.6)
KEEPING = KeepRecipe("test", duplicate=0.85, same_matter=0.4, corrected=0.25)
Summaries = Callable[[list[str], LlmRequest], Sequence[Mapping[str, Any]]]
"""What the summarizer writes for the user's lines of a transcript."""


class WordVectors:
    """Texts that share words point the same way."""

    name = "words"
    fingerprint = EmbeddingFingerprint("words", DIMENSIONS)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        return np.stack([_vector(text) for text in texts]) if texts else np.zeros((0, DIMENSIONS), np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        return await self.embed_queries(texts)


def _vector(text: str) -> Samples:
    vector = np.full(DIMENSIONS, 0.01, np.float32)
    for word in tokens(text):
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


class Summarizer:
    """Writes what `summaries` says, in small pieces. `pause`: to wait for before each answer; `error`: raised."""

    name = "summarizer"
    # Trusted with summaries; a small model is not (`quoting.py`).
    capabilities = LlmCapabilities(
        native_tools=False, max_tools=8, streams=True, context_tokens=4096, wants_examples=False
    )

    def __init__(self, summaries: Summaries) -> None:
        self.summaries = summaries
        self.requests: list[LlmRequest] = []
        self.pause: asyncio.Event | None = None
        self.error: Exception | None = None
        self.cancelled = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        self.requests.append(request)
        try:
            if self.pause is not None:
                await self.pause.wait()
            if self.error is not None:
                raise self.error
            said = re.findall(r"^\d+ (?:人|User): (.*)$", last_transcript(request), re.MULTILINE)
            text = json.dumps({"memories": list(self.summaries(said, request))}, ensure_ascii=False)
            for start in range(0, len(text), 40):
                yield LlmText(text[start : start + 40])
                await asyncio.sleep(0)
            yield LlmDone("stop")
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled += 1
            raise

    async def count_tokens(self, text: str) -> int:
        return len(text)

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None: ...
    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None: ...


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `holds` does; fails after five seconds."""
    for _ in range(1000):
        if await holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to hold")


def last_transcript(request: LlmRequest) -> str:
    """The conversation that is asked about, also in a request to repair."""
    shown = [message.content for message in request.messages if re.match(r"(?:日付|Date): ", message.content)]
    return shown[-1]


def note(summary: str, *entities: str, about: Sequence[int] = (1,), **changes: Any) -> dict[str, Any]:
    """A memory as the summarizer writes it."""
    fields: dict[str, Any] = {
        "about": list(about),
        "memory_type": "episode",
        "topic": entities[0] if entities else "話",
        "summary": summary,
        "entities": list(entities),
        "importance": 3,
    }
    return fields | changes


class House:
    """Everything beside a conversation. `at`: what time it is; move it on as you like."""

    def __init__(
        self, databases: Databases, index: MemoryIndex, summarizer: Summarizer, *, quotes: bool = False, **worker: Any
    ) -> None:
        self.databases = databases
        self.index = index
        self.summarizer = summarizer
        self.at = MONDAY
        self.embedding = WordVectors()
        self.gate = TurnGate()
        self.recall = Recall(lambda: databases.world(write=False), index, self.embedding)
        self.keeper = Keeper(databases, index, self.embedding, clock=self.clock, recipe=KEEPING)
        self.indexer = Indexer(databases, index, self.embedding, clock=self.clock)
        self.ingestor = Ingestor(
            databases, summarizer, self.embedding, self.keeper, clock=self.clock, segmenting=SEGMENTING, quotes=quotes
        )
        self.worker = MemoryWorker(
            databases,
            {
                "ingest": self.ingestor.ingest,
                "index": self.indexer.index_memory,
                "unindex": self.indexer.unindex_memory,
                "scrub": self.keeper.scrub,
            },
            self.gate,
            clock=self.clock,
            recipe=WorkerRecipe(**worker),
        )
        self.turn_ids = IdAllocator(databases.server, "turn")
        self._source_ids = IdAllocator(databases.server, "source_turn")

    def clock(self) -> dt.datetime:
        return self.at

    async def open_session(self, *, channel_id: str = "stackchan:desk", private: bool = False) -> str:
        async with self.databases.world() as db:
            await ensure_channel(db, channel_id, kind="stackchan", now=self.at, private=private)
            opened = await open_session(
                db, channel_id=channel_id, device_id="desk", now=self.at, idle_close=dt.timedelta(minutes=10)
            )
        return opened.session_id

    async def say(
        self,
        session_id: str,
        text: str,
        answer: str = "うん。",
        *,
        channel_id: str = "stackchan:desk",
        language: str = "ja",
        speaker_id: str | None = None,
        tool_calls: Sequence[Any] | None = None,
        turn_id: int | None = None,
    ) -> int:
        """One exchange, acknowledged when this returns; the id of its turn."""
        turn_id = await self.turn_ids.next_id() if turn_id is None else turn_id
        source, robot = await self._source_ids.next_id(), await self._source_ids.next_id()
        spoken: dict[str, Any] = {"language": language, "said_at": self.at, "zone": "Asia/Tokyo"}
        async with self.databases.world() as db:
            await create_turn(
                db,
                turn_id=turn_id,
                session_id=session_id,
                channel_id=channel_id,
                device_id="desk",
                input_kind="audio",
                persona_id=PERSONA,
                started_at=self.at,
            )
            await add_user_turn(db, turn_id, source, text=text, speaker_id=speaker_id, **spoken)
        async with self.databases.world() as db:
            words = RobotWords(robot, answer, tool_calls=tool_calls, **spoken)
            await finish_turn(db, turn_id, outcome="ok", ended_at=self.at, robot=words)
        return turn_id

    async def end(self, session_id: str) -> None:
        """The session is over, and all of it is taken in and indexed."""
        async with self.databases.world() as db:
            await close_session(db, session_id, now=self.at)
        await self.worker.session_ended(session_id)
        await self.worker.idle()

    async def talk(self, *said: str | tuple[str, str], **changes: Any) -> str:
        """A whole session, taken in."""
        where = {name: changes[name] for name in ("channel_id", "private") if name in changes}
        session_id = await self.open_session(**where)
        words = {name: value for name, value in changes.items() if name != "private"}
        for one in said:
            text, answer = (one, "うん。") if isinstance(one, str) else one
            await self.say(session_id, text, answer, **words)
        await self.end(session_id)
        return session_id

    async def memories(self) -> list[Memory]:
        """All that are not forgotten, oldest first."""
        async with self.databases.world(write=False) as db:
            return await memory_lookup.page(db, limit=10_000)

    async def found(self, text: str, **changes: Any) -> list[str]:
        result = await self.recall.search(self.asked(text, **changes))
        return [one.memory.summary for one in result.candidates]

    def asked(self, text: str, **changes: Any) -> SearchQuery:
        values: dict[str, Any] = {"persona": PERSONA, "speaker": None, "now": self.at, "zone": TOKYO}
        return SearchQuery(text, **(values | changes))


@asynccontextmanager
async def house(
    folder: Path, summaries: Summaries, *, backend: IndexKind = "local", **worker: Any
) -> AsyncIterator[House]:
    """A house with its worker running."""
    async with await Databases.open(folder, "home") as databases:
        index = open_index(backend, folder / "worlds" / "home" / "index", DIMENSIONS, WordVectors.fingerprint)
        await index.open()
        made = House(databases, index, Summarizer(summaries), **worker)
        await made.worker.start()
        try:
            yield made
        finally:
            await made.worker.close()
            await index.close()
