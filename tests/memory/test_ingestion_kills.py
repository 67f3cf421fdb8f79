"""A process killed at any moment of taking conversations in loses nothing and makes nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.ingestion_kills import survive_kills

pytestmark = pytest.mark.integration


async def test_killed_at_random_moments_nothing_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    report = await survive_kills(tmp_path, kills=5, seed=20261130)
    assert report.kills == 5
    assert report.acknowledged >= 5
    assert (report.lost_turns, report.forgotten_turns) == ((), ())
    assert report.doubled == ()
    # Those that were stored, and cut off before they could be acknowledged, are remembered too.
    assert report.acknowledged <= report.memories <= report.acknowledged + report.kills
    assert (report.missing_vectors, report.superfluous_vectors) == (0, 0)
    assert report.jobs_left == {}
