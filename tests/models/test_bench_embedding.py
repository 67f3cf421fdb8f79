"""scripts/bench_embedding: a form of the weights in a place is measured whole, and told in a table."""

from __future__ import annotations

import base64
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from scripts._random_qwen3 import TINY, embedding_checkpoint

pytestmark = pytest.mark.models

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "bench_embedding"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    loader = SourceFileLoader("bench_embedding_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_embedding_script", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


async def test_everything_is_measured_and_told(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = embedding_checkpoint(tmp_path / "model", TINY, script.TEXTS)
    wanted = {"engine": "qwen3-embedding", "model": str(folder), "dtype": "float32", "process": "inline"}
    row = await script.measure_one({"embedding": wanted, "hearing": "", "questions": 4, "texts": 4})
    assert 0 < row["question"]["p50_ms"] <= row["question"]["p95_ms"]
    assert row["question_during"]["p50_ms"] > 0
    assert row["texts_per_second"] > 0
    assert row["mib"] > 50
    vectors = np.frombuffer(base64.b64decode(row["vectors"]), "<f4").reshape(8, 64)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    monkeypatch.setattr(script, "in_own_process", lambda plan: {**row, "mib": 1234})
    options = script.read_options(["--model", str(folder), "--forms", "float32,int8", "--places", "inline"])
    rows = script.measure(options, Console(), tmp_path)
    assert [(one["form"], one["place"]) for one in rows] == [("float32", "inline"), ("int8", "inline")]
    assert rows[1]["cosine_to_float32"] == pytest.approx({"mean": 1.0, "least": 1.0}, abs=1e-5)
    script.print_table(Console(width=120), rows, "made up")
    told = capsys.readouterr().out
    assert "1,234" in told
    assert "1.0000" in told
