"""Which clock a question is compared with, and that a defect in measuring cosines ends no housekeeping."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from server.events import Samples
from server.memory.asked import AskedMemory
from server.memory.asking import Asker
from tests.memory.home import Home, OtherVectors
from tests.memory.making import WordVectors

pytestmark = pytest.mark.integration


class Compared(WordVectors):
    """Keeps what was embedded as a document."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        self.told += texts
        return await super().embed_documents(texts)


@pytest.mark.parametrize(
    ("words", "clock"),
    [("What’s the time?", "It is"), ("What's the time?", "It is"), ("Café hours?", "It is"), ("今何時？", "今は")],
)
async def test_the_clock_speaks_the_language_of_the_question(words: str, clock: str) -> None:
    vectors = Compared()
    memory = AskedMemory(cast(Any, None), cast(Any, None), cast(Any, None), embedding=vectors)
    await memory._cosine_of_the_clock(Asker("p", None, "s", 1, dt.datetime(2026, 12, 1, tzinfo=dt.UTC), dt.UTC, words))
    assert vectors.told[0].startswith(clock)


async def test_a_defect_in_measuring_ends_no_housekeeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def broken(engine: object) -> None:
        asked.set()
        raise RuntimeError("a defect")

    monkeypatch.setattr("server.memory.service.measured", broken)
    async with Home(tmp_path).open(embedding=OtherVectors()) as memory:
        await asyncio.wait_for(asked.wait(), 5)
        await asyncio.sleep(0)
        assert memory._housekeeping is not None
        assert not memory._housekeeping.done()
