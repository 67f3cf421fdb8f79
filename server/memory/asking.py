"""Who asks the memory. Knows no tool, no table and no model."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, in which turn; bounds what a tool may find, read and forget."""

    persona: str
    """Id of the persona that is spoken to; only what was told to it is found."""
    speaker: str | None
    """Id of the person, None when it is not known; their own private memories are found only with it."""
    session_id: str
    turn_id: int
    asked_at: dt.datetime
    """When the turn began, aware."""
    zone: dt.tzinfo
    """Of the days that are meant by the words."""
    words: str
    """What the user said in this turn."""
    language: str = ""
    """ISO 639-1, of these words; empty: not known."""
    device_id: str = ""
    """The device that is spoken to; empty: not known."""
