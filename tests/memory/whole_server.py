"""What the tests of a whole server that remembers share: facts said over HTTP, and what is found of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from server.engines.base import (
    CosineCalibration,
    EmbeddingFingerprint,
    LlmCapabilities,
    LlmDelta,
    LlmDone,
    LlmRequest,
    LlmText,
)
from server.errors import EmbeddingError
from server.events import Samples
from server.memory.service import LongTermMemory
from server.storage import jobs, memory_lookup, segments
from tests.devices.conftest import LiveServer
from tests.fakes.engines import FakeLlm
from tests.memory.making import DIMENSIONS, WordVectors, last_transcript, note

FACTS: dict[str, tuple[str, ...]] = {
    "富士通のパソコンを三万円で買ったよ": ("富士通", "パソコン"),
    "猫のミケが動物病院で注射を打ったんだ": ("ミケ", "動物病院"),
    "My new Canon camera takes photos of birds": ("Canon", "camera"),
    "庭に植えたトマトが十二個できた": ("庭", "トマト"),
}
QUESTIONS = (
    "富士通のパソコンはいくらだった？",
    "ミケはどこで注射を打った？",
    "the Canon camera",
    "トマトはいくつできた？",
)
LATER = "盆栽の松の枝を切ったんだ"
EVERYTHING = FACTS | {LATER: ("盆栽", "松")}


class NotingLlm(FakeLlm):
    """Notes every fact of a transcript, and answers the same to everything else."""

    capabilities = LlmCapabilities(
        native_tools=True, max_tools=8, streams=True, context_tokens=100_000, wants_examples=False
    )

    async def generate(self, request: LlmRequest) -> AsyncIterator[LlmDelta]:
        written: dict[str, Any] = {"emotion": "happy", "action": "nod", "reply": "うん、わかったよ。"}
        if "memories" in json.dumps(request.answer_schema or {}):
            said = re.findall(r"^\d+ (?:人|User): (.*)$", last_transcript(request), re.MULTILINE)
            written = {
                "memories": [
                    note(text, *EVERYTHING[text], about=[place])
                    for place, text in enumerate(said, start=1)
                    if text in EVERYTHING
                ]
            }
        yield LlmText(json.dumps(written, ensure_ascii=False))
        yield LlmDone("stop")


class Vectors(WordVectors):
    """`error`: raised by every call. `gate`: waited for by the next one that makes vectors of memories."""

    calibration = CosineCalibration(0.108, 0.0996, "as `nearness.measured` finds them")
    error: Exception | None = None
    gate: asyncio.Event | None = None
    waiting = False

    async def embed_queries(self, texts: Any) -> Samples:
        if self.error is not None:
            raise self.error
        return await super().embed_queries(texts)

    async def embed_documents(self, texts: Any) -> Samples:
        gate, self.gate = self.gate, None
        if gate is not None:
            self.waiting = True
            await gate.wait()
        return await super().embed_documents(texts)


class OtherModel(Vectors):
    fingerprint = EmbeddingFingerprint("other", DIMENSIONS)


Found = dict[str, list[tuple[str, float | None]]]
"""{question: ids and scores, best first}"""
BROKEN = EmbeddingError("The embedding engine has lost its model.", code="embedding_failed", retryable=True)
_sessions = 0


def memory_of(live: LiveServer) -> LongTermMemory:
    memory: LongTermMemory = live.app.state.memory
    return memory


async def say(live: LiveServer, text: str) -> None:
    """A turn in a session of its own, which ends the one before."""
    global _sessions
    _sessions += 1
    response = await live.client.post("/v1/turns", json={"text": text}, headers={"Session-Id": f"one-{_sessions}"})
    assert (response.status_code, response.json()["outcome"]) == (200, "ok"), response.text


async def remember(live: LiveServer, *facts: str) -> None:
    """Say them, and have each made a memory and indexed."""
    for fact in facts or FACTS:
        await say(live, fact)
    await say(live, "おはよう")
    await memory_of(live).worker.idle()


async def get(live: LiveServer, path: str, **asked: Any) -> Any:
    response = await live.client.get(path, params=asked)
    assert response.status_code == 200, response.text
    return response.json()


async def problem(live: LiveServer) -> dict[str, Any] | None:
    """What the status says is wrong with the index, and what to do."""
    told: dict[str, Any] | None = (await get(live, "/v1/memory/status"))["index"]["problem"]
    return told


async def found(live: LiveServer) -> Found:
    """What a search finds for each question: ids and scores, best first."""
    answers = {question: await get(live, "/v1/memories", query=question) for question in QUESTIONS}
    return {
        question: [(one["memory_id"], one["retrieval_score"]) for one in answer["memories"]]
        for question, answer in answers.items()
    }


async def best(live: LiveServer) -> list[str]:
    """The summary of what is found first for each question, by whatever means."""
    answers = [await get(live, "/v1/memories", query=question) for question in QUESTIONS]
    return [answer["memories"][0]["summary"] for answer in answers if answer["memories"]]


def same(one: Found, other: Found) -> bool:
    """The same ids in the same order, scores within 1e-5; memories that came later are passed over."""
    known = {found_id for hits in one.values() for found_id, _ in hits}
    other = {question: [hit for hit in hits if hit[0] in known] for question, hits in other.items()}
    return one.keys() == other.keys() and all(
        [found_id for found_id, _ in one[question]] == [found_id for found_id, _ in other[question]]
        and all(
            a is not None and b is not None and abs(a - b) < 1e-5
            for (_, a), (_, b) in zip(one[question], other[question], strict=True)
        )
        for question in one
    )


async def rebuild(live: LiveServer) -> dict[str, Any]:
    """Rebuild over HTTP, to its end; how it ended."""
    response = await live.client.post("/v1/memory/rebuild")
    assert response.status_code == 202, response.text
    await memory_of(live).owner.rebuilding.wait()
    ended: dict[str, Any] = await get(live, "/v1/memory/rebuild")
    return ended


async def retried(live: LiveServer) -> None:
    """Let jobs that wait to be tried again run now."""
    memory = memory_of(live)
    async with memory._databases.world() as db:
        for one in await memory_lookup.pending_index(db, 1000):
            await jobs.enqueue(db, "index", one.memory_id, now=memory.owner.clock())
        for session_id in await segments.sessions_with_open_exchanges(db):
            await jobs.enqueue(db, "ingest", session_id, now=memory.owner.clock())
    memory.worker.wake()
    await memory.worker.idle()


async def vectors_agree(live: LiveServer) -> bool:
    """Whether there is a vector for each memory, made of what it says now, and no other."""
    memory = memory_of(live)
    async with memory._databases.world(write=False) as db:
        stored = {one.memory_id: f"{one.topic}\n{one.summary}" for one in await memory_lookup.page(db, limit=10_000)}
    index = memory.indexer.index
    assert index is not None
    vectors = await index.vectors(list(stored))
    made = await live.engines.embedding.embed_documents(list(stored.values()))
    return await index.ids() == set(stored) and all(
        float(vectors[memory_id] @ vector) > 1 - 1e-5 for memory_id, vector in zip(stored, made, strict=True)
    )


def index_folder(data: Path) -> Path:
    return data / "worlds" / "home" / "index"
