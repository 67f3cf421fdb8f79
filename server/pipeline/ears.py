"""The open ears of one device: live samples in, the beginnings and ends of what is said out, with its sound.

Puts voice activity and endpointing together and keeps the samples that may still be needed. Knows no device, no turn
and no clock: times are seconds of sound since the ears were opened.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from server.audio.endpointing import Endpointer, EndpointEvent, EndpointSettings
from server.engines.base import VadEngine
from server.events import ASR_SAMPLE_RATE_HZ, Samples


class Ears:
    """One stretch of listening, from opening to `close`. `window_seconds`: how long one look of the model is."""

    def __init__(self, vad: VadEngine, settings: EndpointSettings) -> None:
        self.endpointer = Endpointer(settings)
        self._stream = vad.open_stream()
        self._window_seconds = vad.window_samples / ASR_SAMPLE_RATE_HZ
        self._pieces: deque[Samples] = deque()
        self._first_sample = 0
        """Where the oldest kept sample stands."""

    async def hear(self, samples: Samples) -> list[EndpointEvent]:
        """Take the next samples (float32 mono, 16 kHz, any length); what became known, in order. Raises `VadError`."""
        self._pieces.append(samples)
        events: list[EndpointEvent] = []
        for probability in await self._stream.push(samples):
            events += self.endpointer.push(self._window_seconds, probability)
        return events

    def finish(self) -> list[EndpointEvent]:
        """Nothing more comes for now: what is being said ends here."""
        return list(self.endpointer.finish())

    def cut(self, start_seconds: float, end_seconds: float | None = None) -> Samples:
        """The samples from `start_seconds` to `end_seconds`, or to the newest; those that were dropped are left out."""
        heard = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.float32)
        start = max(0, round(start_seconds * ASR_SAMPLE_RATE_HZ) - self._first_sample)
        end = None if end_seconds is None else max(0, round(end_seconds * ASR_SAMPLE_RATE_HZ) - self._first_sample)
        samples: Samples = heard[start:end]
        return samples

    def forget(self) -> None:
        """Drop samples that no utterance can need any more."""
        needed = int(self.endpointer.needed_from_seconds * ASR_SAMPLE_RATE_HZ)
        while self._pieces and self._first_sample + len(self._pieces[0]) <= needed:
            self._first_sample += len(self._pieces.popleft())

    def close(self) -> None:
        """Look at nothing more."""
        self._stream.close()
        self._pieces.clear()
