"""Loudness, silence and edges of speech that was just made. Works on samples alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.events import Pcm16

_FRAME_SECONDS = 0.01


def to_pcm16(samples: NDArray[np.floating[Any]], gain: float) -> Pcm16:
    """Samples with full scale 1.0, times `gain`, as int16; what is louder than full scale is clipped."""
    pcm: Pcm16 = np.round(np.clip(samples * gain, -1.0, 1.0) * 32767.0).astype(np.int16)
    return pcm


def active_rms(samples: Pcm16, sample_rate_hz: int, *, silence_level: float = 0.01) -> float:
    """Root mean square of the parts that are not silent, full scale 1.0; 0.0 when all is silent."""
    levels = _frame_levels(samples, sample_rate_hz)
    active = levels[levels > silence_level]
    return float(np.sqrt(np.square(active).mean())) if len(active) else 0.0


def trim_silence(
    samples: Pcm16, sample_rate_hz: int, *, keep_before_seconds: float, keep_after_seconds: float, level: float
) -> Pcm16:
    """Cut both ends to so much before the first and after the last 10 ms frame above `level`; empty if none is."""
    loud = np.flatnonzero(_frame_levels(samples, sample_rate_hz) > level)
    if len(loud) == 0:
        return samples[:0]
    frame = round(sample_rate_hz * _FRAME_SECONDS)
    start = int(loud[0]) * frame - round(keep_before_seconds * sample_rate_hz)
    end = (int(loud[-1]) + 1) * frame + round(keep_after_seconds * sample_rate_hz)
    return samples[max(0, start) : end]


def fade_edges(samples: Pcm16, sample_rate_hz: int, *, seconds: float) -> Pcm16:
    """Raise the beginning from and lower the end to zero, so that joining does not click."""
    count = min(round(seconds * sample_rate_hz), len(samples) // 2)
    if count == 0:
        return samples
    ramp = np.linspace(0.0, 1.0, count)
    faded = samples.copy()
    faded[:count] = np.round(faded[:count] * ramp).astype(np.int16)
    faded[-count:] = np.round(faded[-count:] * ramp[::-1]).astype(np.int16)
    return faded


def _frame_levels(samples: Pcm16, sample_rate_hz: int) -> NDArray[np.float64]:
    """RMS of each 10 ms frame, full scale 1.0; the last one is padded with zeros."""
    frame = round(sample_rate_hz * _FRAME_SECONDS)
    frames = np.pad(samples / 32768.0, (0, -len(samples) % frame)).reshape(-1, frame)
    levels: NDArray[np.float64] = np.sqrt(np.square(frames).mean(axis=1))
    return levels
