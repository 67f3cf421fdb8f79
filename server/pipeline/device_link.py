"""The way from a turn to the device that is in it: the state it sees and the events it gets.

Knows no wire format: events go to a function.
"""

from __future__ import annotations

from server.events import StateChanged, TurnEvent, TurnState
from server.pipeline.parts import Emit
from server.pipeline.state import StateMachine


class DeviceLink:
    """One device during one turn."""

    def __init__(self, turn_id: int, emit: Emit) -> None:
        self._turn_id = turn_id
        self._emit = emit
        self._state = StateMachine()

    async def move(self, state: TurnState) -> None:
        """Move to a state and show it; a move that the table forbids is logged and left out."""
        if self._state.move(state):
            await self.emit(StateChanged(self._turn_id, state))

    async def emit(self, event: TurnEvent) -> None:
        await self._emit(event)
