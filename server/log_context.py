"""What a log line knows beside its message: the turn it belongs to, and an error without anybody's words.

`commands/logs.py` writes the lines. This module does not know what a turn is, nor how a line looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from server.errors import StackChanError


@dataclass(frozen=True, slots=True)
class TurnOfLine:
    """The turn that a log line is about."""

    turn_id: int
    device_id: str


_TURN: ContextVar[TurnOfLine | None] = ContextVar("turn_of_line", default=None)


def bind_turn(turn_id: int, device_id: str) -> None:
    """From here on, lines of this task and of the tasks and threads it starts belong to this turn.

    Call it in a task of the turn's own: there is no way back.
    """
    _TURN.set(TurnOfLine(turn_id, device_id))


def current_turn() -> TurnOfLine | None:
    """The turn of the running task."""
    return _TURN.get()


def error_fields(error: BaseException) -> Mapping[str, Any]:
    """`extra` for a line about an error: `code`, `error` (its kind and what it came from), and `detail`.

    An error's message may quote what was said or what a model wrote (endpoints do that), so it belongs in `detail`,
    which is written only where private text may be; the line itself names the code.
    """
    code = error.code if isinstance(error, StackChanError) else "internal"
    kinds = [type(error).__name__]
    cause = error.__cause__
    while cause is not None and len(kinds) < 4:
        kinds.append(type(cause).__name__)
        cause = cause.__cause__
    message = error.message if isinstance(error, StackChanError) else str(error)
    return {"code": code, "error": " from ".join(kinds), "detail": message}


def private(**words: str) -> Mapping[str, Any]:
    """`extra` for words of people: they reach the log only where `log_private_text` allows it."""
    return {"private": words}
