"""Whether what somebody speaks of is remembered, seen without a language model: by words, else by meaning."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from server.engines.base import CosineCalibration, EmbeddingFingerprint
from server.events import Samples
from server.memory.asked import (
    MENTIONED_LOG_ODDS,
    OF_THE_CLOCK_LOG_ODDS,
    OF_THEIR_LIFE_LOG_ODDS,
    TOLD_LOG_ODDS,
    UNMENTIONED_LOG_ODDS,
    query_of,
)
from server.memory.indexer import document_text
from server.memory.recall_records import SearchResult
from tests.memory.home import PC, Home, capabilities
from tests.memory.making import DIMENSIONS, WordVectors

pytestmark = pytest.mark.integration

TOKYO = ZoneInfo("Asia/Tokyo")
IN_OTHER_WORDS = "この前手に入れた機械、いくらだったっけ"


class Meanings(WordVectors):
    """Knows that a question in other words is about the computer."""

    def __init__(self, model: str = "of the test") -> None:
        self.fingerprint = EmbeddingFingerprint(model, DIMENSIONS)
        self.calibration = CosineCalibration(0.758, 0.039, "as E5's")
        self.questions: list[str] = []

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        self.questions += texts
        meant = document_text("富士通", PC)
        return await super().embed_queries([meant if text == IN_OTHER_WORDS else text for text in texts])

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        return await super().embed_queries(texts)


class AtTheClock(Meanings):
    """Hears in some words what a clock says, and half of it about the computer."""

    def __init__(self, words: str, clock: str) -> None:
        super().__init__()
        self.words, self.clock = words, clock

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        vectors = await super().embed_queries(texts)
        for place, text in enumerate(texts):
            if text == self.words:
                about_both = await super().embed_queries([document_text("富士通", PC), self.clock])
                vectors[place] = np.array([0.9, 0.4], np.float32) @ about_both
                if self.clock != "nothing":
                    vectors[place] = np.array([0.85, 0.95], np.float32) @ about_both
        return vectors


async def offered(folder: Path, words: str, *, small: bool = True) -> tuple[float | None, bool]:
    """What the search is offered with, and whether vectors were asked for that."""
    home = Home(folder)
    embedding = Meanings()
    async with home.open(embedding=embedding) as memory:
        await home.remember_the_pc()
        embedding.questions.clear()
        search = memory.tools_for(capabilities(small=small))[0]
        return await search.offer(home.asker(words)), bool(embedding.questions)


async def test_the_nearer_a_memory_is_in_meaning_the_likelier_is_a_search(tmp_path: Path) -> None:
    near, asked_for_it = await offered(tmp_path / "1", IN_OTHER_WORDS)
    far, asked_for_that = await offered(tmp_path / "2", "今日は空がきれいだね")
    assert near is not None
    assert far is not None
    assert far <= UNMENTIONED_LOG_ODDS < 0 < MENTIONED_LOG_ODDS <= near
    assert (asked_for_it, asked_for_that) == (True, True)


@pytest.mark.parametrize(("cosine", "leaning"), [(0.7, -1.25), (0.82, -0.5), (0.825, 0.0), (0.85, 4.5), (0.99, 6.0)])
async def test_the_leaning_grows_with_the_nearest_cosine_and_has_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cosine: float, leaning: float
) -> None:
    home = Home(tmp_path)
    async with home.open(embedding=Meanings()) as memory:
        await home.remember_the_pc()
        found = await memory.recall.search(query_of(home.asker("今日は空がきれいだね"), IN_OTHER_WORDS))
        (candidate,) = found.candidates

        async def search(query: object) -> SearchResult:
            worse = replace(candidate, retrieval_score=cosine - 0.1)
            return replace(found, candidates=(worse, replace(candidate, retrieval_score=cosine)))

        monkeypatch.setattr(memory.recall, "search", search)
        offered = await memory.tools_for(capabilities(small=True))[0].offer(home.asker(IN_OTHER_WORDS))
    assert offered == pytest.approx(leaning, abs=0.02)


@pytest.mark.parametrize(
    ("words", "clock"),
    [
        ("今日って月曜日だっけ？", "今は2026年11月30日 月曜日 10時0分。"),
        ("Is it Monday today?", "It is Monday, November 30, 2026, 10:00."),
    ],
)
async def test_what_is_nearer_to_the_clock_than_to_any_memory_is_not_looked_up(
    tmp_path: Path, words: str, clock: str
) -> None:
    home = Home(tmp_path)
    embedding = AtTheClock(words, clock)
    async with home.open(embedding=embedding) as memory:
        await home.remember_the_pc()
        search = memory.tools_for(capabilities(small=True))[0]
        asker = replace(home.asker(words), asked_at=dt.datetime(2026, 11, 30, 1, 20, tzinfo=dt.UTC), zone=TOKYO)
        assert await search.offer(asker) == OF_THE_CLOCK_LOG_ODDS < UNMENTIONED_LOG_ODDS
        embedding.clock = "nothing"
        memory._queries.forget()
        later = replace(asker, asked_at=asker.asked_at + dt.timedelta(hours=1))
        offered = await search.offer(later)
    assert offered is not None
    assert offered > MENTIONED_LOG_ODDS


async def test_a_word_in_common_tells_whatever_the_vectors_say(tmp_path: Path) -> None:
    assert await offered(tmp_path, "富士通の値段は？") == (MENTIONED_LOG_ODDS, True)


async def test_nobody_waits_for_vectors_where_the_model_decides_by_itself(tmp_path: Path) -> None:
    assert await offered(tmp_path, IN_OTHER_WORDS, small=False) == (UNMENTIONED_LOG_ODDS, False)


@pytest.mark.parametrize(
    ("words", "language", "leaning"),
    [
        ("おはよう、スタックチャン", "ja", None),
        ("Hi StackChan!", "en", None),
        ("今日は何曜日？", "ja", None),
        ("What time is it?", "en", None),
        ("富士通のパソコンにメモリを足したんだ", "ja", TOLD_LOG_ODDS),
        ("I added memory to my Fujitsu computer.", "en", TOLD_LOG_ODDS),
        ("ぼくの嫌いなものって何だっけ", "ja", OF_THEIR_LIFE_LOG_ODDS),
        ("Which food do I hate?", "en", OF_THEIR_LIFE_LOG_ODDS),
    ],
)
async def test_a_greeting_and_the_time_are_looked_up_by_nobody_what_is_told_hardly_and_what_they_ask_of_themselves_most(
    tmp_path: Path, words: str, language: str, leaning: float | None
) -> None:
    home = Home(tmp_path)
    async with home.open(embedding=Meanings()) as memory:
        await home.remember_the_pc()
        asker = replace(home.asker(words), language=language)
        small, large = (memory.tools_for(capabilities(small=size))[0] for size in (True, False))
        assert await small.offer(asker) == leaning
        assert await large.offer(asker) in (MENTIONED_LOG_ODDS, UNMENTIONED_LOG_ODDS)
