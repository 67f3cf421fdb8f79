"""Every benchmark and the soak say how they are used, and that their figures can be written as JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
MEASURING = sorted([*SCRIPTS.glob("bench_*"), SCRIPTS / "soak"])


def test_there_are_some() -> None:
    assert {"bench_stages", "bench_turn", "bench_decision", "soak"} <= {path.name for path in MEASURING}


@pytest.mark.parametrize("script", MEASURING, ids=lambda path: path.name)
def test_help_tells_the_json_option(script: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, script, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("--json PATH") == 2, "in the usage line, and explained"
    assert not list(tmp_path.iterdir())
