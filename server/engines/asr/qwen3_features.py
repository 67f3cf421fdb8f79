"""Log-mel frames of Qwen3-ASR for sound that still comes in, the same as its feature extractor gives for all at once.

A frame looks at 25 ms around it, and the extractor mirrors the sound at both its ends: a frame is final once the sound
around it is there, and only the last two of an utterance have to wait for its end. What the extractor does next is not
local: everything more than 80 dB below the loudest frame is lifted to that. So frames are kept as they are before it,
and `levelled` does it for a given loudest. Knows no stream and no model but the extractor's numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from server.events import Samples

_LEAST_ENERGY = 1e-10
DYNAMIC_RANGE = 8.0
"""Of what the model sees, in powers of ten of energy."""


class LogMel:
    """The arithmetic of a `Qwen3ASRFeatureExtractor`; frames are torch tensors of shape (frames, mel), float32."""

    def __init__(self, extractor: Any) -> None:
        import torch

        self.hop = int(extractor.hop_length)
        self.least_samples = int(extractor.min_length)
        self._half = int(extractor.n_fft) // 2
        self._window = torch.hann_window(int(extractor.n_fft))
        self._filters = torch.from_numpy(np.asarray(extractor.mel_filters)).to(torch.float32)
        self.mel_bins = int(self._filters.shape[1])

    def frame_count(self, sample_count: int) -> int:
        """Frames of an utterance of so many samples."""
        return sample_count // self.hop

    def final_frames(self, sample_count: int) -> int:
        """How many frames no further sample can change any more, with so many there."""
        return max(0, (sample_count - self._half) // self.hop + 1)

    def frames(self, samples: Samples, first: int, end: int) -> Any:
        """Frames `first` to `end` of an utterance that is `samples`, mirrored where a frame reaches over its ends."""
        import torch

        if end <= first:
            return torch.zeros((0, self.mel_bins))
        places = np.abs(np.arange(first * self.hop - self._half, (end - 1) * self.hop + self._half))
        last = len(samples) - 1
        around = np.ascontiguousarray(samples[np.where(places > last, 2 * last - places, places)], np.float32)
        spectrum = torch.stft(
            torch.from_numpy(around),
            2 * self._half,
            self.hop,
            window=self._window,
            center=False,
            return_complex=True,
        )
        energies = self._filters.T @ (spectrum.abs() ** 2)
        return torch.clamp(energies, min=_LEAST_ENERGY).log10().T


def levelled(frames: Any, floor: float) -> Any:
    """Frames as the model sees them, where `floor` is the loudest value of the utterance less `DYNAMIC_RANGE`."""
    return (frames.clamp(min=floor) + 4.0) / 4.0
