"""scripts/bench_latency: the stand-ins keep the times they are said to have, and the figures mean what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = SourceFileLoader("bench_latency_script", str(SCRIPTS / "bench_latency"))
    module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


@pytest.mark.unit
def test_the_stand_ins_are_as_told(script: ModuleType) -> None:
    import _latency_times as times

    assert len(times.TOKENS) == 30
    assert times.token_seconds(0) == pytest.approx(0.15)
    first_clause = next(number for number, token in enumerate(times.TOKENS) if "、" in token)
    first_sentence = next(number for number, token in enumerate(times.TOKENS) if "。" in token)
    assert times.token_seconds(first_clause) == pytest.approx(0.2)
    assert times.token_seconds(first_sentence) == pytest.approx(0.27)
    assert float(script.MODEL_MS) == pytest.approx(400)
    # A cutter must see what follows the mark to know that the clause is over.
    assert not times.TOKENS[first_clause].endswith("、")


@pytest.mark.unit
def test_the_servers_own_time_is_what_is_beyond_waiting_and_models(script: ModuleType) -> None:
    def trace(endpoint: float, first_audio: float, heard_from: float) -> dict[str, object]:
        marks = {"endpoint": endpoint, "first_audio": first_audio}
        return {"marks": marks, "spans": [{"name": "asr", "start_ms": heard_from, "end_ms": heard_from + 100}]}

    waited_for_silence = trace(510.0, 513.0, 64.0)
    waited_for_models = trace(310.0, 480.0, 64.0)
    no_words = {"marks": {"endpoint": 500.0}, "spans": []}
    assert script.beyond_ms([waited_for_silence, waited_for_models, no_words]) == [3.0, 16.0]


@pytest.mark.unit
def test_a_row_counts_robots_turns_and_failures(script: ModuleType) -> None:
    robots = [
        {"turns": 2, "waits_ms": [500.0, 700.0], "failures": {}, "underruns": 1},
        {"turns": 2, "waits_ms": [600.0], "failures": {"no_answer": 1}, "underruns": 0},
    ]
    row = script.row("ours", robots)
    assert (row["robots"], row["turns"], row["failures"], row["underruns"]) == (2, 4, {"no_answer": 1}, 1)
    assert row["wait_ms"] == {"p50": 600.0, "p95": 700.0, "p99": 700.0}


@pytest.mark.unit
@pytest.mark.parametrize("arguments", [["--robots", "0"], ["--turns", "0"], ["--silence-ms", "20"]])
def test_what_makes_no_sense_is_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.read_options(arguments)
    assert ended.value.code == 2


@pytest.mark.models
def test_one_robot_is_answered(tmp_path: Path) -> None:
    report_path = tmp_path / "latency.json"
    arguments = ["--robots", "1", "--turns", "2", "--silence-ms", "500", "--json", str(report_path)]
    done = subprocess.run(
        [sys.executable, SCRIPTS / "bench_latency", *arguments],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert "End of speech to first sound" in done.stdout
    report = json.loads(report_path.read_text(encoding="utf-8"))
    (row,) = report["rows"]
    assert (row["turns"], row["failures"]) == (2, {})
    # Half a second of silence; the speech ends a little before its last sample.
    assert 350 < row["wait_ms"]["p50"] < 10_000
    assert row["beyond_ms"]["p50"] >= -1
    assert {"cores", "load_average", "onnxruntime"} <= set(report["machine"])
