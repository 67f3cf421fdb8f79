"""How much one device may send before its connection is closed. Times are passed in; no clock, no socket.

A frame of sound is judged by its length alone, read from its first bytes. Holds no sound, and no more than fifty
numbers however much comes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from server.devices.message_fields import MAX_FRAME_BYTES
from server.devices.wire import AudioFormat, CloseCode, DeviceError

AUDIO_WINDOW_SECONDS = 5.0
AUDIO_RATE = 2.0
"""More sound than this many seconds a second, over the window, is no microphone."""
HELD_UP_SECONDS = 30.0
"""So much sound may come late, all at once: a network that stood still, or this server, kept it waiting."""
MAX_BAD_MESSAGES = 10
"""With this one the connection is closed."""

# Of sound at exactly this rate, the frame that has just come reaches beyond now.
_GRACE_SECONDS = 0.12
# Frames of no length would be free, and each still costs a decoding.
_LEAST_FRAME_MS = 1.0
_BUCKET_SECONDS = 0.1
_BUCKETS = round(AUDIO_WINDOW_SECONDS / _BUCKET_SECONDS)

# RFC 6716, table 2: the length of one frame by the configuration in the first five bits.
_SILK_MS = (10.0, 20.0, 40.0, 60.0)
_HYBRID_MS = (10.0, 20.0)
_CELT_MS = (2.5, 5.0, 10.0, 20.0)
_MAX_OPUS_PACKET_MS = 120.0


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken: the device gets `error`, then the connection is closed with `close_code`."""

    error: DeviceError
    close_code: CloseCode


def audio_ms(audio: AudioFormat, frame: bytes) -> float:
    """The length of a microphone frame in milliseconds; of one that cannot be sound, 0."""
    if audio.format == "pcm16":
        return len(frame) // 2 * 1000 / audio.sample_rate_hz
    return opus_packet_ms(frame)


def opus_packet_ms(packet: bytes) -> float:
    """The length of an Opus packet in milliseconds by its first bytes (RFC 6716, 3.1); 0: no Opus packet."""
    if not packet:
        return 0.0
    config, code = packet[0] >> 3, packet[0] & 3
    if config < 12:
        frame_ms = _SILK_MS[config % 4]
    elif config < 16:
        frame_ms = _HYBRID_MS[config % 2]
    else:
        frame_ms = _CELT_MS[config % 4]
    frames = (1, 2, 2, packet[1] & 0x3F if len(packet) > 1 else 0)[code]
    total_ms = frames * frame_ms
    return total_ms if total_ms <= _MAX_OPUS_PACKET_MS else 0.0


class IntakeLimits:
    """What one connection has sent so far. Every method returns the rule that is now broken, or None."""

    def __init__(self) -> None:
        self.bad_messages = 0
        self._buckets: deque[tuple[int, int]] = deque()
        """Tenths of a second that brought sound, and how many microseconds of it."""
        self._us = 0
        """Of all of them."""
        self._ahead_seconds = 0.0
        """How much more sound has come than time went by; less than nothing while some may still be held up."""
        self._judged_seconds: float | None = None
        """When that was."""

    def frame(self, size_bytes: int) -> Violation | None:
        """A frame, text or binary, of `size_bytes` has come."""
        if size_bytes <= MAX_FRAME_BYTES:
            return None
        message = f"A frame has at most {MAX_FRAME_BYTES} bytes, this one {size_bytes}."
        return Violation(DeviceError("message_too_large", message), CloseCode.TOO_BIG)

    def audio(self, now_seconds: float, milliseconds: float) -> Violation | None:
        """`milliseconds` of sound have come at `now_seconds` of a monotonic clock."""
        bucket = int(now_seconds // _BUCKET_SECONDS)
        while self._buckets and self._buckets[0][0] <= bucket - _BUCKETS:
            self._us -= self._buckets.popleft()[1]
        same = bool(self._buckets) and self._buckets[-1][0] == bucket
        before_us = self._buckets.pop()[1] if same else 0
        more_us = round(1000 * max(milliseconds, _LEAST_FRAME_MS))
        self._us += more_us
        self._buckets.append((bucket, before_us + more_us))
        passed_seconds = 0.0 if self._judged_seconds is None else max(0.0, now_seconds - self._judged_seconds)
        self._judged_seconds = now_seconds
        self._ahead_seconds = max(self._ahead_seconds - passed_seconds, -HELD_UP_SECONDS) + more_us / 1e6
        allowed_seconds = AUDIO_RATE * AUDIO_WINDOW_SECONDS
        is_late_rather_than_fast = self._ahead_seconds <= allowed_seconds - AUDIO_WINDOW_SECONDS
        if is_late_rather_than_fast or self._us <= 1e6 * (allowed_seconds + _GRACE_SECONDS):
            return None
        message = f"More than {allowed_seconds:g} s of sound came within {AUDIO_WINDOW_SECONDS:g} s."
        return Violation(DeviceError("audio_too_fast", message), CloseCode.POLICY)

    def bad_message(self) -> Violation | None:
        """A message came that could not be understood."""
        self.bad_messages += 1
        if self.bad_messages < MAX_BAD_MESSAGES:
            return None
        message = f"{MAX_BAD_MESSAGES} messages could not be understood."
        return Violation(DeviceError("too_many_bad_messages", message), CloseCode.POLICY)
