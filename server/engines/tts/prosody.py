"""How a feeling sounds: the defaults that every voice with a speed and a pitch shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prosody:
    """`speed`: 1.0 is normal. `half_tones`: added to the pitch."""

    speed: float = 1.0
    half_tones: float = 0.0


PROSODY_OF_EMOTION: Mapping[str, Prosody] = {
    "neutral": Prosody(),
    "happy": Prosody(1.06, 1.5),
    "sad": Prosody(0.9, -1.5),
    "angry": Prosody(1.08, -0.8),
    "doubt": Prosody(0.96, 0.8),
    "sleepy": Prosody(0.84, -2.0),
    "surprised": Prosody(1.1, 2.5),
}
"""Modest: further away the voice becomes hard to understand. An unknown emotion is neutral."""
