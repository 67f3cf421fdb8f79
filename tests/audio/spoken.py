"""Recordings of human speech that tests cut and join."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from server.audio.codec import decode_upload

SPEECH = Path(__file__).parent.parent / "data" / "speech"


@cache
def human_speech(name: str) -> np.ndarray:
    """`human_ja.flac` or `human_en.flac`, float32 at 16 kHz; not to be written to."""
    samples = decode_upload((SPEECH / name).read_bytes(), "audio/flac", max_seconds=60)
    samples.flags.writeable = False
    return samples
