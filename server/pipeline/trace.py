"""The stage times of one turn, as they are stored and drawn as a waterfall.

Times are milliseconds since the turn was received. Holds no words of anybody: it can be shown and logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Span:
    """One stage: when it began and ended; `end_ms` is None when it never did."""

    name: str
    start_ms: float
    end_ms: float | None = None


@dataclass(slots=True)
class TurnTrace:
    """Collects marks and spans while a turn runs. `monotonic` returns seconds."""

    monotonic: Callable[[], float]
    received_seconds_ago: float = 0.0
    """How long before this was made its turn was received: what was said live was, when its last word had come in."""
    spans: list[Span] = field(default_factory=list)
    marks: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    llm_calls: int = 0
    early_calls_used: int = 0
    """Of the calls, how many were begun before the end of the speech was certain."""
    early_calls_wasted: int = 0
    """Begun so, and thrown away; not among the calls."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    told: bool = False
    """Whether the observers of turns know of this one's end."""
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.monotonic() - self.received_seconds_ago

    def now_ms(self) -> float:
        return round((self.monotonic() - self._started) * 1000, 1)

    def mark(self, name: str) -> None:
        """Remember the first time something happened."""
        self.marks.setdefault(name, self.now_ms())

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Time a stage, also one that fails."""
        span = Span(name, self.now_ms())
        self.spans.append(span)
        try:
            yield
        finally:
            span.end_ms = self.now_ms()

    def taken_in(self) -> None:
        """Add the stage `receive`, which ends now. Of what was said live a stage of its own comes before it: `silence`,
        waited for until the speech was certainly over (the mark `endpoint`)."""
        certain_ms = self.marks.get("endpoint", 0.0) if self.received_seconds_ago > 0 else 0.0
        if certain_ms:
            self.spans.append(Span("silence", 0.0, certain_ms))
        self.spans.append(Span("receive", certain_ms, self.now_ms()))

    def latency_ms(self) -> dict[str, int]:
        """The short form that goes with the answer: durations of stages, and moments since the turn was received."""
        durations: dict[str, float] = {}
        for span in self.spans:
            if span.end_ms is not None:
                durations[span.name] = durations.get(span.name, 0.0) + span.end_ms - span.start_ms
        moments: dict[str, float] = {
            name: self.marks[name]
            for name in ("first_token", "filler", "first_clause", "first_audio")
            if name in self.marks
        }
        times: dict[str, float] = {**durations, **moments, "total": self.now_ms()}
        return {name: round(value) for name, value in times.items()}

    def as_dict(self) -> dict[str, Any]:
        return {
            "spans": [{"name": s.name, "start_ms": s.start_ms, "end_ms": s.end_ms} for s in self.spans],
            "marks": self.marks,
            "llm": {
                "calls": self.llm_calls,
                "early_used": self.early_calls_used,
                "early_wasted": self.early_calls_wasted,
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "completion_tokens": self.completion_tokens,
            },
            **self.facts,
        }
