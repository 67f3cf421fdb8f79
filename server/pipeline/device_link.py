"""The way from a turn to the device that is in it: the state it sees and the events it gets.

A device that has vanished neither stops nor delays its turn: after the first event that cannot be delivered nothing
more is sent. Knows no wire format: events go to a function.
"""

from __future__ import annotations

import logging

from server.events import StateChanged, TurnEvent, TurnState
from server.pipeline.bounded import bounded
from server.pipeline.parts import Emit
from server.pipeline.state import StateMachine
from server.pipeline.trace import TurnTrace

_log = logging.getLogger(__name__)

# A device takes an event at once or has a network that is worse than silence. Counts in the time of the stage.
EMIT_TIMEOUT_SECONDS = 3.0


class DeviceLink:
    """One device during one turn. `gone`: an event could not be delivered."""

    def __init__(self, turn_id: int, emit: Emit, trace: TurnTrace) -> None:
        self.gone = False
        self._turn_id = turn_id
        self._emit = emit
        self._trace = trace
        self._state = StateMachine()

    async def move(self, state: TurnState) -> None:
        """Move to a state and show it; a move that the table forbids is logged and left out."""
        if self._state.move(state):
            await self.emit(StateChanged(self._turn_id, state))

    async def emit(self, event: TurnEvent) -> None:
        """Send an event. Never raises but for a cancelled turn."""
        if self.gone:
            return
        try:
            await bounded(self._deliver(event), EMIT_TIMEOUT_SECONDS)
        except Exception as error:
            self.gone = True
            self._trace.facts["device_gone"] = True
            _log.warning("the device is gone (%s); the turn goes on without it", type(error).__name__)

    async def _deliver(self, event: TurnEvent) -> None:
        await self._emit(event)
