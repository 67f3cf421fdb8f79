"""A stored trace read back as numbers, for metrics and logs.

Takes what is there: a key that is missing or holds something else counts as nothing. Knows neither who measures nor
what is done with the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# More than any turn has; a trace may come from a hostile server.
_MAX_SPANS = 1000
_LONGEST_MS = 1e12


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """One turn in numbers; times in seconds."""

    spans: tuple[tuple[str, float, float], ...]
    """Each stage with the milliseconds of its beginning and its end, as they were stored."""
    stage_seconds: Mapping[str, float]
    """How long each stage worked, all its spans together."""
    moment_seconds: Mapping[str, float]
    """When things first happened, after the turn was received."""
    llm_calls: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    llm_retries: int
    tool_errors: int
    answer_was_json: bool | None
    """None: the model gave no answer to judge."""
    unknown_ids: Mapping[str, int]
    """How many ids of each kind (`emotion`, `action`) the persona does not have."""
    asr_dropped: str | None
    apology: str | None
    filler: str | None
    """How the wait for an answer was shown (`clip`, `face`); None: it was not."""
    tool_refusals: int
    """Calls of tools that the server's rules did not let through."""
    llm_error: str | None
    """Code of the error that cut an answer short whose beginning was spoken."""


def read_trace(trace: Mapping[str, Any]) -> TraceFacts:
    """The facts of a trace as `TurnTrace.as_dict` writes it, of this version or another."""
    llm = mapping(trace.get("llm"))
    spans = tuple(_spans(trace.get("spans")))
    stages: dict[str, float] = {}
    for name, start, end in spans:
        stages[name] = stages.get(name, 0.0) + max(0.0, end - start) / 1000
    unknown: dict[str, int] = {}
    ids = trace.get("unknown_ids")
    for entry in ids if isinstance(ids, list | tuple) else ():
        kind = str(entry).partition(":")[0]
        unknown[kind] = unknown.get(kind, 0) + 1
    moments: dict[str, float] = {}
    for mark, value in mapping(trace.get("marks")).items():
        if (at := _time(value)) is not None:
            moments[str(mark)] = at / 1000
    was_json = trace.get("answer_was_json")
    return TraceFacts(
        spans=spans,
        stage_seconds=stages,
        moment_seconds=moments,
        llm_calls=_count(llm.get("calls")),
        prompt_tokens=_count(llm.get("prompt_tokens")),
        cached_tokens=_count(llm.get("cached_tokens")),
        completion_tokens=_count(llm.get("completion_tokens")),
        llm_retries=_count(trace.get("llm_retries")),
        tool_errors=_count(trace.get("tool_errors")),
        answer_was_json=was_json if isinstance(was_json, bool) else None,
        unknown_ids=unknown,
        asr_dropped=_text(trace.get("asr_dropped")),
        apology=_text(trace.get("apology")),
        filler=_text(trace.get("filler")),
        tool_refusals=_count(trace.get("tool_refusals")),
        llm_error=_text(trace.get("llm_error")),
    )


def mapping(value: object) -> Mapping[str, Any]:
    """An object of somebody's JSON; anything else is an empty one."""
    return value if isinstance(value, Mapping) else {}


def _spans(value: object) -> Iterator[tuple[str, float, float]]:
    for span in value[:_MAX_SPANS] if isinstance(value, list | tuple) else ():
        fields = mapping(span)
        name, start, end = fields.get("name"), _time(fields.get("start_ms")), _time(fields.get("end_ms"))
        if isinstance(name, str) and start is not None and end is not None:
            yield name, start, end


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Also keeps out what is no number, and integers that no float holds.
    return float(value) if 0 <= value <= _LONGEST_MS else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
