"""Stand-in engines for `bench_beside --stub`: the model sleeps, meaning costs real work of the processor.

A small model's capabilities, so that memories are made of the user's own words and wait for turns, as with the
embedded one. Knows no server.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from server.engines.base import EmbeddingFingerprint, Engines, LlmCapabilities
from server.events import Samples
from tests.fakes.engines import FakeEmbedding
from tests.soaks.stubs import DelayedLlm, delayed_engines

ENGINES = "scripts._beside_stub:stub_engines"
DIMENSIONS = 64
EMBEDDING_SECONDS = 0.005
_WORK = b"\0" * 65_536


class SmallLlm(DelayedLlm):
    """Waits as long as it is told; small, so that its machine is shared."""

    capabilities = LlmCapabilities(
        native_tools=False, max_tools=8, streams=True, context_tokens=100_000, wants_examples=True
    )


class WorkingEmbedding(FakeEmbedding):
    """A vector for each text, by chance but always the same, after some milliseconds of work in a thread."""

    fingerprint = EmbeddingFingerprint("working", DIMENSIONS)

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        return np.stack([await asyncio.to_thread(_vector, text) for text in texts])


def _vector(text: str) -> Samples:
    # A library's own code lets other threads of the interpreter run, as this does; it takes a core all the same.
    began = time.thread_time()
    while time.thread_time() - began < EMBEDDING_SECONDS:
        hashlib.sha256(_WORK).digest()
    vector = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSIONS)
    unit: Samples = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def stub_engines() -> Engines:
    """A whole server's."""
    engines = delayed_engines()
    llm = SmallLlm()
    llm.delays = engines.llm.delays  # type: ignore[attr-defined]
    return replace(engines, llm=llm, embedding=WorkingEmbedding())
