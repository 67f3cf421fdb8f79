"""scripts/bench_beside: pairs of turns, at rest and beside a backlog, on a real server with engines that take time."""

from __future__ import annotations

import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_beside"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = SourceFileLoader("bench_beside_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader("bench_beside_script", loader))  # type: ignore[arg-type]
    # A dataclass looks for its module.
    monkeypatch.setitem(sys.modules, "bench_beside_script", module)
    loader.exec_module(module)
    return module


@pytest.mark.integration
def test_turns_are_answered_beside_a_backlog_that_is_worked_on(
    script: ModuleType, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures" / "beside.json"
    monkeypatch.setattr(script, "PAUSE_SECONDS", (0.5, 1.0))
    monkeypatch.setattr(script, "MEMORIES", 40)
    counts = ["--exchanges", "30", "--index-jobs", "30"]
    assert script.main(["--stub", "--pairs", "2", *counts, "--json", str(path)]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [pair["first"] for pair in report["pairs"]] == ["at_rest", "beside"]
    least_ms = script.Delays().first_clause_seconds * 1000 + script.Delays().speak_seconds * 1000
    for pair in report["pairs"]:
        rest, beside = pair["at_rest"], pair["beside"]
        assert rest["done_before"] == 0, "nothing is made at rest"
        assert rest["waiting_before"] >= 33, "three conversations and 30 vectors, and the robots' own conversations"
        assert beside["done_before"] > 0, "it was worked on"
        assert min(rest["first_audio_ms"], beside["first_audio_ms"]) >= least_ms
        assert min(rest["processor_ms"], beside["processor_ms"]) > 0
        assert rest["reply"] == beside["reply"]
    assert {"cores", "python", "stackchan-server"} <= set(report["machine"])
    shown = capsys.readouterr().out
    assert "ratio" in shown
    assert "Goal, within 10%" in shown


def pair(script: ModuleType, rest: float, beside: float, *, searched: bool = False) -> Any:
    return script.Pair(
        "猫", "at_rest", script.Run(rest, 40, "うん", False, 8, 0), script.Run(beside, 43, "うん", searched, 5, 3)
    )


@pytest.mark.unit
def test_the_ratio_counts_what_the_backlog_costs(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    report = script.figures([pair(script, 100, beside) for beside in (104, 105, 106)] + [pair(script, 200, 210)])
    summary = report["summary"]
    assert (summary["pairs"], summary["median_ratio"], summary["same_reply"]) == (4, 1.05, 4)
    assert summary["ratio_interval_95"][0] >= 1.04
    assert summary["ratio_interval_95"][1] <= 1.06
    assert summary["first_audio_ms"] == {"at_rest": 100, "beside": 105.5}
    assert summary["processor_ms"] == {"at_rest": 40, "beside": 43, "added": 3}
    assert (summary["done_before_a_turn"], summary["jobs_waiting"]) == (3, 5)
    script.show({**report, "segments_taken_in": 4}, Console(width=200))
    assert "Goal, within 10%: reached\n" in capsys.readouterr().out


@pytest.mark.unit
@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [((1.0, 1.01, 1.5), "reached by the median only"), ((1.2, 1.3, 1.25), "missed"), ((0.9, 1.0, 1.05), "reached")],
)
def test_the_verdict_is_the_intervals(
    script: ModuleType, ratios: tuple[float, ...], verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = script.figures([pair(script, 100, 100 * ratio) for ratio in ratios])
    script.show({**report, "segments_taken_in": 0}, Console(width=200))
    assert f"Goal, within 10%: {verdict}\n" in capsys.readouterr().out


@pytest.mark.unit
def test_a_search_in_one_of_the_two_is_not_compared(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    report = script.figures([pair(script, 100, 400, searched=True)])
    assert (report["summary"], report["not_compared"]) == ({"pairs": 0}, 1)
    script.show({**report, "segments_taken_in": 0}, Console(width=200))
    assert "No pair can be compared" in capsys.readouterr().out


@pytest.mark.unit
@pytest.mark.parametrize("arguments", [["--pairs", "0"], ["--exchanges", "-1"], ["--index-jobs", "x"]])
def test_what_makes_no_sense_is_refused(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 2
