"""The live soaks in small: aborts, cuts, and hostile frames over real sockets. All of them: scripts/soak."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soaks import aborts, cuts, sockets
from tests.soaks.promises import Soak

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("soak", "count"), [(aborts.soak, 16), (cuts.soak, 16), (sockets.soak, 800)], ids=["aborts", "cuts", "sockets"]
)
def test_every_promise_is_kept(soak: Soak, count: int, tmp_path: Path) -> None:
    promises = soak(count, 7, tmp_path, lambda done, total: None)
    assert [(promise.name, dict(promise.figures)) for promise in promises if not promise.kept] == []
