"""Every benchmark and the soak say how they are used, and that their figures can be written as JSON."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
MEASURING = sorted([*SCRIPTS.glob("bench_*"), SCRIPTS / "soak"])


def test_there_are_some() -> None:
    assert {"bench_stages", "bench_turn", "bench_decision", "soak"} <= {path.name for path in MEASURING}


# The Python that an environment was made from, with `-S`: it knows nobody's packages.
PLAIN_PYTHON = Path(sys.base_prefix) / "bin" / "python3"
OWN_PYTHON = SCRIPTS.parent / ".venv" / "bin" / "python"


@pytest.fixture(scope="module")
def plain_python() -> list[str | Path]:
    """Without .venv there is nobody to hand over to: then the Python of the tests."""
    if not (PLAIN_PYTHON.exists() and OWN_PYTHON.exists()):
        return [sys.executable]
    plain: list[str | Path] = [PLAIN_PYTHON, "-S"]
    without = subprocess.run([*plain, "-c", "import rich"], env=bare(), capture_output=True, text=True)
    assert "No module named 'rich'" in without.stderr
    return plain


def bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


@pytest.mark.parametrize("script", MEASURING, ids=lambda path: path.name)
def test_a_plain_python_is_enough_and_help_tells_the_json_option(
    script: Path, plain_python: list[str | Path], tmp_path: Path
) -> None:
    done = subprocess.run(
        [*plain_python, script, "--help"], cwd=tmp_path, env=bare(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("--json PATH") == 2, "in the usage line, and explained"
    assert not list(tmp_path.iterdir())


@pytest.fixture
def own_python(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("_own_python")


def test_another_python_hands_over_to_the_checkouts_own(
    own_python: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(own_python, "ROOT", tmp_path)
    monkeypatch.setattr(own_python.os, "execv", lambda path, arguments: calls.append((path, arguments)))
    monkeypatch.setattr(sys, "argv", ["scripts/soak", "requests"])
    own_python.use_own_python()
    assert calls == [], "here the packages are installed"
    monkeypatch.setattr(own_python.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="scripts/test"):
        own_python.use_own_python()
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    own_python.use_own_python()
    assert calls == [(own, [str(own), "scripts/soak", "requests"])]
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    with pytest.raises(SystemExit, match="scripts/test"):
        own_python.use_own_python()
