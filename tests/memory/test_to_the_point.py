"""Of what was found a small model gets the sentence that answers, and nothing that has to do with something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from server.errors import EmbeddingError
from server.events import Samples
from server.memory.nearness import Nearness
from server.memory.recall_records import Candidate, Searched, SearchResult
from server.memory.to_the_point import to_the_point
from server.memory.tool_results import SMALL_MODEL_LIMITS, search_result
from tests.memory.making import WordVectors
from tests.memory.test_memory_tools import memory

pytestmark = pytest.mark.unit
NEAR = Nearness(0.8, 0.1)
BOTH = "ぼくはパクチーが大嫌いなんだ。自転車の鍵は赤い箱に入れたよ。"


class Told(WordVectors):
    """Cosines with the question as given; 0 for any other text."""

    def __init__(self, cosines: Mapping[str, float] | None = None) -> None:
        self.cosines = cosines

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        return np.array([[1.0, 0.0]] * len(texts), np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        if self.cosines is None:
            raise EmbeddingError("gone")
        return np.array([[self.cosines.get(text, 0.0), 0.0] for text in texts], np.float32)


def found(*memories: tuple[str, float | None], ambiguous: bool = False) -> SearchResult:
    candidates = [
        Candidate(memory(place, summary), cosine, 1.0 - place / 10) for place, (summary, cosine) in enumerate(memories)
    ]
    return SearchResult(tuple(candidates), (), ambiguous, Searched(len(candidates)))


async def shown(result: SearchResult, question: str, cosines: Mapping[str, float] | None = None) -> list[str]:
    given = await to_the_point(result, question, Told(cosines or {}), NEAR)
    return [("? " if one.unsure else "") + (one.answer or one.memory.summary) for one in given.candidates]


@pytest.mark.parametrize(
    ("question", "cosines", "answer"),
    [
        (
            "チャリの鍵どこ？",
            {"自転車の鍵は赤い箱に入れたよ。": 0.85, "ぼくはパクチーが大嫌いなんだ。": 0.8},
            "自転車の鍵は赤い箱に入れたよ。",
        ),
        (
            "苦手なものは？",
            {"自転車の鍵は赤い箱に入れたよ。": 0.7, "ぼくはパクチーが大嫌いなんだ。": 0.82},
            "ぼくはパクチーが大嫌いなんだ。",
        ),
        ("どっち？", {"自転車の鍵は赤い箱に入れたよ。": 0.81, "ぼくはパクチーが大嫌いなんだ。": 0.82}, BOTH),
    ],
)
async def test_of_several_sentences_the_nearest_is_shown(
    question: str, cosines: Mapping[str, float], answer: str
) -> None:
    assert await shown(found((BOTH, 0.85)), question, cosines) == [answer]


async def test_words_in_common_choose_where_vectors_tell_nothing() -> None:
    for embedding in (None, Told(None)):
        given = await to_the_point(found((BOTH, 0.9)), "自転車はどこ？", embedding, NEAR if embedding else None)
        assert [one.answer for one in given.candidates] == ["自転車の鍵は赤い箱に入れたよ。"]


async def test_a_sentence_that_goes_on_comes_with_the_one_before_and_a_question_never() -> None:
    summary = "I bought a kayak. It was 640 dollars. My cat is Luna. Is she well?"
    cosines = {"It was 640 dollars.": 0.9, "Is she well?": 0.95}
    assert await shown(found((summary, 0.8)), "How much?", cosines) == ["I bought a kayak. It was 640 dollars."]


@pytest.mark.parametrize(
    ("question", "cosine", "expected"),
    [
        ("鳥の名前は？", 0.81, ["傘は黄色だよ。"]),
        ("鳥の名前は？", 0.76, ["? 傘は黄色だよ。"]),
        ("鳥の名前は？", 0.74, []),
        ("黄色のものは？", 0.5, ["傘は黄色だよ。"]),
        ("鳥の名前は？", None, ["傘は黄色だよ。"]),
    ],
)
async def test_what_is_far_is_left_out_and_what_is_between_is_marked(
    question: str, cosine: float | None, expected: list[str]
) -> None:
    assert await shown(found(("傘は黄色だよ。", cosine)), question) == expected


async def test_the_next_one_answers_where_the_first_is_far() -> None:
    assert await shown(found(("傘は黄色。", 0.5), ("鳥はキウイ。", 0.9), ("猫はミケ。", 0.85)), "ペットは？") == [
        "鳥はキウイ。",
        "猫はミケ。",
    ]


@pytest.mark.parametrize(("second", "ambiguous"), [(0.9, True), (0.77, False), (0.5, False)])
async def test_only_what_is_near_can_be_meant_instead(second: float, ambiguous: bool) -> None:
    both = found(("赤い自転車を買った。", 0.9), ("青い傘を買った。", second), ambiguous=True)
    assert (await to_the_point(both, "どれ？", Told({}), NEAR)).ambiguous is ambiguous


async def test_a_light_word_in_common_brings_nothing_near() -> None:
    assert await shown(found(("値段は三万円。", 0.5)), "鳥の値段は？") == []
    assert await shown(found(("The price was 30 dollars.", 0.5)), "What was the price of the canoe?") == []


def test_a_small_model_is_shown_the_best_and_of_that_the_answer() -> None:
    both = found((BOTH, 0.9), ("傘は黄色。", 0.85))
    first = replace(both.candidates[0], answer="自転車の鍵は赤い箱に入れたよ。")
    told = search_result(replace(both, candidates=(first, both.candidates[1])), SMALL_MODEL_LIMITS)
    assert [one["summary"] for one in told["candidates"]] == ["自転車の鍵は赤い箱に入れたよ。"]
    choose = search_result(replace(both, ambiguous=True), SMALL_MODEL_LIMITS)
    assert [one["summary"] for one in choose["candidates"]] == [BOTH, "傘は黄色。"]
