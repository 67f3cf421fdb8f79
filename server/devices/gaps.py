"""When nothing comes of a device that leaves out silence (Opus with DTX): whether it is silent, or its network is slow.

Told of the packets by their bytes; no clock, no socket, no decoder.
"""

from __future__ import annotations

MOST_DTX_BYTES = 2
"""A packet of so few bytes holds no sound: with it an encoder says that it is silent from here on (RFC 6716, 2.1.9)."""
STALL_SECONDS = 1.5
"""After any other packet, what does not come is waited for so long: the rest of a word may be on its way."""

_QUIET_FRAMES, _QUIET_SECONDS = 3, 0.2


class Gaps:
    """One connection's. `frame_seconds`: the usual length of a frame."""

    def __init__(self, frame_seconds: float) -> None:
        self._quiet_seconds = max(_QUIET_SECONDS, _QUIET_FRAMES * frame_seconds)
        self._said_silent = False

    def packet(self, data: bytes) -> None:
        """A frame of sound has come."""
        self._said_silent = len(data) <= MOST_DTX_BYTES

    def silent(self) -> None:
        """A gap was taken for silence: it goes on."""
        self._said_silent = True

    @property
    def patience_seconds(self) -> float:
        """What does not come for so long is a silence of this length."""
        return self._quiet_seconds if self._said_silent else max(self._quiet_seconds, STALL_SECONDS)
