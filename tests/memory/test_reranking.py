"""A reranker's second look at what a search found: it orders the best, and is left out when it is late or fails."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from server.errors import EngineError, RerankError
from server.memory.fusion import SUMMARIES_AND_SOURCES, blended
from server.memory.recall import Recall
from server.memory.recall_records import SearchResult
from server.memory.reranking import Reranking
from tests.memory.home import Home, capabilities
from tests.memory.making import House, Summarizer, house, note

pytestmark = pytest.mark.integration

TEA = "お茶は静岡の緑茶が好きだ。"
COFFEE = "コーヒーは深煎りが好きだ。"
BOTH = "朝はお茶とコーヒーのどちらも飲む。"
SAID = {"緑茶": note(TEA, "緑茶"), "深煎り": note(COFFEE, "コーヒー"), "どちらも": note(BOTH, "朝")}
QUESTION = "お茶とコーヒーはどれが好き？"


class Judge:
    """Implements `RerankEngine`: gives `shares` to texts that hold the word, 0 to the others."""

    name = "judge"

    def __init__(self, **shares: float) -> None:
        self.shares = shares
        self.asked: list[tuple[str, list[str]]] = []
        self.error: Exception | None = None
        self.hangs = False
        self.answer: list[float] | None = None

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        self.asked.append((query, list(documents)))
        if self.error is not None:
            raise self.error
        if self.hangs:
            await asyncio.Event().wait()
        if self.answer is not None:
            return self.answer
        return [max((share for word, share in self.shares.items() if word in one), default=0.0) for one in documents]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path, lambda said, _: [SAID[word] for one in said for word in SAID if word in one]) as made:
        for words in (f"私は{TEA}", f"でも{COFFEE}", f"実は{BOTH}"):
            await made.talk(words)
        yield made


async def search(home: House, judge: Judge, *, rerank: bool = True, most: int = 8, limit: int = 5) -> SearchResult:
    recall = Recall(
        lambda: home.databases.world(write=False),
        home.index,
        home.embedding,
        reranking=Reranking(judge, most=most, seconds=0.2 if judge.hangs else 10),
    )
    return await recall.search(home.asked(QUESTION, rerank=rerank, limit=limit))


def told(result: SearchResult) -> list[str]:
    return [one.memory.summary for one in result.candidates]


async def test_what_answers_best_comes_first(home: House) -> None:
    before = await search(home, Judge(), rerank=False)
    assert len(before.candidates) == 3
    last = told(before)[-1]
    word = next(word for word in SAID if word in last)
    judge = Judge(**{word: 1.0})
    after = await search(home, judge)
    assert told(after) == [last, *[one for one in told(before) if one != last]]
    assert (after.searched.reranked, after.searched.rerank_trouble) == (3, None)
    ((question, documents),) = judge.asked
    assert question == QUESTION
    assert [one.split("\n")[-1] for one in documents] == told(before)
    # What cosines say is not changed by it.
    assert {one.memory.summary: one.retrieval_score for one in after.candidates} == pytest.approx(
        {one.memory.summary: one.retrieval_score for one in before.candidates}
    )


async def test_only_the_best_are_looked_at_also_those_beyond_what_is_wanted(home: House) -> None:
    order = told(await search(home, Judge(), rerank=False))
    second = next(word for word in SAID if word in order[1])
    judge = Judge(**{second: 1.0})
    assert told(await search(home, judge, most=2, limit=1)) == [order[1]]
    assert len(judge.asked[0][1]) == 2


@pytest.mark.parametrize("trouble", ["late", "failed", "no numbers", "too few"])
async def test_without_its_judgement_the_order_stays(home: House, trouble: str) -> None:
    before = await search(home, Judge(), rerank=False)
    judge = Judge()
    judge.hangs = trouble == "late"
    judge.error = RerankError("broken") if trouble == "failed" else None
    judge.answer = {"no numbers": [float("nan")] * 3, "too few": [1.0]}.get(trouble)
    result = await search(home, judge)
    assert told(result) == told(before)
    assert [one.fused_score for one in result.candidates] == [one.fused_score for one in before.candidates]
    assert (result.searched.reranked, result.searched.rerank_trouble) == (
        0,
        "timeout" if trouble == "late" else "rerank_failed",
    )
    assert len(judge.asked) == 1


async def test_a_defect_of_it_is_none_of_ours(home: House) -> None:
    judge = Judge()
    judge.error = EngineError("another kind's")
    with pytest.raises(EngineError):
        await search(home, judge)


async def test_it_is_not_asked_for_hints_nor_where_vectors_were_late(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge()
    await search(home, judge, rerank=False)

    async def hang(texts: Sequence[str]) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(home.embedding, "embed_queries", hang)
    recall = Recall(
        lambda: home.databases.world(write=False),
        home.index,
        home.embedding,
        vectors_seconds=0.02,
        reranking=Reranking(judge, most=8, seconds=0.2),
    )
    result = await recall.search(home.asked(QUESTION, rerank=True))
    assert (result.searched.words_only, judge.asked) == ("timeout", [])
    assert result.candidates


async def test_what_was_forgotten_meanwhile_is_not_told(home: House) -> None:
    (tea,) = [one for one in await home.memories() if one.summary == TEA]

    class Forgetful(Judge):
        async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
            await home.keeper.forget([tea.memory_id])
            return [1.0] * len(documents)

    assert TEA not in told(await search(home, Forgetful()))


@pytest.mark.parametrize("small", [True, False])
async def test_a_models_search_is_reranked(tmp_path: Path, small: bool) -> None:
    home, judge = Home(tmp_path), Judge(コーヒー=1.0)
    home.summarizer = Summarizer(lambda said, _: [SAID[word] for one in said for word in SAID if word in one])
    async with home.open(reranking=Reranking(judge, most=8, seconds=1.0)) as memory:
        for words in (f"私は{TEA}", f"でも{COFFEE}"):
            asker = await home.say(words)
            home.at += dt.timedelta(minutes=11)
            await memory.session_ended(asker.session_id)
            await memory.worker.idle()
        assert not judge.asked
        (tool, *_) = memory.tools_for(capabilities(small=small))
        await tool.run({"query": QUESTION}, home.asker(QUESTION))
    assert len(judge.asked) == 1


def test_the_blend_is_seven_tenths_judgement() -> None:
    # Fused scores as parts of the best: 1, 0.5, 0.25, 0.
    scores = {"a": 2.0, "b": 1.0, "c": 0.5, "d": 0.0}
    assert SUMMARIES_AND_SOURCES.rerank == 0.7
    assert blended(scores, {"a": 0.0, "b": 1.0}, 0.7) == pytest.approx({"a": 0.3, "b": 0.85, "c": 0.075, "d": 0.0})
    assert blended({}, {}, 0.7) == {}
    # What was not looked at stays behind what was and was better, whatever is judged.
    assert blended(scores, {"a": 0.0, "b": 0.0}, 0.7)["b"] > blended(scores, {"a": 0.0, "b": 0.0}, 0.7)["c"]
