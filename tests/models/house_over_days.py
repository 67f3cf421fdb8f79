"""A whole server with the real small models, whose clock the test turns; and every way in which words can be found.

Its ears and its voice are fakes: what is said comes in as text over HTTP. Opened again it is the same house.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from sqlmodel import select

from server.app import create_app
from server.config import load_settings
from server.engines.base import EmbeddingEngine, Engines
from server.engines.registry import build_engines
from server.memory.recall_records import SearchQuery
from server.memory.service import LongTermMemory
from server.persona import Persona, default_persona_path, load_persona
from server.storage import word_index
from server.storage.memory_records import EVERY_STATUS, MemoryFilter, SourceFilter
from server.storage.session_tables import SourceTurnRow
from tests.fakes.engines import FakeAsr, FakeTts, FakeVad
from tests.language_model import THREADS

FIRST_DAY = dt.datetime(2026, 11, 20, 1, 0, tzinfo=dt.UTC)
START_SECONDS = 400.0
"""The prompt is read once on a slow machine; after that it is on the disk."""
ANSWER_SECONDS = "300"
"""Whatever else runs on this machine: what is looked at is what it says, not how soon."""
BETWEEN_TURNS = dt.timedelta(minutes=1)
SILENCE = dt.timedelta(minutes=20)
"""After so long a session is over."""
KEPT_SETTING = "STACKCHAN_MODEL_DIR"


@dataclass(frozen=True, slots=True)
class Turn:
    """What was answered at once, before anything in it could be forgotten."""

    turn_id: int
    said: str
    reply: str
    searched: bool
    source_checked: bool
    memory_ids: tuple[str, ...]
    llm_calls: int | None
    """None where the turn forgot and nothing of it is kept."""
    tool_calls: Any

    def __str__(self) -> str:
        return f"{self.said} -> {self.reply} ({self.llm_calls} calls; {self.tool_calls})"


@dataclass(frozen=True, slots=True)
class Secret:
    """What is to be forgotten: `words` that stand in it, and how somebody would ask for it."""

    words: tuple[str, ...]
    question: str

    def is_in(self, told: object) -> bool:
        """Whether any JSON-able thing holds one of the words."""
        text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
        return any(word.casefold() in text.casefold() for word in self.words)


class House:
    """`data_dir`: its data folder. `now`: what its clock shows."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.now = FIRST_DAY
        self.turns: list[Turn] = []
        self._app: Any = None
        self._client: httpx2.AsyncClient | None = None
        self._persona: Persona
        self._embedding: EmbeddingEngine

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Start the server; stop it at the end."""
        env = {KEPT_SETTING: os.environ[KEPT_SETTING]} if KEPT_SETTING in os.environ else {}
        env |= {"STACKCHAN_LLM__THREADS": str(THREADS or 0), "STACKCHAN_LLM__TIMEOUT_SECONDS": ANSWER_SECONDS}
        settings = load_settings(env, data_dir=self.data_dir)
        persona = load_persona(default_persona_path())
        real = build_engines(settings, persona)
        engines = Engines(FakeVad(), FakeAsr(), real.llm, FakeTts(), real.embedding)
        app = create_app(settings, persona, engines, clock=lambda: self.now)
        async with app.router.lifespan_context(app):
            await asyncio.wait_for(app.state.readiness.wait(), START_SECONDS)
            assert app.state.readiness.error is None, app.state.readiness.error
            headers = {"Authorization": f"Bearer {app.state.boot_token}", "Device-Id": "desk"}
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://house", headers=headers, timeout=120
            ) as client:
                self._app, self._client = app, client
                self._persona, self._embedding = persona, real.embedding
                yield
        self._app = self._client = None

    @property
    def memory(self) -> LongTermMemory:
        memory: LongTermMemory = self._app.state.memory
        return memory

    async def get(self, path: str, **asked: Any) -> Any:
        """The JSON that the owner is answered."""
        response = await self._get(path, **asked)
        assert response.status_code == 200, response.text
        return response.json()

    async def status_of(self, path: str) -> int:
        return (await self._get(path)).status_code

    async def backup(self) -> bytes:
        """Everything in one file, as `stackchan backup` gets it."""
        response = await self._get("/v1/backup")
        assert response.status_code == 200, response.text
        return response.content

    async def say(self, session: str, text: str) -> Turn:
        """One turn, a minute after the one before."""
        self.now += BETWEEN_TURNS
        assert self._client is not None
        response = await self._client.post("/v1/turns", json={"text": text}, headers={"Session-Id": session})
        answer = response.json()
        assert (response.status_code, answer["outcome"], answer["error"]) == (200, "ok", None), response.text
        trace = (await self.get(f"/v1/turns/{answer['turn_id']}/trace"))["trace"]
        memory = answer["memory"]
        turn = Turn(
            answer["turn_id"],
            text,
            answer["reply"],
            memory["searched"],
            memory["source_checked"],
            tuple(memory["memory_ids"]),
            trace["llm"]["calls"] if trace else None,
            await self._tool_calls(answer["turn_id"]),
        )
        self.turns.append(turn)
        return turn

    async def pass_time(self, days: int = 0) -> None:
        """The robot is left alone until its session is over and all work of its memory is done."""
        self.now += dt.timedelta(days=days) or SILENCE
        await self.memory.worker.idle()

    async def memories(self, status: str = "active") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get("/v1/memories", status=status))["memories"]
        return found

    async def where_found(self, secret: Secret, memory_ids: Collection[str], turn_ids: Iterable[int]) -> set[str]:
        """The places where somebody who looks for it now finds it; the house is open."""
        return {
            place
            for place, found in {
                **await self._found_by_owner(secret, memory_ids, turn_ids),
                **await self._found_by_words(secret),
                **await self._found_by_vectors(secret, memory_ids),
                "names to hear": secret.is_in(list(self.memory.hot_words_for("a new one", None))),
                "bytes": bool(self.files_with(secret)),
            }.items()
            if found
        }

    def files_with(self, secret: Secret) -> list[str]:
        """The files of the data folder in which one of the words stands, plain or as JSON writes it."""
        needles = {word.encode() for word in secret.words} | {json.dumps(word)[1:-1].encode() for word in secret.words}
        files = [path for path in self.data_dir.rglob("*") if path.is_file()]
        return sorted(
            str(path.relative_to(self.data_dir))
            for path in files
            if any(needle in content for content in [path.read_bytes()] for needle in needles)
        )

    async def _tool_calls(self, turn_id: int) -> Any:
        robot = select(SourceTurnRow.tool_calls).where(SourceTurnRow.turn_id == turn_id, SourceTurnRow.role == "robot")
        async with self.memory.owner.databases.world(write=False) as db:
            return (await db.exec(robot)).first()

    async def _get(self, path: str, **asked: Any) -> httpx2.Response:
        assert self._client is not None
        return await self._client.get(path, params=asked)

    async def _found_by_owner(
        self, secret: Secret, memory_ids: Collection[str], turn_ids: Iterable[int]
    ) -> dict[str, bool]:
        searched = [await self.get("/v1/memories", query=secret.question, status=one) for one in ("active", "all")]
        exported = [json.loads(line) for line in (await self._get("/v1/memory/export")).text.splitlines()]
        assert "end" in exported[-1], exported[-1]
        turns = [(await self._get(f"/v1/turns/{turn_id}")).json() for turn_id in turn_ids]
        return {
            "search": any(secret.is_in(one) for one in searched),
            "list": secret.is_in(await self.memories("all")),
            "memory": any([await self.status_of(f"/v1/memories/{one}") == 200 for one in memory_ids]),
            "export": secret.is_in(exported),
            "turns": secret.is_in([[turn.get("transcript"), turn.get("reply")] for turn in turns]),
            "audit": secret.is_in(await self.get("/v1/memory/audit", sample=50)),
        }

    async def _found_by_words(self, secret: Secret) -> dict[str, bool]:
        words = " ".join(secret.words)
        wanted = MemoryFilter(self._persona.persona_id, None, statuses=EVERY_STATUS)
        said = SourceFilter(self._persona.persona_id, None)
        async with self.memory.owner.databases.world(write=False) as db:
            return {
                "words of memories": bool(await word_index.search_memories(db, words, wanted, limit=10)),
                "words of turns": bool(await word_index.search_source_turns(db, words, said, limit=10)),
            }

    async def _found_by_vectors(self, secret: Secret, memory_ids: Collection[str]) -> dict[str, bool]:
        index = self.memory.recall.index
        assert index is not None, self.memory.index_problem
        query = SearchQuery(secret.question, self._persona.persona_id, None, self.now, dt.UTC)
        recalled = await self.memory.recall.search(query)
        (vector,) = await self._embedding.embed_queries([secret.question])
        hits = await index.search(vector, limit=10)
        assert await index.count() == len(await index.ids())
        return {
            "recall": secret.is_in(
                [one.memory.summary for one in recalled.candidates] + [one.text for one in recalled.said]
            ),
            "vectors": bool({hit.memory_id for hit in hits} & set(memory_ids)),
            "vectors by id": bool(await index.vectors(memory_ids)),
        }
