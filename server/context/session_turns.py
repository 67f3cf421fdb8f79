"""Which earlier turns of a session enter the prompt.

A window that slides by one turn would change the start of the history every time, and a prompt cache would have to
read all of it again. So the window's start moves in steps of several turns: between two steps the prompt only grows at
its end. Knows no engine: how to count tokens is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from server.engines.base import LlmMessage

STEP_TURNS = 4
# What the chat template, the JSON of an answer and the clock add around the words of one earlier turn.
_AROUND_EXCHANGE_TOKENS = 50
_AROUND_MESSAGE_TOKENS = 6
# For the marks around the newest words and the clock.
PROMPT_MARGIN_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Exchange:
    """One earlier turn: both sides' words as they were said, and what the robot's face and body did.

    `robot_text` is empty where the robot was interrupted before it was heard.
    """

    user_text: str
    robot_text: str
    language: str
    """ISO 639-1."""
    said_at: datetime
    emotion: str = "neutral"
    action: str = "none"
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class SessionTurns:
    """The newest exchanges of a session, oldest first, and how many came before them."""

    exchanges: tuple[Exchange, ...] = ()
    earlier: int = 0


def window_start(
    costs: Sequence[int], *, budget_tokens: int, max_turns: int, earlier: int = 0, step: int = STEP_TURNS
) -> int:
    """The index in `costs` of the first turn that enters the prompt; `len(costs)` for none.

    `costs`: tokens of each turn, oldest first; `earlier`: turns of the session before these. The window begins at the
    first whole step (counted from the session's start) from which at most `max_turns` turns and `budget_tokens` tokens
    remain; when even the last step is too long, it holds the turns that fit.
    """
    if step < 1:
        raise ValueError("step must be at least 1")
    count = len(costs)
    for start in range(-earlier % step, count, step):
        if count - start <= max_turns and sum(costs[start:]) <= budget_tokens:
            return start
    start, spent = count, 0
    while start > 0 and count - start < max_turns and spent + costs[start - 1] <= budget_tokens:
        start -= 1
        spent += costs[start]
    return start


async def choose_exchanges(
    session: SessionTurns, count_tokens: Callable[[str], Awaitable[int]], *, budget_tokens: int, max_turns: int
) -> tuple[Exchange, ...]:
    """The exchanges that enter the prompt, oldest first."""
    costs = [
        await count_tokens(exchange.user_text + exchange.robot_text) + _AROUND_EXCHANGE_TOKENS
        for exchange in session.exchanges
    ]
    start = window_start(costs, budget_tokens=budget_tokens, max_turns=max_turns, earlier=session.earlier)
    return session.exchanges[start:]


async def prompt_tokens(messages: Sequence[LlmMessage], count_tokens: Callable[[str], Awaitable[int]]) -> int:
    """Tokens of messages with the marks around them; an estimate that errs on the high side."""
    text = "".join(message.content for message in messages)
    return await count_tokens(text) + _AROUND_MESSAGE_TOKENS * len(messages)
