"""A server killed at any moment of talking, taking in and indexing loses nothing and makes nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soaks.kills import soak

pytestmark = pytest.mark.integration


def test_killed_at_random_moments_nothing_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    promises = {promise.name: promise for promise in soak(7, 20261130, tmp_path)}
    assert [(name, promise.figures) for name, promise in promises.items() if not promise.kept] == []
    figures = promises["no_turn_lost"].figures
    runs = [figures[kind] for kind in ("local", "edge")]
    assert [run["kills"] for run in runs] == [4, 3]
    assert all(run["acknowledged"] >= 1 for run in runs), figures
    assert all(run["remembered"] >= run["acknowledged"] for run in runs), figures
    quoted, memories = (sum(run[name] for run in runs) for name in ("quoted", "memories"))
    assert 0 < quoted < memories, figures
