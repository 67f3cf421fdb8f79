"""What of a found memory answers a question, for a model too small to see it: the sentence, and whether it is near.

A memory may tell of two things; of those the small model takes either. And it takes whatever it is shown for an answer,
so what has nothing to do with the question is left out, and what only may have is marked. Large models judge that by
themselves and get everything. Knows no model of language and no index.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from server.engines.base import EmbeddingEngine
from server.errors import EmbeddingError
from server.events import Samples
from server.memory.nearness import Nearness
from server.memory.question_words import telling_words
from server.memory.questions import asks, sentences
from server.memory.recall_records import Candidate, SearchResult
from server.memory.request_words import LIGHT_ENGLISH, LIGHT_JAPANESE

_log = logging.getLogger(__name__)
_LIGHT = LIGHT_JAPANESE | LIGHT_ENGLISH
_LATIN = re.compile(r"[A-Za-z]+")
_LOOKED_AT = 3
_MOST_SENTENCES = 8
_UNSURE_WIDTHS = 0.5
"""So far below what is near it may be meant all the same: the 30 questions that `meant` was chosen with lie above."""
_ALIKE_WIDTHS = 0.2
_WORD_WIDTHS = 0.4
"""What a word in common counts for in choosing a sentence."""
_GOES_ON = re.compile(
    r"^(?:それ|そこ|その|あれ|あそこ|これ|ここ)|^(?:its?|it's|he|she|they|that|this|there)\b", re.IGNORECASE
)
_Verdict = Literal["near", "unsure", "far"]


async def to_the_point(
    result: SearchResult, question: str, embedding: EmbeddingEngine | None, near: Nearness | None
) -> SearchResult:
    """`result` without candidates that are far from the question, each with the sentences that answer it.

    `near` None: how near they are cannot be told by vectors, and nothing is left out.
    """
    vector: Samples | None = None
    if near is not None and embedding is not None and result.candidates:
        try:
            vector = (await embedding.embed_queries([question]))[0]
        except EmbeddingError as error:
            _log.warning("sentences of memories are not compared: %s", error.code)
    # Before their forms are made: prices would stay of price.
    heavy = _LATIN.sub(lambda word: " " if word[0].casefold() in _LIGHT else word[0], question)
    words = frozenset(word.casefold() for word in telling_words(heavy)) - _LIGHT
    kept: list[tuple[Candidate, _Verdict]] = []
    for candidate in result.candidates[:_LOOKED_AT]:
        found = _telling(candidate.memory.summary)
        cosines = await _cosines(found, vector, embedding)
        verdict: _Verdict = "near"
        if near is not None and vector is not None:
            verdict = _verdict(max([candidate.retrieval_score or 0.0, *cosines]), candidate, words, near)
        if verdict != "far":
            answer = _answering(found, cosines, words, near)
            kept.append((replace(candidate, answer=answer, unsure=verdict == "unsure"), verdict))
    # Of several that only may be meant, or one that is and others that may be, the first is.
    ambiguous = result.ambiguous and len(kept) > 1 and kept[0][1] == kept[1][1] == "near"
    return replace(result, candidates=tuple(one for one, _ in kept), ambiguous=ambiguous)


def _telling(summary: str) -> tuple[str, ...]:
    """Its sentences, without what was asked beside what was told."""
    found = tuple(sentences(summary))[:_MOST_SENTENCES]
    return tuple(text for text in found if not asks(text)) or found


async def _cosines(
    found: Sequence[str], vector: Samples | None, embedding: EmbeddingEngine | None
) -> tuple[float, ...]:
    """How near each sentence is; nothing where there is only one, or no telling."""
    if len(found) < 2 or vector is None or embedding is None:
        return ()
    try:
        return tuple(float(np.dot(one, vector)) for one in await embedding.embed_documents(found))
    except EmbeddingError as error:
        _log.warning("sentences of memories are not compared: %s", error.code)
        return ()


def _verdict(nearest: float, candidate: Candidate, words: frozenset[str], near: Nearness) -> _Verdict:
    if nearest >= near.meant or candidate.retrieval_score is None:
        return "near"
    if _shared(candidate.memory.summary, words):
        return "near"
    return "unsure" if nearest >= near.meant - _UNSURE_WIDTHS * near.width else "far"


def _answering(
    found: Sequence[str], cosines: Sequence[float], words: frozenset[str], near: Nearness | None
) -> str | None:
    """The sentences nearest to the question, in their order; all that tell where it cannot be told. None: none."""
    if len(found) < 2:
        return found[0] if found else None
    width = near.width if near is not None else 1.0
    scores = [
        _WORD_WIDTHS * width * min(2, _shared(text, words)) + (cosines[place] if cosines else 0.0)
        for place, text in enumerate(found)
    ]
    best = max(scores)
    chosen = {place for place, score in enumerate(scores) if best - score <= _ALIKE_WIDTHS * width}
    chosen |= {place - 1 for place in chosen if place and _GOES_ON.search(found[place])}
    latin = all(text.isascii() for text in found)
    return (" " if latin else "").join(text for place, text in enumerate(found) if place in chosen)


def _shared(text: str, words: frozenset[str]) -> int:
    """How many telling words of the question stand in a text."""
    return len(words & {word.casefold() for word in telling_words(text)})
