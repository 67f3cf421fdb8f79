"""A data folder with memories in it, and an embedding model of the test, for commands that need no server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.engines.base import EmbeddingFingerprint
from server.engines.registry import EngineEntry
from server.errors import EngineError
from server.events import Samples
from server.storage import memories
from server.storage.database import Databases
from server.storage.words import tokens
from tests.fakes.engines import FakeEmbedding
from tests.storage.house import NOW
from tests.storage.remembered import exchange, remember

OLD, PC, TEA, CAT = (f"mem_{number:026d}" for number in (1, 2, 3, 4))
SECRET = "三万円"


class WordsEmbedding(FakeEmbedding):
    """Texts that share words are near: each word is a place in 64 dimensions."""

    fingerprint = EmbeddingFingerprint("words-of-the-test", 64)
    started = 0

    async def start(self) -> None:
        type(self).started += 1

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        vectors = np.full((len(texts), 64), 0.01, np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in tokens(text):
                row[hashlib.sha256(word.encode()).digest()[0] % 64] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class OtherEmbedding(WordsEmbedding):
    fingerprint = EmbeddingFingerprint("another-of-the-test", 64)


def use_embedding(monkeypatch: pytest.MonkeyPatch, engine: type[WordsEmbedding] | EngineError) -> None:
    def find(settings: Any, kind: str) -> EngineEntry:
        assert kind == "embedding"
        if isinstance(engine, EngineError):
            raise engine
        return EngineEntry((), "", lambda settings, persona: engine())

    monkeypatch.setattr("server.engines.registry.find_engine", find)


def in_database(data_dir: Path, work: Any) -> Any:
    async def run() -> Any:
        async with await Databases.open(data_dir, "home") as databases:
            return await work(databases)

    return asyncio.run(run())


async def _fill(databases: Databases) -> None:
    await exchange(databases, 1, f"中古の富士通のパソコンを{SECRET}で買ったよ", speaker_id="hiro")
    await exchange(databases, 2, "違う、二万五千円", speaker_id="hiro", channel_id="stackchan:hall")
    await exchange(databases, 3, "お茶が好き", channel_id="stackchan:kitchen")
    await remember(databases, 1, "富士通のパソコンを30,000円で買った。", source_turn_ids=(10,))
    await remember(databases, 2, "富士通のパソコンを25,000円で買った。", source_turn_ids=(20,), speakers=("hiro",))
    changes: dict[str, Any] = {"topic": "好み", "entities": (), "memory_type": "preference"}
    await remember(databases, 3, "お茶が好き。", source_turn_ids=(30,), **changes)
    await remember(databases, 4, "猫の名前はミケ。", visibility="private", speakers=("hana",), **changes)
    async with databases.world() as db:
        await memories.supersede(db, OLD, PC, now=NOW)


def fill(data_dir: Path) -> None:
    """Three exchanges and four memories, one of them replaced and one private."""
    in_database(data_dir, _fill)
