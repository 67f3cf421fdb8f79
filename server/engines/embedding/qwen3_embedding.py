"""Qwen3-Embedding through transformers: the state of the last token, cut to the dimensions wanted, of length 1.

By the model's own rules: an end token after every text, left padding, an instruction in English before a question and
none before what is kept. Shorter vectors are the first dimensions, normalised again (MRL). What vectors are compared
with, and what their cosines mean, is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from server.engines.base import EmbeddingFingerprint
from server.engines.queries_first import QueriesFirst
from server.engines.qwen3_hidden import Beginning, Dtype, Qwen3Hidden
from server.engines.worker import ModelThread
from server.errors import ConfigError, EmbeddingError, ModelError
from server.events import Samples

TASK = "Given what somebody says to a robot, retrieve notes of earlier conversations that answer it or are about it"
_SHARED = f"Instruct: {TASK}\nQuery"
"""The beginning of every question whose tokens do not depend on what follows: the colon may join the next word."""
_QUERY_TOKENS = 512
_DOCUMENT_TOKENS = 2_048
"""The model takes 32,768; what is kept are sentences, and a pasted book would hold a processor for minutes."""
_BATCH_TOKENS = 256
_BATCH_TEXTS = 16
"""So many go together, padding included: more is no faster on a processor, and takes more memory."""


class Qwen3Embedding:
    """Implements `EmbeddingEngine`. `folder`: a whole model; `model`: what it is called in the index's fingerprint.

    `dimensions`: None for all the model has. `threads`: None for torch's own choice. Reads `config.json` at once, so
    that the index knows how long vectors are; imports and loads at `start()`. Raises `ConfigError`, `ModelError`.
    """

    name = "qwen3-embedding"

    def __init__(
        self,
        folder: Path,
        *,
        model: str,
        dimensions: int | None = None,
        device: str = "cpu",
        dtype: Dtype = "auto",
        threads: int | None = None,
    ) -> None:
        whole = _hidden_size(folder)
        if dimensions is not None and dimensions > whole:
            raise ConfigError(
                f"embedding.dimensions: {model} gives {whole}, not {dimensions}.", hint=f"Set it to {whole} or less."
            )
        self.fingerprint = EmbeddingFingerprint(Path(model).name, dimensions or whole, TASK)
        self._folder = folder
        self._device = device
        self._dtype: Dtype = dtype
        self._threads = threads
        self._thread = ModelThread(self.name, EmbeddingError)
        self._questions = QueriesFirst(self._thread, self._embed_queries, EmbeddingError, most_texts=_BATCH_TEXTS)
        self._model: Qwen3Hidden | None = None
        self._shared: tuple[list[int], Beginning] | None = None

    async def start(self) -> None:
        await self._thread.start(self._load)

    async def close(self) -> None:
        await self._thread.close()
        self._model = self._shared = None

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        """Unit vectors of what is asked, float32, shape (len(texts), dimensions). Raises `EmbeddingError`.

        Goes before documents, also before those that are being read.
        """
        parts = [await self._questions.ask(texts[at : at + _BATCH_TEXTS]) for at in range(0, len(texts), _BATCH_TEXTS)]
        return np.concatenate(parts) if parts else await self._nothing()

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        """Unit vectors of what is kept, float32, shape (len(texts), dimensions). Raises `EmbeddingError`."""
        if not texts:
            return await self._nothing()
        tokens = await self._thread.call(self._tokens_of, tuple(texts))
        vectors = np.empty((len(texts), self.fingerprint.dimensions), np.float32)
        for batch in batches([len(ids) for ids in tokens]):
            vectors[batch] = await self._thread.call(self._vectors, [tokens[place] for place in batch])
        return vectors

    async def _nothing(self) -> Samples:
        return await self._thread.call(lambda: np.zeros((0, self.fingerprint.dimensions), np.float32))

    # --- on the thread ---

    def _load(self) -> None:
        model = Qwen3Hidden(
            self._folder,
            device=self._device,
            dtype=self._dtype,
            threads=self._threads,
            on_pause=lambda: self._questions.pause(),
        )
        self._model = model
        shared = model.control(_SHARED)
        self._shared = shared, model.read(shared)
        self._embed_queries(["こんにちは"])

    def _loaded(self) -> Qwen3Hidden:
        if self._model is None:
            raise EmbeddingError(f"The engine {self.name} is not running.", code="engine_unavailable")
        return self._model

    def _tokens_of(self, texts: Sequence[str]) -> list[list[int]]:
        model = self._loaded()
        return [[*model.tokens(text, _DOCUMENT_TOKENS - 1), model.end_id] for text in texts]

    def _embed_queries(self, texts: Sequence[str]) -> Samples:
        model = self._loaded()
        assert self._shared is not None
        shared, beginning = self._shared
        asked = [[*model.tokens(f"{_SHARED}:{text}", len(shared) + _QUERY_TOKENS), model.end_id] for text in texts]
        # A tokenizer that joins the beginning with what follows: it is read anew.
        if any(ids[: len(shared)] != shared for ids in asked):
            return self._vectors(asked)
        return self._vectors([ids[len(shared) :] for ids in asked], beginning)

    def _vectors(self, tokens: Sequence[Sequence[int]], after: Beginning | None = None) -> Samples:
        states: Samples = self._loaded().last(tokens, after).cpu().numpy()
        return unit(states[:, : self.fingerprint.dimensions])


def unit(vectors: Samples) -> Samples:
    """Each row with the length 1. Raises `EmbeddingError` when the model gave numbers that are none."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbeddingError("The embedding model gave numbers that are none.", hint="Try embedding.dtype float32.")
    return np.asarray(vectors / lengths, np.float32)


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Places of texts that go together: of about the same length, so that little is padding, and few enough."""
    found: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        width = lengths[found[-1][0]] if found else 0
        if found and len(found[-1]) < _BATCH_TEXTS and (len(found[-1]) + 1) * width <= _BATCH_TOKENS:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _hidden_size(folder: Path) -> int:
    path = folder / "config.json"
    try:
        size = json.loads(path.read_text(encoding="utf-8"))["hidden_size"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} cannot be read as a model's: {error}", hint="Fetch the model again.") from error
    if not isinstance(size, int):
        raise ModelError(f"{path}: hidden_size is {size!r}.", hint="Fetch the model again.")
    return size
