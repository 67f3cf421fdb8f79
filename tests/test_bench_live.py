"""scripts/bench_live: one run talks to three servers that begin as early as their names say; its figures are right."""

from __future__ import annotations

import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_live"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = SourceFileLoader("bench_live_script", str(SCRIPT))
    module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


@pytest.mark.integration
def test_the_three_ways_begin_as_early_as_they_say(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures" / "live.json"
    # The first of its utterances is said in one breath.
    assert script.main(["--stub", "--limit", "1", "--json", str(path)]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    modes = report["modes"]
    for mode, early in (("speculative", "used"), ("streaming", "none"), ("serial", "none")):
        row, fates = modes[mode], {"used": 0, "wasted": 0, "none": 0, early: 1}
        assert (row["turns"], row["failures"], row["llm_calls_with_wasted"]) == (1, {}, 1.0)
        assert row["answer_early"] == row["voice_early"] == fates
    waits = {turn["mode"]: turn["wait_ms"] for turn in report["turns"]}
    # At least: half a second of silence, less what sounds after the speech, and what was not begun before.
    assert waits["speculative"] > 350
    assert waits["streaming"] > 350 + 400, "hearing, first clause and synthesis come after the silence"
    assert waits["serial"] > 350 + 640, "and the whole reply before the voice"
    assert report["load_average"]["least"] <= report["load_average"]["most"]
    assert {"cores", "load_average", "websockets"} <= set(report["machine"])
    shown = capsys.readouterr().out
    assert "speculative / serial" in shown
    assert "Load of the machine" in shown


def turn(script: ModuleType, mode: str, wait_ms: float | None, **more: Any) -> Any:
    failure = "no_answer" if wait_ms is None else None
    return script.Turn(mode, "うん", False, **{"failure": failure, "wait_ms": wait_ms, "llm_calls": 1, **more})


@pytest.mark.unit
def test_ratios_are_of_utterances_that_both_ways_answered(script: ModuleType) -> None:
    turns = [
        *(turn(script, "speculative", wait) for wait in (400, 600, 900)),
        *(turn(script, "streaming", wait) for wait in (800, 1000, None)),
        *(turn(script, "serial", wait) for wait in (1600, 1000, 1000)),
    ]
    ratios = script.figures(turns)["ratios"]
    assert ratios["speculative / streaming"] == {"pairs": 2, "of_p50": 0.5, "median": 0.55}
    assert ratios["speculative / serial"] == {"pairs": 3, "of_p50": 0.6, "median": 0.6}
    assert ratios["streaming / serial"]["pairs"] == 2


@pytest.mark.unit
def test_calls_that_were_thrown_away_are_told_apart_and_failures_count_in_none(script: ModuleType) -> None:
    row = script.row(
        [
            turn(script, "speculative", 500.0, early_used=1, speech_ahead="used"),
            turn(script, "speculative", 700.0, llm_calls=2, early_wasted=1, speech_ahead="wasted"),
            turn(script, "speculative", 800.0),
            turn(script, "speculative", None, llm_calls=5, early_wasted=1),
        ]
    )
    assert (row["turns"], row["failures"]) == (4, {"no_answer": 1})
    assert (row["llm_calls"], row["llm_calls_with_wasted"]) == (1.33, 1.67)
    assert row["answer_early"] == {"used": 1, "wasted": 1, "none": 1}
    assert row["voice_early"] == {"used": 1, "wasted": 1, "none": 1}
    assert row["wait_ms"] == {"p50": 700.0, "p95": 800.0}


@pytest.mark.unit
def test_nothing_answered_is_no_figure(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [turn(script, mode, None) for mode in script.MODES]
    report = {**script.figures(turns), "load_average": {"least": 0.0, "mean": 0.0, "most": 0.0}}
    assert report["modes"]["serial"]["llm_calls"] is None
    assert report["ratios"]["speculative / serial"] == {"pairs": 0, "of_p50": None, "median": None}
    script.show(report, script.Console(width=140))
    assert "no_answer x 1" in capsys.readouterr().out


@pytest.mark.unit
def test_a_pause_lies_between_the_words_and_nowhere_else(script: ModuleType) -> None:
    talk = sys.modules["_live_talk"]
    word = np.full(1600, 0.5, np.float32)
    quiet = np.zeros(800, np.float32)
    said = talk.with_pause([np.concatenate([quiet, word, quiet]), word])
    assert np.flatnonzero(said == 0).tolist() == list(range(1600, 1600 + 5600))
    assert len(said) == 1600 + 5600 + 1600


@pytest.mark.unit
@pytest.mark.parametrize("reply", ["はい、そうだよ。 それは3.5だね。", "Yes, indeed. It is 3.5."])
def test_a_whole_reply_is_one_piece_whenever_it_comes(script: ModuleType, reply: str) -> None:
    cutter = sys.modules["_live_modes"].WholeReply()
    assert [cutter.feed(character) for character in reply] == [[]] * len(reply)
    assert (cutter.end(), cutter.finish(), cutter.finish()) == ([], [reply], [])
