"""Embedding engines as the other process makes them: small, with moods."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import numpy as np

from server.engines.base import CosineCalibration, EmbeddingFingerprint
from server.errors import EmbeddingError, ModelError
from server.events import Samples

DIMENSIONS = 4


class SmallEmbedding:
    """Vectors of a text's length. Texts that name a deed are done: `die`, `fail`, `hang`, `noise`, `short`."""

    name = "small"
    fingerprint = EmbeddingFingerprint("small", DIMENSIONS, "a task")

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        self.asked.set()
        return await self._embed(texts, 1.0)

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        if "until asked" in texts:
            await self.asked.wait()
        return await self._embed(texts, 2.0)

    async def _embed(self, texts: Sequence[str], kind: float) -> Samples:
        if "die" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        if "fail" in texts:
            raise EmbeddingError("it failed", hint="Do something.")
        if "break" in texts:
            raise ZeroDivisionError("broken")
        if "noise" in texts:
            print("a library speaks " * 20_000, flush=True)  # noqa: T201 - that is the point
            print("and complains", file=sys.stderr, flush=True)  # noqa: T201
        if "short" in texts:
            return np.zeros((len(texts), 1), np.float32)
        if "hang" in texts:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return np.array([[len(text), kind, self.cancelled, os.getpid()] for text in texts], np.float32).reshape(-1, 4)


class CalibratedEmbedding(SmallEmbedding):
    calibration = CosineCalibration(0.5, 0.1, "made up")


class UnstartableEmbedding(SmallEmbedding):
    async def start(self) -> None:
        raise ModelError("There is no model.", code="model_unknown", hint="Fetch it.")


def make(kind: str = "small") -> SmallEmbedding:
    if kind == "exit":
        print("the library is broken", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(1)
    if kind == "slow":
        import time

        time.sleep(600)
    kinds = {"small": SmallEmbedding, "calibrated": CalibratedEmbedding, "unstartable": UnstartableEmbedding}
    return kinds[kind]()
