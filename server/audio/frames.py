"""The robot's voice as wire frames of one duration: PCM16, or one Opus packet a frame.

Samples come in pieces of any length; what does not fill a frame waits for the next piece. When a frame may be sent is
decided in `server.audio.pacing`; this module knows no clock and no wire.
"""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np

from server.audio.codec import OPUS_SAMPLE_RATES_HZ
from server.audio.stream_intake import WireFormat
from server.errors import AudioError
from server.events import Pcm16

MIN_FRAME_MS, MAX_FRAME_MS = 10, 120
OPUS_FRAME_MS = (10, 20, 40, 60, 80, 100, 120)
"""The durations that an Opus packet can have, from `MIN_FRAME_MS` on."""

_OPUS_LOOKAHEAD_SECONDS = 0.0065
"""So much later than it was put in, a sound leaves the decoder."""
_OPUS_COMPLEXITY = 5


class FrameCutter:
    """Turns int16 mono pieces into frames of `frame_ms`. Not for two threads at once.

    Raises `AudioError` (`audio_unsupported`) for a duration that has no whole number of samples, is not within 10 to
    120 ms or, with `opus`, is none that a packet can have.
    """

    def __init__(self, format: WireFormat, sample_rate_hz: int, frame_ms: int, *, bit_rate: int = 32_000) -> None:
        if format not in ("pcm16", "opus"):
            raise _unsupported(f"Speech in the format {format!r} is not made here.", "Ask for pcm16 or opus.")
        if not MIN_FRAME_MS <= frame_ms <= MAX_FRAME_MS or sample_rate_hz * frame_ms % 1000:
            raise _unsupported(
                f"Frames of {frame_ms} ms at {sample_rate_hz} Hz are not made here.",
                f"Use {MIN_FRAME_MS} to {MAX_FRAME_MS} ms with a whole number of samples, for example 60 ms.",
            )
        self.sample_rate_hz = sample_rate_hz
        self.frame_ms = frame_ms
        self.frame_samples = sample_rate_hz * frame_ms // 1000
        self._rest: Pcm16 = np.zeros(0, np.int16)
        self._began = False
        self._encoder: av.AudioCodecContext | None = None
        if format == "opus":
            self._encoder = _opus_encoder(sample_rate_hz, frame_ms, bit_rate)

    def push(self, samples: Pcm16) -> list[bytes]:
        """The frames that are full after `samples`, int16, shape (n,); may be none."""
        if samples.dtype != np.int16 or samples.ndim != 1:
            raise TypeError(f"Frames are cut from int16 mono, not {samples.dtype} of the shape {samples.shape}.")
        self._began = self._began or len(samples) > 0
        waiting = np.concatenate([self._rest, samples])
        whole = len(waiting) // self.frame_samples * self.frame_samples
        self._rest = waiting[whole:]
        return [self._written(frame) for frame in waiting[:whole].reshape(-1, self.frame_samples)]

    def finish(self) -> list[bytes]:
        """The last frames, filled up with silence; none when nothing waits. Then the next speech may be pushed.

        Opus gets one more when the end of the sound would stay behind in the device's decoder.
        """
        if not self._began:
            return []
        lookahead = round(_OPUS_LOOKAHEAD_SECONDS * self.sample_rate_hz) if self._encoder is not None else 0
        frames = self.push(np.zeros(self._missing(len(self._rest) + lookahead), np.int16))
        self._began = False
        return frames

    def _missing(self, needed: int) -> int:
        """Samples from the end of what waits to the end of the frame that holds `needed` samples."""
        return -(-needed // self.frame_samples) * self.frame_samples - len(self._rest)

    def _written(self, samples: Pcm16) -> bytes:
        if self._encoder is None:
            return samples.astype("<i2", copy=False).tobytes()
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None, :], format="s16", layout="mono")
        frame.sample_rate = self.sample_rate_hz
        (packet,) = self._encoder.encode(frame)
        return bytes(packet)


def _opus_encoder(sample_rate_hz: int, frame_ms: int, bit_rate: int) -> av.AudioCodecContext:
    if sample_rate_hz not in OPUS_SAMPLE_RATES_HZ:
        raise _unsupported(f"Opus has no sample rate of {sample_rate_hz} Hz.", f"Use one of {OPUS_SAMPLE_RATES_HZ}.")
    if frame_ms not in OPUS_FRAME_MS:
        raise _unsupported(f"Opus has no packets of {frame_ms} ms.", f"Use one of {OPUS_FRAME_MS} ms, best 60.")
    encoder = av.AudioCodecContext.create("libopus", "w")
    encoder.sample_rate = sample_rate_hz
    encoder.layout = "mono"
    encoder.format = "s16"
    encoder.bit_rate = bit_rate
    encoder.time_base = Fraction(1, sample_rate_hz)
    encoder.options = {
        "application": "voip",
        "frame_duration": str(frame_ms),
        "compression_level": str(_OPUS_COMPLEXITY),
    }
    encoder.open()
    return encoder


def _unsupported(message: str, hint: str) -> AudioError:
    return AudioError(message, code="audio_unsupported", hint=hint)
