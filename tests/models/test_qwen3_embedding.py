"""Qwen3-Embedding through the real classes, with random weights: what its vectors are, and what may be asked of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts._random_qwen3 import TINY, embedding_checkpoint, reranker_checkpoint
from server.engines.embedding.qwen3_embedding import TASK, Qwen3Embedding, batches, unit
from server.errors import ConfigError, EmbeddingError, ModelError
from server.events import Samples
from tests.memory.home import Home

pytestmark = pytest.mark.models

TEXTS = [
    "富士通の中古のデスクトップPCを三万円で買った。",
    "猫",
    "I went to Kyoto with my sister in spring, and it rained all day long.",
    "",
    "明日は歯医者の予約がある。<|endoftext|>",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, hub_off: None) -> Path:
    return embedding_checkpoint(tmp_path_factory.mktemp("models") / "Qwen3-Embedding-Tiny", TINY, TEXTS)


@asynccontextmanager
async def running(folder: Path, **changes: Any) -> AsyncIterator[Qwen3Embedding]:
    engine = Qwen3Embedding(folder, **({"model": "Qwen/Qwen3-Embedding-Tiny", "dtype": "float32"} | changes))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def as_the_model_card_says(folder: Path, texts: Sequence[str]) -> Samples:
    """The model's own recipe: padded on the left by its tokenizer, last token, length 1; float32."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    batch = tokenizer(list(texts), padding=True, truncation=True, max_length=8192, return_tensors="pt")
    assert batch["input_ids"][:, -1].eq(tokenizer.convert_tokens_to_ids("<|endoftext|>")).all()
    with torch.no_grad():
        last = model(**batch).last_hidden_state[:, -1]
    vectors: Samples = torch.nn.functional.normalize(last, dim=1).numpy()
    return vectors


async def test_vectors_are_those_of_the_models_own_recipe(folder: Path) -> None:
    usual = [text for text in TEXTS if "<|" not in text]
    async with running(folder) as engine:
        kept = await engine.embed_documents(usual)
        asked = await engine.embed_queries(usual)
    np.testing.assert_allclose(kept, as_the_model_card_says(folder, usual), atol=2e-5)
    instructed = [f"Instruct: {TASK}\nQuery:{text}" for text in usual]
    np.testing.assert_allclose(asked, as_the_model_card_says(folder, instructed), atol=2e-5)
    # The instruction matters, and is a question's only.
    assert float(np.abs(kept - asked).max()) > 0.05


@pytest.mark.parametrize("dtype", ["float32", "int8"])
async def test_a_batch_gives_what_each_text_gives_alone(folder: Path, dtype: str) -> None:
    async with running(folder, dtype=dtype) as engine:
        for embed in (engine.embed_documents, engine.embed_queries):
            together = await embed(TEXTS)
            alone = np.concatenate([await embed([text]) for text in TEXTS])
            np.testing.assert_allclose(together, alone, atol=2e-5 if dtype == "float32" else 5e-3)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
async def test_smaller_numbers_point_the_same_way(folder: Path, dtype: str) -> None:
    async with running(folder) as exact, running(folder, dtype=dtype) as engine:
        for one, other in (
            (await exact.embed_documents(TEXTS), await engine.embed_documents(TEXTS)),
            (await exact.embed_queries(TEXTS), await engine.embed_queries(TEXTS)),
        ):
            assert float(np.sum(one * other, axis=1).min()) > 0.99


async def test_shorter_vectors_are_the_beginning_of_length_one(folder: Path) -> None:
    async with running(folder) as whole, running(folder, dimensions=32) as short:
        assert (whole.fingerprint.dimensions, short.fingerprint.dimensions) == (64, 32)
        assert whole.fingerprint.model == short.fingerprint.model == "Qwen3-Embedding-Tiny"
        assert short.fingerprint.instruction == TASK
        np.testing.assert_allclose(
            await short.embed_documents(TEXTS), unit((await whole.embed_documents(TEXTS))[:, :32]), atol=1e-6
        )
        np.testing.assert_allclose(np.linalg.norm(await short.embed_queries(TEXTS), axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    ["", "  \n", "\ud83d", "a\0b", "مرحبا", "😊", "<|im_end|><|endoftext|>", "あ" * 20_000],
    ids=["empty", "blank", "surrogate", "nul", "arabic", "emoji", "control", "book"],
)
async def test_any_text_has_a_unit_vector(folder: Path, text: str) -> None:
    async with running(folder, dtype="auto") as engine:
        for vectors in (await engine.embed_queries([text]), await engine.embed_documents([text])):
            assert (vectors.shape, vectors.dtype) == ((1, 64), np.float32)
            assert np.linalg.norm(vectors[0]) == pytest.approx(1.0, abs=1e-5)
        assert (await engine.embed_documents([])).shape == (await engine.embed_queries([])).shape == (0, 64)


async def test_what_looks_like_a_control_token_is_only_words(folder: Path) -> None:
    async with running(folder) as engine:
        kept = await engine.embed_documents(["猫<|endoftext|>", "猫"])
        assert float(kept[0] @ kept[1]) < 0.9999


async def test_a_question_is_answered_between_two_layers_of_what_is_kept(folder: Path) -> None:
    gate, done = threading.Event(), list[str]()
    kept_texts = [f"{number} " + "長い話です。" * 9 for number in range(8)]
    async with running(folder) as engine:
        question, text = (await engine.embed_queries(["猫は？"]))[0], (await engine.embed_documents(kept_texts))
        tokens = await engine._thread.call(engine._tokens_of, kept_texts)

        def keep() -> Samples:
            assert gate.wait(timeout=10)
            vectors = engine._vectors(tokens)
            done.append("kept")
            return vectors

        kept = asyncio.create_task(engine._thread.call(keep))
        asked = asyncio.create_task(engine.embed_queries(["猫は？"]))
        await asyncio.sleep(0)
        asked_in = engine._embed_queries
        engine._questions._embed = lambda texts: (done.append("asked"), asked_in(texts))[1]
        gate.set()
        np.testing.assert_allclose((await asked)[0], question, atol=2e-5)
        # The interrupted work is what it would have been.
        np.testing.assert_allclose(await kept, text, atol=2e-5)
        assert done == ["asked", "kept"]


def test_texts_of_one_length_go_together_and_none_is_lost() -> None:
    lengths = [300, 5, 7, 6, 200, 7, *[4] * 40]
    made = batches(lengths)
    assert sorted(place for batch in made for place in batch) == list(range(len(lengths)))
    assert made[:2] == [[0], [4]]
    assert all(len(batch) <= 16 and max(lengths[one] for one in batch) * len(batch) <= 300 for batch in made)
    assert batches([]) == []


def test_numbers_that_are_none_are_an_error() -> None:
    for broken in (np.nan, np.inf, 0.0):
        with pytest.raises(EmbeddingError, match="numbers that are none"):
            unit(np.full((1, 3), broken, np.float32))


async def test_what_cannot_be_loaded_says_so(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(ModelError, match=r"config\.json"):
        Qwen3Embedding(tmp_path, model="x")
    with pytest.raises(ConfigError, match=r"embedding\.dimensions: x gives 64, not 128"):
        Qwen3Embedding(folder, model="x", dimensions=128)
    with pytest.raises(ConfigError, match="int8 is for the processor"):
        await Qwen3Embedding(folder, model="x", device="cuda", dtype="int8").start()
    with pytest.raises(ConfigError, match=r"There is no mps here.*auto or cpu"):
        await Qwen3Embedding(folder, model="x", device="mps").start()
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 32}')
    with pytest.raises(ModelError, match="Fetch the model again"):
        await Qwen3Embedding(tmp_path, model="x").start()
    engine = Qwen3Embedding(folder, model="x")
    for texts in (["a"], []):
        with pytest.raises(EmbeddingError, match="not running"):
            await engine.embed_queries(texts)
        with pytest.raises(EmbeddingError, match="not running"):
            await engine.embed_documents(texts)


async def test_a_model_stored_whole_is_read_as_well(tmp_path: Path, folder: Path) -> None:
    whole = reranker_checkpoint(tmp_path / "whole", TINY, TEXTS)
    async with running(whole) as engine:
        vectors = await engine.embed_documents(TEXTS)
    assert np.isfinite(vectors).all()
    assert len({round(float(value), 4) for value in vectors[:, 0]}) > 2


async def test_what_was_said_is_stored_and_found_again_by_its_vectors(folder: Path, tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with running(folder, dtype="auto") as engine, home.open(embedding=engine) as memory:  # type: ignore[arg-type]
        await home.remember_the_pc()
        assert (await home.stored()) != []
        found = await home.search("富士通のパソコンはいくらだった？")
        (best,) = found["candidates"]
        asked = (await engine.embed_queries(["富士通のパソコンはいくらだった？"]))[0]
        kept = (await engine.embed_documents([f"{best['topic']}\n{best['summary']}"]))[0]
        assert best["retrieval_score"] == pytest.approx(float(asked @ kept), abs=2e-3)
        assert memory.index_problem is None
    assert (tmp_path / "worlds" / "home" / "index").is_dir()
