"""A second look at the best that a search found: by a reranker, if there is one and it is quick enough.

It only orders what was found; whether anything was, has been decided. One that is late or fails is left out, and the
order of words and vectors stays. Knows no search.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from server.engines.base import RerankEngine
from server.errors import RerankError
from server.memory import fusion
from server.memory.indexer import memory_text
from server.storage.memory_records import Memory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reranked:
    """What was found, best first. `scores`: what it is ordered by."""

    memories: Sequence[Memory]
    scores: Mapping[str, float]
    looked_at: int = 0
    trouble: str | None = None
    """Why the order is the one before: an error's code, or `timeout`."""


class Reranking:
    """`most`: the best so many are looked at; `seconds`: no longer than this."""

    def __init__(self, engine: RerankEngine, *, most: int, seconds: float) -> None:
        self.most = most
        self._engine = engine
        self._seconds = seconds

    async def order(
        self, question: str, memories: Sequence[Memory], scores: Mapping[str, float], share: float
    ) -> Reranked:
        """What answers best comes first. `memories`: best first by their fused `scores`; `share`: of the judgement in
        the new ones. Raises nothing of the engine.
        """
        best = memories[: self.most]
        try:
            async with asyncio.timeout(self._seconds):
                judged = await self._engine.rerank(question, [memory_text(memory) for memory in best])
        except (RerankError, TimeoutError) as error:
            trouble = error.code if isinstance(error, RerankError) else "timeout"
            _log.warning("the reranker was left out of a search: %s", trouble)
            return Reranked(memories, scores, trouble=trouble)
        if len(judged) != len(best) or not all(map(math.isfinite, judged)):
            _log.error("the reranker %s gave what are no judgements", self._engine.name)
            return Reranked(memories, scores, trouble=RerankError.default_code)
        shares = {memory.memory_id: each for memory, each in zip(best, judged, strict=True)}
        blended = fusion.blended({one.memory_id: scores[one.memory_id] for one in memories}, shares, share)
        by_id = {one.memory_id: one for one in memories}
        recency = {key: one.occurred_at.timestamp() for key, one in by_id.items()}
        return Reranked([by_id[key] for key in fusion.in_order(blended, recency)], blended, len(best))
