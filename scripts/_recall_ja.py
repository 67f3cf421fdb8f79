"""The Japanese question set in a real store: the project's own `Recall` over SQLite, the local index and the words.

Everything is written as the server would: exchanges as source turns, memories with their sources, vectors into the
index; then each question is asked on its own day. Nothing is asked of a language model.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from _vector_cache import VectorCache, Vectors
from tqdm import tqdm

from server.memory.fusion import Recipe
from server.memory.index.base import MemoryIndex
from server.memory.index.factory import open_index
from server.memory.indexer import index_point, memory_text
from server.memory.recall import Recall
from server.memory.recall_records import SearchQuery, SearchResult
from server.storage import memories
from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.memory_records import Memory, NewMemory
from server.storage.sessions import close_session, open_session
from server.storage.turns import RobotWords, add_user_turn, create_turn, finish_turn

ZONE = ZoneInfo("Asia/Tokyo")
PERSONA = "bench"
CHANNEL = "stackchan:bench"
LIMIT = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what was found."""

    question: dict[str, Any]
    wanted: frozenset[str]
    result: SearchResult

    @property
    def places(self) -> list[int]:
        """Places (from 1) of right memories."""
        found = enumerate(self.result.candidates, 1)
        return [place for place, one in found if one.memory.memory_id in self.wanted]


class CachedQueries:
    """The engine a `Recall` is given: vectors come from the cache."""

    name = "cached"

    def __init__(self, cache: VectorCache, engine: Any) -> None:
        self.fingerprint = engine.fingerprint
        self._cache = cache

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return await self._cache.vectors(texts, "query")

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._cache.vectors(texts, "document")


@dataclass(frozen=True, slots=True)
class House:
    """The set in a store, ready to be asked."""

    databases: Databases
    index: MemoryIndex
    embedding: CachedQueries
    questions: list[dict[str, Any]]
    memory_ids: dict[str, str]
    names: dict[str, str]
    """Of the people, by speaker id."""

    async def ask(self, recipe: Recipe, *, vectors: bool = True) -> list[Asked]:
        """Every question, with `recipe`; without `vectors` by words alone."""
        recall = Recall(
            lambda: self.databases.world(write=False),
            self.index if vectors else None,
            self.embedding,
            recipe=recipe,
            vectors_seconds=60,
        )
        await self.embedding.embed_queries([question["text"] for question in self.questions])
        asked = []
        for question in tqdm(self.questions, desc=recipe.name, unit="question"):
            text = question["text"]
            query = SearchQuery(
                text,
                PERSONA,
                question.get("speaker"),
                dt.datetime.fromisoformat(question["asked_on"]),
                ZONE,
                limit=LIMIT,
                about=tuple(who for who, name in self.names.items() if name in text),
            )
            wanted = frozenset(self.memory_ids[key] for key in question["memory_keys"])
            asked.append(Asked(question, wanted, await recall.search(query)))
        return asked


@asynccontextmanager
async def furnished(data: Path, folder: Path, cache: VectorCache, engine: Any) -> AsyncIterator[House]:
    """The set of `data` in a new store in `folder`."""
    people = _read(data / "speakers.json")
    stories = _read(data / "memories.json")
    lines = (data / "distractors.jsonl").read_text(encoding="utf-8").splitlines()
    stories += [json.loads(line) for line in lines]
    embedding = CachedQueries(cache, engine)
    async with await Databases.open(folder / "data", "bench") as databases:
        turns = await _say(databases, _read(data / "conversations.json"))
        stored = await _remember(databases, stories, turns)
        fingerprint = engine.fingerprint
        index = open_index("local", folder / "index", fingerprint.dimensions, fingerprint)
        await index.open()
        try:
            await _index(index, embedding, stored)
            ids = {story["key"]: memory.memory_id for story, memory in zip(stories, stored, strict=True)}
            names = {person["id"]: person["name"] for person in people}
            yield House(databases, index, embedding, _read(data / "questions.json"), ids, names)
        finally:
            await index.close()


def words_only(recipe: Recipe) -> Recipe:
    return replace(recipe, name=f"{recipe.name}, words only", summary_vectors=0.0)


def vectors_only(recipe: Recipe) -> Recipe:
    return replace(recipe, name=f"{recipe.name}, vectors only", summary_words=0.0, source_words=0.0, days=0, speaker=0)


async def _say(databases: Databases, conversations: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Store every exchange; the two source turns of each `conversation:turn`."""
    turns: dict[str, tuple[int, int]] = {}
    number = 0
    async with databases.world() as db:
        for talk in tqdm(conversations, desc="conversations", unit="conversation"):
            began = dt.datetime.fromisoformat(talk["session_date"])
            await ensure_channel(db, CHANNEL, kind="stackchan", now=began)
            session = await open_session(
                db, channel_id=CHANNEL, device_id="bench", now=began, idle_close=dt.timedelta(minutes=10)
            )
            for said in talk["exchanges"]:
                number += 1
                at = dt.datetime.fromisoformat(said["at"])
                await create_turn(
                    db,
                    turn_id=number,
                    session_id=session.session_id,
                    channel_id=CHANNEL,
                    device_id="bench",
                    input_kind="text",
                    persona_id=PERSONA,
                    started_at=at,
                )
                mine, answer = 2 * number, 2 * number + 1
                await add_user_turn(
                    db,
                    number,
                    mine,
                    text=said["user"],
                    language="ja",
                    speaker_id=said["speaker"],
                    said_at=at,
                    zone=ZONE.key,
                )
                words = RobotWords(answer, said["robot"], "ja", at, ZONE.key)
                await finish_turn(db, number, outcome="ok", ended_at=at, robot=words)
                turns[f"{talk['conversation_id']}:{said['turn']}"] = (mine, answer)
            await close_session(db, session.session_id, now=at, reason="requested")
    return turns


async def _remember(
    databases: Databases, stories: list[dict[str, Any]], turns: dict[str, tuple[int, int]]
) -> list[Memory]:
    ids = {story["key"]: f"mem_{number:026d}" for number, story in enumerate(stories, 1)}
    now = dt.datetime.now(dt.UTC)
    async with databases.world() as db:
        for story in tqdm(stories, desc="memories", unit="memory"):
            new = NewMemory(
                memory_id=ids[story["key"]],
                topic=story["topic"],
                summary=story["summary"],
                entities=tuple(story["entities"]),
                memory_type=story["memory_type"],
                occurred_at=dt.datetime.fromisoformat(story["occurred_at"]),
                zone=ZONE.key,
                language="ja",
                speakers=tuple(story["speakers"]),
                confidence="said",
                importance=3,
                persona_id=PERSONA,
                channel_id=CHANNEL,
                visibility="house",
                source_turn_ids=tuple(turns[key][0] for key in story["source_turns"]),
            )
            await memories.add(db, new, now=now)
        # The newest first: nothing may be superseded by what is superseded already.
        for story in sorted(stories, key=lambda one: one["occurred_at"], reverse=True):
            if story["status"] == "superseded":
                await memories.supersede(db, ids[story["key"]], _newest(stories, story, ids), now=now)
        return await memories.get_many(db, list(ids.values()))


def _newest(stories: list[dict[str, Any]], story: dict[str, Any], ids: dict[str, str]) -> str:
    by_key = {one["key"]: one for one in stories}
    while story["superseded_by"]:
        story = by_key[story["superseded_by"]]
    return ids[story["key"]]


async def _index(index: MemoryIndex, embedding: CachedQueries, stored: list[Memory]) -> None:
    vectors = await embedding.embed_documents([memory_text(memory) for memory in stored])
    points = [index_point(memory, vector) for memory, vector in zip(stored, vectors, strict=True)]
    for start in range(0, len(points), 100):
        await index.upsert(points[start : start + 100])
        await asyncio.sleep(0)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
