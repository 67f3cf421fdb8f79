"""scripts/make_vectors as it is called: it writes what differs, or only says so."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.unit

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_vectors"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module that knows two files below `tmp_path`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = SourceFileLoader("make_vectors_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("make_vectors_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    wanted = [(tmp_path / "a.json", b"[]\n"), (tmp_path / "new" / "b.bin", b"\x00")]
    monkeypatch.setattr(module, "files", lambda: iter(wanted))
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_what_differs_is_written(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_bytes(b"[1]\n")
    assert script.main([]) == 0
    assert (tmp_path / "a.json").read_bytes() == b"[]\n"
    assert (tmp_path / "new" / "b.bin").read_bytes() == b"\x00"
    assert capsys.readouterr().out == "written: a.json\nwritten: new/b.bin\n"
    assert script.main(["--check"]) == 0


def test_checking_writes_nothing(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_bytes(b"[]\n")
    assert script.main(["--check"]) == 1
    assert capsys.readouterr().out == "not up to date: new/b.bin\n"
    assert not (tmp_path / "new").exists()
