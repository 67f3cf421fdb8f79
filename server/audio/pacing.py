"""When the next frame of speech may go to a device, and how much of it the device has played.

A device plays what it gets in real time and drops what its queue cannot hold; it goes silent when the queue is empty.
Pure arithmetic over times that are passed in, seconds of one monotonic clock: no clock, no waiting, no sockets.
"""

from __future__ import annotations

_TOLERANCE_SECONDS = 1e-6
"""A timer that wakes a hair early must not be sent back to sleep for that hair."""


class Pacer:
    """Follows one speech of frames that last `frame_ms`; the device never holds more than `lead_frames` of them.

    The lead goes at once, then one frame each frame time; with `burst_frames` so many at a time, to wake up less often.
    Frames that come late, by a stall of the sender or of the voice, are made up for until the lead is whole again: all
    of it at once when the device has run empty.
    """

    def __init__(self, frame_ms: int, lead_frames: int = 5, burst_frames: int = 1) -> None:
        if frame_ms <= 0 or not 1 <= burst_frames <= lead_frames:
            raise ValueError("A pacer needs frames that last some time and a lead of at least one burst of them.")
        self._frame_seconds = frame_ms / 1000
        self._lead_seconds = self._frame_seconds * lead_frames
        self._burst_seconds = self._frame_seconds * burst_frames
        self._runs_dry_at: float | None = None
        self._frames = 0

    def delay_seconds(self, now: float) -> float:
        """How long the next frame has to wait; 0.0: it may go now."""
        unplayed = self.unplayed_seconds(now)
        if unplayed + self._frame_seconds - self._lead_seconds <= _TOLERANCE_SECONDS:
            return 0.0
        return unplayed + self._burst_seconds - self._lead_seconds

    def sent(self, now: float) -> None:
        """Note that a frame went to the device. It is believed also when it was sent too early."""
        start = now if self._runs_dry_at is None else max(now, self._runs_dry_at)
        self._runs_dry_at = start + self._frame_seconds
        self._frames += 1

    def unplayed_seconds(self, now: float) -> float:
        """How much sound the device still has at least: it cannot play faster, nor before it gets something.

        That is also how long to wait with saying that the speech is over.
        """
        return 0.0 if self._runs_dry_at is None else max(0.0, self._runs_dry_at - now)

    @property
    def sent_ms(self) -> int:
        """How much sound has been sent, the silence that fills the last frame included."""
        return round(self._frames * self._frame_seconds * 1000)

    def played_ms(self, now: float) -> int:
        """How much of it the device has played at most."""
        return max(0, round((self._frames * self._frame_seconds - self.unplayed_seconds(now)) * 1000))
