"""Sample-rate conversion, in one go and piece by piece.

Lengths are exact and the same both ways: n samples become floor(n * to / from + 1/2). The streaming class holds back
a few tens of milliseconds until `finish()`. This module does not know where audio comes from or goes to.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import soxr
from numpy.typing import NDArray

SampleType = TypeVar("SampleType", np.int16, np.float32)


def resampled_length(sample_count: int, from_rate_hz: int, to_rate_hz: int) -> int:
    """How many samples `sample_count` samples become."""
    return (2 * sample_count * to_rate_hz + from_rate_hz) // (2 * from_rate_hz)


def resample(samples: NDArray[SampleType], from_rate_hz: int, to_rate_hz: int) -> NDArray[SampleType]:
    """Convert a whole mono recording, shape (n,), int16 or float32; the type stays. Equal rates return it unchanged."""
    if from_rate_hz == to_rate_hz:
        return samples
    converted: NDArray[SampleType] = soxr.resample(samples, from_rate_hz, to_rate_hz)
    return converted


class StreamResampler:
    """Convert mono audio that arrives in pieces; the pieces joined equal `resample()` of the whole in length.

    `dtype`: `np.int16` or `np.float32`. Not for use from two threads at once.
    """

    def __init__(self, from_rate_hz: int, to_rate_hz: int, dtype: type[np.int16] | type[np.float32]) -> None:
        self._dtype = np.dtype(dtype)
        self._stream: Any = (
            None
            if from_rate_hz == to_rate_hz
            else soxr.ResampleStream(from_rate_hz, to_rate_hz, 1, dtype=self._dtype.name)
        )

    def push(self, samples: NDArray[Any]) -> NDArray[Any]:
        """What is ready after `samples`, shape (n,), of the given type; may be empty."""
        if samples.dtype != self._dtype:
            raise TypeError(f"This resampler takes {self._dtype}, not {samples.dtype}.")
        if self._stream is None:
            return samples
        ready: NDArray[Any] = self._stream.resample_chunk(samples)
        return ready

    def finish(self) -> NDArray[Any]:
        """The rest, held back until now. Afterwards a new signal may be pushed."""
        if self._stream is None:
            return np.zeros(0, self._dtype)
        rest: NDArray[Any] = self._stream.resample_chunk(np.zeros(0, self._dtype), last=True)
        self._stream.clear()
        return rest
