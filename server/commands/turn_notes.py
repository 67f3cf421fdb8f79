"""What a turn cost and what was odd about it, in sentences for a terminal: from its answer and its trace.

Both may come from another version or a hostile server: what is missing or senseless is left out, and nothing that
steers a terminal gets through. Knows neither HTTP nor drawing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from server.commands.terminal import printable_line
from server.pipeline.trace_facts import mapping, read_trace

MAX_WORDS_CHARACTERS = 200
MAX_NUMBER = 1e9
"""No time in ms and no count of a turn is larger; a server that says so errs."""

_DROPPED = {
    "empty": "a voice was there, but no words in it",
    "repetition": "the words repeat themselves, as the recogniser does with noise",
    "hot_words": "only the words were heard that the recogniser had been told to expect",
    "too_fast": "more words than can be spoken in that time",
    "stock_phrase": "a phrase that the recogniser makes up where there is none",
}
_APOLOGIES = {
    "clip": "the apology was a prepared recording",
    "live": "the apology was spoken when it was needed",
    "none": "the apology had no sound",
}


def summary(answer: Mapping[str, Any], trace: Mapping[str, Any] | None) -> str:
    """Model calls, tokens, retries and tools on one line, in parts joined by ` · `; empty when nothing is known."""
    facts = read_trace(trace or {})
    calls, written = count(facts.llm_calls), count(facts.completion_tokens)
    prompt, cached = count(facts.prompt_tokens), count(facts.cached_tokens)
    parts = []
    if calls:
        parts.append(_plural(calls, "LLM call"))
        parts.append(f"{prompt:,} prompt tokens" + (f" ({cached:,} from the cache)" if cached else ""))
        parts.append(f"{written:,} written")
    if retries := count(facts.llm_retries):
        parts.append(_plural(retries, "retry", "retries"))
    if mapping(answer.get("memory")).get("searched") is True:
        parts.append("searched memory")
    if failed := count(facts.tool_errors):
        parts.append(f"{_plural(failed, 'tool call')} failed")
    return " · ".join(parts)


def notes(answer: Mapping[str, Any], trace: Mapping[str, Any] | None) -> list[str]:
    """What was not as it should be, one line each."""
    trace = trace or {}
    facts = read_trace(trace)
    told = []
    if facts.answer_was_json is False:
        told.append("the model did not keep to the form asked for: its text was spoken as it is")
    if unknown := [one_line(entry) for entry in _list(trace.get("unknown_ids"))[:8]]:
        told.append(f"not in the persona, so replaced: {', '.join(unknown)}")
    if cut := one_line(facts.llm_error):
        told.append(f"the answer was cut off [{cut}]")
    if apology := one_line(facts.apology):
        told.append(_APOLOGIES.get(apology, f"apology: {apology}"))
    return told


def place(answer: Mapping[str, Any]) -> str:
    """Which turn of which conversation it was, as the log and `POST /v1/sessions/{session_id}/end` name them."""
    turn_id, session_id = count(answer.get("turn_id")), one_line(answer.get("session_id"))
    known = ((f"turn {turn_id}", turn_id), (f"session {session_id}", session_id))
    return " · ".join(told for told, there in known if there)


def dropped_reason(trace: Mapping[str, Any] | None) -> str:
    """Why what was heard was not taken for words; empty when nothing was dropped."""
    reason = one_line(read_trace(trace or {}).asr_dropped)
    return _DROPPED.get(reason, reason)


def one_line(value: object) -> str:
    """Text of a server beside other text: on one line, printable, not endless. Other values are nothing."""
    if not isinstance(value, str):
        return ""
    line = printable_line(value[: 4 * MAX_WORDS_CHARACTERS])
    return line if len(line) <= MAX_WORDS_CHARACTERS else f"{line[:MAX_WORDS_CHARACTERS]}…"


def number(value: object) -> float | None:
    """A time or count that a turn can have; None for everything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        return None
    return float(value) if math.isfinite(value) else None


def count(value: object) -> int:
    """A number of things; 0 for what is none."""
    found = number(value)
    return 0 if found is None else int(found)


def _plural(amount: int, one: str, many: str = "") -> str:
    return f"{amount:,} {one if amount == 1 else many or f'{one}s'}"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
