"""The states a device can see, and the one table of moves between them.

`idle -> listening -> thinking -> speaking -> (listening | idle)`, plus `error`; `idle -> speaking` is an announcement.
Knows nothing of devices or time: an illegal move is refused and logged, never raised into a turn.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from server.events import TurnState

_log = logging.getLogger(__name__)

TRANSITIONS: Mapping[TurnState, frozenset[TurnState]] = MappingProxyType(
    {
        "idle": frozenset({"listening", "speaking"}),
        "listening": frozenset({"thinking", "idle", "error"}),
        "thinking": frozenset({"speaking", "listening", "idle", "error"}),
        "speaking": frozenset({"listening", "idle", "error"}),
        "error": frozenset({"speaking", "listening", "idle"}),
    }
)


class StateMachine:
    """The state of one device's conversation."""

    def __init__(self, state: TurnState = "idle") -> None:
        self.state: TurnState = state
        self.rejected_moves = 0

    def move(self, to: TurnState) -> bool:
        """Move to `to`; False when the table does not allow it. Staying is always allowed and reported as False."""
        if to == self.state:
            return False
        if to not in TRANSITIONS[self.state]:
            self.rejected_moves += 1
            _log.warning("state move refused: %s -> %s", self.state, to)
            return False
        self.state = to
        return True
