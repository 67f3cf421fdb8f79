"""What a turn's trace becomes in the figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from server import errors
from server.api.metrics import BUCKETS_SECONDS, Metrics, error_codes
from server.errors import StackChanError, StorageError
from server.memory.service import MemoryFigures
from server.pipeline.request import TurnError, TurnRequest, TurnResult
from tests.fakes.engines import silence

pytestmark = pytest.mark.unit

SECRET = "ひみつの合言葉"
TRACE: Mapping[str, Any] = {
    "spans": [
        {"name": "receive", "start_ms": 0, "end_ms": 30},
        {"name": "queued", "start_ms": 0, "end_ms": 40},
        {"name": "asr", "start_ms": 40, "end_ms": 940},
        {"name": "llm", "start_ms": 950, "end_ms": 2450},
        {"name": "tts", "start_ms": 1500, "end_ms": 1600},
        {"name": "tts", "start_ms": 1700, "end_ms": 1900},
        {"name": "made up", "start_ms": 0, "end_ms": 1000},
    ],
    "marks": {"words_stored": 950, "first_token": 1200, "first_clause": 1400, "first_audio": 1600, "done": 2500},
    "llm": {"calls": 2, "prompt_tokens": 3570, "cached_tokens": 3561, "completion_tokens": 31},
    "llm_retries": 1,
    "answer_was_json": False,
    "unknown_ids": ["emotion:ecstatic", "action:fly", "action:swim", "what is this"],
    "asr_dropped": "repetition",
    "apology": "clip",
    "llm_error": "llm_cut",
    "filler": "face",
    "tool_refusals": 2,
}


def result(**changes: Any) -> TurnResult:
    values: dict[str, Any] = {
        "turn_id": 1,
        "session_id": "s",
        "status": "done",
        "outcome": "ok",
        "transcript": SECRET,
        "reply": SECRET,
        "speech_duration_ms": 2950,
        "latency_ms": {"total": 2500},
        "tool_calls": (
            {"name": "search_memory", "arguments": {"query": SECRET}, "result": {"memories": []}},
            {"name": "search_memory", "arguments": {"query": ""}, "result": {"error": SECRET}},
            {"name": SECRET, "arguments": {}, "result": {"error": "no such tool"}},
        ),
    }
    return TurnResult(**(values | changes))


def observed(trace: Mapping[str, Any], turn: TurnResult | None = None, **request: Any) -> Metrics:
    metrics = Metrics("1.2.3", tools=["search_memory"])
    metrics.observe_turn(TurnRequest("desk", **(request or {"text": SECRET})), turn or result(), trace)
    return metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"stackchan_{name}", labels)


def test_a_turn_is_counted_with_its_times_and_tokens() -> None:
    metrics = observed(TRACE)

    assert value(metrics, "turns_total", outcome="ok", input="text") == 1
    assert value(metrics, "turns_total", outcome="ok", input="audio") == 0
    assert value(metrics, "turn_seconds_sum") == 2.5
    for stage, seconds in {"receive": 0.03, "queued": 0.04, "asr": 0.9, "llm": 1.5, "tts": 0.3, "other": 1.0}.items():
        assert value(metrics, "stage_seconds_count", stage=stage) == 1
        assert value(metrics, "stage_seconds_sum", stage=stage) == pytest.approx(seconds)
    assert value(metrics, "stage_seconds_count", stage="vad") == 0
    assert value(metrics, "first_token_seconds_sum") == 1.2
    assert value(metrics, "first_clause_seconds_sum") == 1.4
    assert value(metrics, "time_to_first_audio_seconds_sum") == 1.6
    assert value(metrics, "time_to_first_audio_seconds_bucket", le="1.5") == 0
    assert value(metrics, "time_to_first_audio_seconds_bucket", le="2.0") == 1
    assert value(metrics, "speech_seconds_sum") == 2.95
    assert value(metrics, "llm_calls_total") == 2
    assert [value(metrics, "llm_tokens_total", kind=kind) for kind in ("prompt", "cached", "completion")] == [
        3570,
        3561,
        31,
    ]
    assert value(metrics, "llm_retries_total") == 1


def test_what_went_wrong_is_counted_under_known_names_only() -> None:
    metrics = observed(TRACE, result(error=TurnError("tts_timeout", SECRET, True)))

    assert value(metrics, "tool_calls_total", tool="search_memory", result="ok") == 1
    assert value(metrics, "tool_calls_total", tool="search_memory", result="error") == 1
    assert value(metrics, "tool_calls_total", tool="other", result="error") == 1
    assert value(metrics, "turn_errors_total", code="tts_timeout") == 1
    assert value(metrics, "turn_errors_total", code="llm_cut") == 1
    assert value(metrics, "answers_not_json_total") == 1
    assert value(metrics, "unknown_ids_total", kind="emotion") == 1
    assert value(metrics, "unknown_ids_total", kind="action") == 2
    assert value(metrics, "unknown_ids_total", kind="other") == 1
    assert value(metrics, "asr_dropped_total", reason="repetition") == 1
    assert value(metrics, "apologies_total", how="clip") == 1
    assert value(metrics, "fillers_total", how="face") == 1
    assert value(metrics, "tool_refusals_total") == 2

    made_up = observed(
        {"asr_dropped": SECRET, "apology": SECRET, "filler": SECRET}, result(error=TurnError(SECRET, "", False))
    )
    assert value(made_up, "turn_errors_total", code="other") == 1
    assert value(made_up, "asr_dropped_total", reason="other") == 1
    assert value(made_up, "apologies_total", how="other") == 1
    assert value(made_up, "fillers_total", how="other") == 1
    assert value(made_up, "tool_refusals_total") == 0


@pytest.mark.parametrize(
    "trace",
    [
        {},
        {"spans": None, "marks": None, "llm": None, "unknown_ids": None, "answer_was_json": None},
        {"spans": ["x", {}, {"name": 1, "start_ms": 0, "end_ms": 1}, {"name": "llm", "start_ms": 5, "end_ms": None}]},
        {"spans": [{"name": "llm", "start_ms": float("nan"), "end_ms": 1}, {"name": "llm", "start_ms": True}]},
        {"marks": {"first_token": "soon", "first_audio": -1, "first_clause": float("inf"), 3: 4}},
        {"llm": {"calls": -1, "prompt_tokens": "many", "cached_tokens": 1.5, "completion_tokens": True}},
        {"filler": ["clip"], "tool_refusals": "two"},
        {"llm_retries": -2, "asr_dropped": 5, "apology": ["clip"], "llm_error": "", "unknown_ids": "fly"},
    ],
)
def test_a_trace_without_what_it_should_hold_still_counts_the_turn(trace: Any) -> None:
    metrics = observed(trace, result(outcome=None, latency_ms={}, tool_calls=({},)), samples=silence(0.1))

    assert value(metrics, "turns_total", outcome="other", input="audio") == 1
    assert value(metrics, "llm_calls_total") == 0
    assert value(metrics, "turn_seconds_count") == 0
    assert value(metrics, "stage_seconds_count", stage="llm") == 0
    assert value(metrics, "first_token_seconds_count") == 0
    assert value(metrics, "time_to_first_audio_seconds_count") == 0


def test_searches_of_memory_are_counted_and_timed() -> None:
    metrics = Metrics("1.2.3")
    assert value(metrics, "memory_searches_total", outcome="late") == 0
    for outcome, seconds in (("found", 0.012), ("found", 0.4), ("late", 2.0)):
        metrics.observe_search(outcome, seconds)  # type: ignore[arg-type]
    assert value(metrics, "memory_searches_total", outcome="found") == 2
    assert value(metrics, "memory_searches_total", outcome="late") == 1
    assert value(metrics, "memory_search_seconds_sum") == pytest.approx(2.412)
    assert value(metrics, "memory_search_seconds_bucket", le="0.02") == 1


async def test_what_memory_holds_is_read_when_it_is_asked_for() -> None:
    metrics = Metrics("1.2.3")
    await metrics.refresh()
    assert value(metrics, "memory_jobs", state="parked") == 0
    now: list[MemoryFigures | StorageError | None] = [
        MemoryFigures({"active": 7, "superseded": 2}, {"memories": 3, "filler": 4}, 5, 1, 2, index_usable=False)
    ]

    async def read() -> MemoryFigures | None:
        figures = now[0]
        if isinstance(figures, StorageError):
            raise figures
        return figures

    metrics.watch_memory(read)
    for answer in (now[0], None, StorageError("the disk is gone")):
        now[0] = answer
        await metrics.refresh()
        assert [value(metrics, "memory_jobs", state=state) for state in ("pending", "parked")] == [5, 1]
        assert [value(metrics, "memories", status=one) for one in ("active", "superseded", "forgotten")] == [7, 2, 0]
        results = ("memories", "filler", "forgotten")
        assert [value(metrics, "memory_segments", result=one) for one in results] == [3, 4, 0]
        assert value(metrics, "memories_corrected") == 2
        assert value(metrics, "memory_index_problem") == 1
    now[0] = MemoryFigures({"active": 1}, {}, 0, 0, 0, index_usable=True)
    await metrics.refresh()
    assert value(metrics, "memory_index_problem") == 0
    assert value(metrics, "memories", status="superseded") == 0


def test_two_applications_count_apart() -> None:
    first, second = observed(TRACE), Metrics("1.2.3")
    assert value(first, "llm_calls_total") == 2
    assert value(second, "llm_calls_total") == 0


def test_every_error_that_the_tree_names_for_a_turn_has_a_series_of_its_own() -> None:
    kinds = (errors.EngineError, errors.VadError, errors.AsrError, errors.LlmError, errors.TtsError)
    named = {word for kind in kinds for word in re.findall(r"`([a-z]+_[a-z_]+)`", kind.__doc__ or "")}
    named |= {kind.default_code for kind in vars(errors).values() if isinstance(kind, type(StackChanError))}
    assert len(named) > 15
    assert named - {"retry_after_seconds", "engine_unknown"} <= error_codes()


def test_the_buckets_suit_speech() -> None:
    assert BUCKETS_SECONDS[0] == 0.05
    assert BUCKETS_SECONDS[-1] == 60
    assert list(BUCKETS_SECONDS) == sorted(BUCKETS_SECONDS)
