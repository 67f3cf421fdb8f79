"""From uploaded sound to an utterance: voice activity decides where speech begins and ends, or that there is none.

Knows the VAD Protocol and pure endpointing; not which model it is, nor where the sound came from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from server.audio.segmenter import SegmenterSettings, trim
from server.engines.base import VadEngine
from server.errors import VadError
from server.events import ASR_SAMPLE_RATE_HZ, Samples, Utterance


@dataclass(frozen=True, slots=True)
class FoundSpeech:
    """The speech in a recording, and where in the recording it stands, margins included."""

    utterance: Utterance
    start_ms: int
    end_ms: int


async def find_utterance(vad: VadEngine, samples: Samples, settings: SegmenterSettings) -> FoundSpeech | None:
    """The speech inside `samples` (float32 mono at 16 kHz), its silent ends cut off; None when nobody spoke.

    Raises `VadError`, also when the engine's numbers are none: they would pass for silence.
    """
    if len(samples) == 0:
        return None
    probabilities = await vad.probabilities(samples)
    if not all(math.isfinite(probability) for probability in probabilities):
        raise VadError("The voice-activity engine gave numbers that are none.")
    total_seconds = len(samples) / ASR_SAMPLE_RATE_HZ
    span = trim(probabilities, vad.window_samples / ASR_SAMPLE_RATE_HZ, total_seconds, settings)
    if span is None:
        return None
    start, end = (max(0, round(seconds * ASR_SAMPLE_RATE_HZ)) for seconds in span)
    return FoundSpeech(
        Utterance(samples[start:end]),
        round(start * 1000 / ASR_SAMPLE_RATE_HZ),
        round(min(end, len(samples)) * 1000 / ASR_SAMPLE_RATE_HZ),
    )
