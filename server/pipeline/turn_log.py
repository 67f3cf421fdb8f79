"""One line in the log for every turn that ended: how it went and where the time went.

Holds no words of anybody; transcript and reply are handed over as private, and the log decides (`log_private_text`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from server.log_context import private
from server.pipeline.request import TurnRequest, TurnResult
from server.pipeline.tool_results import is_error
from server.pipeline.trace_facts import read_trace

_log = logging.getLogger(__name__)


def log_turn(request: TurnRequest, result: TurnResult, trace: Mapping[str, Any]) -> None:
    """A `TurnObserver`."""
    facts = read_trace(trace)
    outcome = result.outcome or "failed"
    total_ms = result.latency_ms.get("total", 0)
    first_audio_seconds = facts.moment_seconds.get("first_audio")
    stages = {name: round(seconds * 1000) for name, seconds in facts.stage_seconds.items()}
    tool_errors = sum(is_error(call.get("result")) for call in result.tool_calls)

    told = [f"the turn ended: {outcome} in {total_ms / 1000:.2f} s"]
    if first_audio_seconds is not None:
        told.append(f"first sound after {first_audio_seconds:.2f} s")
    told += [f"{name} {took_ms / 1000:.2f} s" for name, took_ms in stages.items()]
    if facts.llm_calls:
        told.append(
            f"{facts.llm_calls} LLM calls with {facts.prompt_tokens} tokens"
            f" ({facts.cached_tokens} cached) for {facts.completion_tokens}"
        )
    fields: dict[str, Any] = {
        "event": "turn_ended",
        "outcome": outcome,
        "input": "text" if request.text is not None else "audio",
        "duration_ms": total_ms,
        "first_audio_ms": None if first_audio_seconds is None else round(first_audio_seconds * 1000),
        "stages_ms": stages,
        "llm_calls": facts.llm_calls,
        "prompt_tokens": facts.prompt_tokens,
        "cached_tokens": facts.cached_tokens,
        "completion_tokens": facts.completion_tokens,
        "llm_retries": facts.llm_retries,
        "tool_calls": len(result.tool_calls),
        "tool_errors": tool_errors,
        "asr_dropped": facts.asr_dropped,
        "code": result.error.code if result.error else facts.llm_error,
    }
    if fields["code"]:
        told.append(str(fields["code"]))
    if facts.asr_dropped:
        told.append(f"what was heard was dropped ({facts.asr_dropped})")
    _log.info("%s", ", ".join(told), extra=fields | dict(private(transcript=result.transcript, reply=result.reply)))
