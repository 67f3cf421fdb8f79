"""What `scripts/bench_models` decides by its figures."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bench_models"


@pytest.fixture(scope="module")
def bench():
    loader = importlib.machinery.SourceFileLoader("bench_models", str(SCRIPT))
    spec = importlib.util.spec_from_loader("bench_models", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.modules["bench_models"] = module
    try:
        loader.exec_module(module)
        yield module
    finally:
        del sys.modules["bench_models"]
        sys.path[:] = before


@pytest.mark.parametrize(
    ("inline", "separate", "free_mib", "process", "reason"),
    [
        ([1000, 1000], [1000, 1000], 20_000, "inline", "not surely"),
        ([1000, 1000], [1100, 1100], 20_000, "inline", "not surely"),
        ([1000, 1000], [950, 940], 20_000, "inline", "not surely"),
        ([1000, 500], [450, 700], 20_000, "inline", "not surely"),
        ([1000, 1100], [500, 600], 20_000, "separate", "+400 MiB"),
        ([1000, 1100], [500, 600], 3_000, "inline", "only 3000 MiB free"),
    ],
)
def test_embedding_gets_a_process_of_its_own_where_that_is_surely_worth_its_memory(
    bench, inline, separate, free_mib, process, reason
):
    decision = bench.decide({"inline": inline, "separate": separate}, {"inline": 2600, "separate": 3000}, free_mib)
    assert decision.process == process
    assert reason in decision.reason


def test_a_live_turn_waits_for_hearing_and_the_question_and_nothing_else(bench):
    beside = {"asr": [900.0, 1000.0, 5000.0], "embedding": [20.0, 30.0, 500.0], "llm": [9000.0], "vad": [7.0]}
    assert bench.live_wait_ms(beside) == 1030.0
    assert bench.live_wait_ms({"embedding": [20.0]}) == 20.0


def test_the_table_says_which_weights_are_random(bench):
    times = {"p50": 1234.5, "p95": 2000.0}
    row = {"kind": "asr", "engine": "qwen3-asr", "model": "Qwen/Qwen3-ASR-0.6B-hf", "weights": "random", "mib": 1900}
    row |= {"load_seconds": 3.0, "alone_ms": times, "beside_ms": {"inline": times, "separate": times}}
    decision = {"embedding.process": "inline", "reason": "not surely 10% sooner."}
    table = bench.markdown({"rows": [row], "together_mib": {"inline": 2600}, "decision": decision})
    assert "| asr | qwen3-asr | Qwen/Qwen3-ASR-0.6B-hf | random | 1,900 | 1,234 | 2,000 | 1,234 | 2,000 |" in table
    assert '`embedding.process = "inline"`: not surely 10% sooner.' in table
