"""scripts/_topic_cuts.py: boundaries are scored, and windows of a fixed size are cut."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.unit


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).resolve().parent.parent / "scripts"), *sys.path])
    return import_module("_topic_cuts")


def test_fixed_windows(cuts: ModuleType) -> None:
    assert [(part.start, part.stop) for part in cuts.fixed_windows(8, 6)] == [(0, 6), (6, 8)]


@pytest.mark.parametrize(
    ("found", "right", "tolerance", "expected"),
    [
        ([], [], 0, (1.0, 1.0, 1.0)),
        ([2, 4], [2, 4], 0, (1.0, 1.0, 1.0)),
        ([0, 2], [2], 0, (1.0, 1.0, 1.0)),
        ([2, 3], [2], 0, (0.5, 1.0, 2 / 3)),
        ([3], [2, 6], 0, (0.0, 0.0, 0.0)),
        ([3], [2, 6], 1, (1.0, 0.5, 2 / 3)),
        ([2, 3], [2], 1, (0.5, 1.0, 2 / 3)),
        ([], [2], 0, (0.0, 0.0, 0.0)),
        ([2], [], 0, (0.0, 0.0, 0.0)),
    ],
)
def test_boundaries_are_scored(
    cuts: ModuleType, found: list[int], right: list[int], tolerance: int, expected: tuple[float, float, float]
) -> None:
    assert cuts.boundary_score(found, right, tolerance=tolerance) == pytest.approx(expected)
