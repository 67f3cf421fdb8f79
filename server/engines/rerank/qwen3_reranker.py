"""Qwen3-Reranker through transformers: would the model answer yes, this document is what the question wants?

By the model's own rules: one prompt a document, and of the next token only `yes` against `no`. What all documents of a
question share is read once. Which documents, and what becomes of the answers, is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from server.engines.qwen3_hidden import Beginning, Dtype, Qwen3Hidden
from server.engines.worker import ModelThread
from server.errors import RerankError
from server.events import Samples

TASK = "Given what somebody says to a robot, retrieve notes of earlier conversations that answer it or are about it"
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_QUERY_TOKENS = 256
_DOCUMENT_TOKENS = 512
_BATCH_TOKENS = 256
"""Read together, padding included; between two batches a caller who has given up is noticed."""


class Qwen3Reranker:
    """Implements `RerankEngine`. `folder`: a whole model. `threads`: None for torch's own choice."""

    name = "qwen3-reranker"

    def __init__(self, folder: Path, *, device: str = "cpu", dtype: Dtype = "auto", threads: int | None = None) -> None:
        self._folder = folder
        self._device = device
        self._dtype: Dtype = dtype
        self._threads = threads
        self._thread = ModelThread(self.name, RerankError)
        self._model: Qwen3Hidden | None = None
        self._before: Beginning | None = None

    async def start(self) -> None:
        await self._thread.start(self._load)

    async def close(self) -> None:
        await self._thread.close()
        self._model = self._before = None

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """How well each document answers, 0 to 1, in their order. Raises `RerankError`.

        A caller that is cancelled stops it after the documents in hand.
        """
        beginning = await self._thread.call(self._read, query)
        shares: list[float] = []
        while len(shares) < len(documents):
            shares += await self._thread.call(self._judge, beginning, documents[len(shares) :])
        return shares

    # --- on the thread ---

    def _load(self) -> None:
        model = Qwen3Hidden(
            self._folder, device=self._device, dtype=self._dtype, threads=self._threads, head_of=("no", "yes")
        )
        self._model = model
        self._before = model.read(model.control(f"{_BEFORE}<Instruct>: {TASK}\n"))
        self._judge(self._read("こんにちは"), ["こんにちは"])

    def _loaded(self) -> Qwen3Hidden:
        if self._model is None:
            raise RerankError(f"The engine {self.name} is not running.", code="engine_unavailable")
        return self._model

    def _read(self, query: str) -> Beginning:
        model = self._loaded()
        ids = [*model.control("<Query>:"), *model.tokens(f" {query}\n", _QUERY_TOKENS)]
        return model.read(ids, self._before)

    def _judge(self, beginning: Beginning, documents: Sequence[str]) -> list[float]:
        """The first few of `documents`, as many as go together."""
        model = self._loaded()
        lead, end = model.control("<Document>:"), model.control(_AFTER)
        prompts: list[list[int]] = []
        for document in documents:
            prompt = [*lead, *model.tokens(f" {document}", _DOCUMENT_TOKENS), *end]
            widest = max(map(len, [*prompts, prompt]))
            if prompts and widest * (len(prompts) + 1) > _BATCH_TOKENS:
                break
            prompts.append(prompt)
        logits: Samples = (model.last(prompts, beginning) @ model.head.T).cpu().numpy()
        return yes_shares(logits)


def yes_shares(logits: Samples) -> list[float]:
    """Of the logits of (no, yes), shape (n, 2), the probability of yes. Raises `RerankError` for what is no number."""
    if not np.isfinite(logits).all():
        raise RerankError("The reranker gave numbers that are none.", hint="Try rerank.dtype float32.")
    margins = np.clip(logits[:, 1].astype(np.float64) - logits[:, 0], -60, 60)
    return [float(share) for share in 1 / (1 + np.exp(-margins))]
