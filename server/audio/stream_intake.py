"""Live sound from a device: one wire frame after another becomes float32 mono at 16 kHz, without waiting.

Whatever the size of the frames, the samples are the same ones. A frame that is no sound costs only itself. This module
does not know sockets, clocks or how much sound a device may send; whole recordings are `server.audio.codec`'s.
"""

from __future__ import annotations

from typing import Any, Literal

import av
import numpy as np
from numpy.typing import NDArray

from server.audio.codec import OPUS_SAMPLE_RATES_HZ
from server.errors import AudioError
from server.events import ASR_SAMPLE_RATE_HZ, Samples

WireFormat = Literal["pcm16", "opus"]

_MIN_RATE_HZ, _MAX_RATE_HZ = 8_000, 48_000
_MAX_CHANNELS = 2
_OPUS_DECODED_RATE_HZ = 48_000
"""FFmpeg decodes every Opus packet at this rate, whatever its sender recorded."""
_MAX_GAP_MS = 10_000
"""A time stamp from a device may claim years; any silence longer than this means the same."""


class StreamIntake:
    """One device's microphone. Not for two threads at once.

    `format`: `pcm16` (little-endian, interleaved) or `opus` (one packet a frame); `sample_rate_hz`, `channels`: what
    the device said it sends; channels are averaged. Raises `AudioError` (`audio_unsupported`) for what it cannot take.
    """

    def __init__(self, format: WireFormat, sample_rate_hz: int, channels: int = 1) -> None:
        if not 1 <= channels <= _MAX_CHANNELS:
            raise _unsupported(f"Live audio with {channels} channels", "Send one channel.")
        self._channels = channels
        self._decoder: av.AudioCodecContext | None = None
        if format == "pcm16":
            if not _MIN_RATE_HZ <= sample_rate_hz <= _MAX_RATE_HZ:
                raise _unsupported(
                    f"Live audio of {sample_rate_hz} Hz", f"Use {_MIN_RATE_HZ} to {_MAX_RATE_HZ} Hz; 16000 is best."
                )
            self._rate_hz = sample_rate_hz
        elif format == "opus":
            if sample_rate_hz not in OPUS_SAMPLE_RATES_HZ:
                raise _unsupported(f"Opus of {sample_rate_hz} Hz", f"Use one of {OPUS_SAMPLE_RATES_HZ}.")
            self._rate_hz = _OPUS_DECODED_RATE_HZ
            self._decoder = _opus_decoder()
        else:
            raise _unsupported(f"Live audio in the format {format!r}", "Send pcm16 or opus.")
        # FFmpeg's converter holds back 1 ms, soxr (used for recordings and voices) up to 36: that would be added to
        # the silence that everybody waits for.
        self._resampler = av.AudioResampler(format="flt", layout="mono", rate=ASR_SAMPLE_RATE_HZ)

    def push(self, frame: bytes) -> Samples:
        """The samples that are ready after `frame`: float32 in [-1, 1], shape (n,), 16 kHz; n may be 0.

        Raises `AudioError`: `audio_empty` (no byte in it) or `audio_invalid` (no whole samples, no Opus packet).
        Nothing of such a frame is taken, and the frames after it are understood as if it had not come.
        """
        if not frame:  # to the decoder, an empty packet would be the end of everything
            raise AudioError("An audio frame has no bytes.", code="audio_empty", hint="Send nothing when it is silent.")
        if self._decoder is not None:
            return self._decode(self._decoder, frame)
        if len(frame) % (2 * self._channels):
            raise AudioError(
                f"{len(frame)} bytes are not a whole number of 16-bit samples in {self._channels} channel(s).",
                hint="Send whole little-endian 16-bit samples.",
            )
        samples = _full_scale(np.frombuffer(frame, "<i2"))
        if self._channels > 1:
            samples = samples.reshape(-1, self._channels).mean(axis=1, dtype=np.float32)
        return self._at_16_khz(samples)

    def gap(self, ms: float) -> Samples:
        """Silence in place of what the device did not send (DTX, a frame that was lost); more than 10 s become 10 s.

        Raises `ValueError` for a time that is negative or no number.
        """
        if not ms >= 0:
            raise ValueError(f"A gap cannot last {ms} ms.")
        return self._at_16_khz(np.zeros(round(min(ms, _MAX_GAP_MS) * self._rate_hz / 1000), np.float32))

    def _decode(self, decoder: av.AudioCodecContext, packet: bytes) -> Samples:
        try:
            frames = decoder.decode(av.Packet(packet))
        except av.FFmpegError as error:
            raise AudioError(
                f"{len(packet)} bytes are not an Opus packet: {error.strerror}.",
                hint="Send exactly one packet a frame, without a container.",
            ) from error
        return _joined([self._at_16_khz(_full_scale(frame.to_ndarray())) for frame in frames])

    def _at_16_khz(self, mono: Samples) -> Samples:
        if self._rate_hz == ASR_SAMPLE_RATE_HZ or len(mono) == 0:
            return mono
        frame = av.AudioFrame.from_ndarray(mono[None, :], format="flt", layout="mono")
        frame.sample_rate = self._rate_hz
        ready = [piece.to_ndarray().reshape(-1) for piece in self._resampler.resample(frame)]
        return np.clip(_joined(ready), -1.0, 1.0)


def _opus_decoder() -> av.AudioCodecContext:
    decoder = av.AudioCodecContext.create("libopus", "r")
    decoder.sample_rate = _OPUS_DECODED_RATE_HZ
    decoder.layout = "mono"  # a packet in stereo is mixed by the decoder
    decoder.open()
    return decoder


def _full_scale(samples: NDArray[Any]) -> Samples:
    """16-bit samples, shape (n,), with full scale 1.0."""
    scaled: Samples = samples.reshape(-1).astype(np.float32) / np.float32(32_768)
    return scaled


def _joined(pieces: list[NDArray[Any]]) -> Samples:
    joined: Samples = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    return joined


def _unsupported(what: str, hint: str) -> AudioError:
    return AudioError(f"{what} is not taken here.", code="audio_unsupported", hint=hint)
