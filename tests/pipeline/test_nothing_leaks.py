"""Mixed faults in a real server: each ends as its row says, and nothing of it is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soaks.faults import soak

pytestmark = pytest.mark.integration


def test_sixty_faults_leave_nothing_behind(tmp_path: Path) -> None:
    broken = [promise for promise in soak(60, 0, tmp_path) if not promise.kept]
    assert broken == []
