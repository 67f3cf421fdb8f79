"""Which recent turns of a session enter the prompt.

A window that slides by one turn would change the start of the history every time, and a prompt cache would have to
read all of it again. So the window's start moves in steps of several exchanges: between two steps the prompt only
grows at its end. Pure; token costs are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class HistoryTurn:
    """One side's words, as they were said. `emotion` and `action` belong to the robot's turns."""

    role: Literal["user", "robot"]
    text: str
    said_at: datetime
    """With the zone it was said in."""
    language: str = ""
    emotion: str = "neutral"
    action: str = "none"
    interrupted: bool = False


def window_start(costs: Sequence[int], *, budget_tokens: int, max_turns: int, step: int = 8) -> int:
    """The index of the first turn that enters the prompt.

    `costs`: tokens of every source turn of the session, oldest first. The answer is the smallest multiple of `step`
    from which at most `max_turns` turns and `budget_tokens` tokens remain; when even the last step is too long, the
    turns that fit are taken without a step.
    """
    if step < 1:
        raise ValueError("step must be at least 1")
    count = len(costs)
    for start in range(0, count, step):
        if count - start <= max_turns and sum(costs[start:]) <= budget_tokens:
            return start
    start, spent = count, 0
    while start > 0 and count - start < max_turns and spent + costs[start - 1] <= budget_tokens:
        start -= 1
        spent += costs[start]
    return start
