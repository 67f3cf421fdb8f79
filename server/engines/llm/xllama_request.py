"""One request to xllamacpp on a thread of its own: its chunks posted, its errors classified, its grammar written.

Knows the library's forms; not prompts, answers or the event loop.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from server.errors import LlmError


class Ended:
    """The request is over; the last thing in a stream."""


Event = Mapping[str, Any] | LlmError | Ended


def complete(server: Any, body: dict[str, Any], post: Callable[[Event], None], stop: threading.Event) -> None:
    """Run one request to its end on this thread, posting what the library says."""

    def on_chunk(chunk: Mapping[str, Any]) -> bool:
        if "error" in chunk:
            post(llm_error(chunk["error"]))
            return True
        post(chunk)
        return stop.is_set()

    if not stop.is_set():
        server.handle_chat_completions(body, on_chunk)


def end_of(done: Future[None]) -> Event:
    if done.cancelled():
        return LlmError("The language model was closed before it could answer.", code="engine_unavailable")
    error = done.exception()
    if error is None:
        return Ended()
    return LlmError(f"The language model failed: {type(error).__name__}: {error}")


def llm_error(error: Any) -> LlmError:
    """Classify what the library reports, once."""
    fields = error if isinstance(error, Mapping) else {"message": str(error)}
    message = str(fields.get("message", "unknown"))
    if fields.get("type") == "exceed_context_size_error":
        return LlmError(
            f"The prompt has {fields.get('n_prompt_tokens', 'more')} tokens; "
            f"the model's window has {fields.get('n_ctx', 'fewer')}.",
            code="llm_context_overflow",
            hint="Send less history, or raise `llm.context_tokens`.",
        )
    return LlmError(f"The language model failed: {message}")


def compact_grammar(schema: Mapping[str, Any]) -> str:
    """The library's grammar for compact JSON of this schema: white space would be tokens nobody hears."""
    import xllamacpp

    options = {"whitespace_flexible": False, "coerce_one_of": True}
    grammar: str = xllamacpp.json_schema_to_grammar(json.dumps({**schema, "x-guidance": options}))
    if grammar.startswith("%llguidance"):
        return grammar
    # A build without llguidance writes GBNF, where white space is the rule `space`.
    lines = grammar.splitlines()
    return "\n".join('space ::= ""' if line.startswith("space ::=") else line for line in lines)
