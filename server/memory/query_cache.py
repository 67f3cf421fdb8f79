"""The embedding engine with a short memory: the words of a turn are looked up several times, and embedded once.

What a tool asks to know how near the words are, what searches for them, and what prepared them before the turn began
find the same vector. Knows no search and no turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from server.engines.base import EmbeddingEngine
from server.events import Samples

_KEPT = 32


class CachedQueries:
    """Implements `EmbeddingEngine` over another one, whose life is its own."""

    def __init__(self, engine: EmbeddingEngine) -> None:
        self.name = engine.name
        self.fingerprint = engine.fingerprint
        self._engine = engine
        self._kept: OrderedDict[str, Samples] = OrderedDict()

    def forget(self) -> None:
        """Keep nothing of what was asked."""
        self._kept.clear()

    async def start(self) -> None:
        await self._engine.start()

    async def close(self) -> None:
        self.forget()
        await self._engine.close()

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        """See `EmbeddingEngine`; of texts that were asked a moment ago, nothing is computed."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._kept]
        found = {text: self._kept[text] for text in texts if text in self._kept}
        if missing or not texts:
            vectors = await self._engine.embed_queries(missing)
            found |= dict(zip(missing, vectors, strict=True))
        for text in found:
            self._kept[text] = found[text]
            self._kept.move_to_end(text)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        dimensions = self.fingerprint.dimensions
        return np.stack([found[text] for text in texts]) if texts else np.zeros((0, dimensions), np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        """See `EmbeddingEngine`."""
        return await self._engine.embed_documents(texts)
