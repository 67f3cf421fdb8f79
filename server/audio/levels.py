"""Loudness, silence and edges of speech that was just made, and the mouth that goes with it. Works on samples alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from server.events import Pcm16

_FRAME_SECONDS = 0.01
_SHUT_DECIBELS, _OPEN_DECIBELS = -32.0, -14.0
"""Full scale is 0. While they speak, 40 ms of the voices lie between -30 and -14, half of them above -21."""


def to_pcm16(samples: NDArray[np.floating[Any]], gain: float) -> Pcm16:
    """Samples with full scale 1.0, times `gain`, as int16; what is louder than full scale is clipped."""
    pcm: Pcm16 = np.round(np.clip(samples * gain, -1.0, 1.0) * 32767.0).astype(np.int16)
    return pcm


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


def mouth_level(rms: float) -> float:
    """How far a mouth opens for sound of this RMS (full scale 1.0): 0.0 shut to 1.0 wide open, even in decibels."""
    decibels = 20.0 * math.log10(max(rms, 1e-6))
    opened = (decibels - _SHUT_DECIBELS) / (_OPEN_DECIBELS - _SHUT_DECIBELS)
    return round(min(1.0, max(0.0, opened)), 2)


class MouthLevels:
    """One mouth level for each `step_ms` of speech that comes in pieces of any length."""

    def __init__(self, sample_rate_hz: int, step_ms: int = 40) -> None:
        # Of a rate without whole steps each is half a sample off at most: no eye sees that.
        self._step_samples = max(1, round(sample_rate_hz * step_ms / 1000))
        self._rest: Pcm16 = np.zeros(0, np.int16)

    def push(self, samples: Pcm16) -> list[float]:
        """The levels that are ready after `samples`, int16, shape (n,); may be none."""
        waiting = np.concatenate([self._rest, samples])
        whole = len(waiting) // self._step_samples * self._step_samples
        self._rest = waiting[whole:]
        steps = waiting[:whole].reshape(-1, self._step_samples) / 32768.0
        return [mouth_level(float(rms)) for rms in np.sqrt(np.square(steps).mean(axis=1))]

    def finish(self) -> list[float]:
        """The level of the rest, as if silence followed; none when nothing waits. Then new speech may be pushed."""
        return self.push(np.zeros(-len(self._rest) % self._step_samples, np.int16))
