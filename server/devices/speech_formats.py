"""The robot's voice as bytes: WAV, raw PCM or Ogg-Opus, at the rate asked for, piece by piece. No I/O."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import numpy as np

from server.audio.codec import OPUS_SAMPLE_RATES_HZ, OggOpusEncoder, wav_header
from server.audio.resample import StreamResampler, resampled_length
from server.storage.speech import SpeechStream

SpeechFormat = Literal["wav", "pcm", "opus"]
CONTENT_TYPES = {"wav": "audio/wav", "pcm": "audio/pcm;rate={rate};channels=1", "opus": "audio/ogg;codecs=opus"}


def default_rate(stream: SpeechStream, speech_format: SpeechFormat) -> int:
    """The rate in Hz when none is asked for: as the speech was made, unless Opus cannot carry that."""
    if speech_format == "opus" and stream.sample_rate_hz not in OPUS_SAMPLE_RATES_HZ:
        return 24_000
    return stream.sample_rate_hz


def content_length(stream: SpeechStream, speech_format: SpeechFormat, rate_hz: int) -> int | None:
    """The exact size of `encode`'s output in bytes; None when it cannot be known before the end."""
    if stream.samples_total is None or speech_format == "opus":
        return None
    data = 2 * resampled_length(stream.samples_total, stream.sample_rate_hz, rate_hz)
    return data + (len(wav_header(rate_hz, data)) if speech_format == "wav" else 0)


async def encode(stream: SpeechStream, speech_format: SpeechFormat, rate_hz: int) -> AsyncIterator[bytes]:
    """Yield the speech in `speech_format` at `rate_hz`, as soon as there is some."""
    resampler = StreamResampler(stream.sample_rate_hz, rate_hz, np.int16)
    opus = OggOpusEncoder(rate_hz) if speech_format == "opus" else None
    if speech_format == "wav":
        known = stream.samples_total
        data = None if known is None else 2 * resampled_length(known, stream.sample_rate_hz, rate_hz)
        yield wav_header(rate_hz, data)
    async for samples in stream.chunks:
        ready = resampler.push(samples)
        encoded = opus.push(ready) if opus else ready.astype("<i2").tobytes()
        if encoded:
            yield encoded
    rest = resampler.finish()
    yield (opus.push(rest) + opus.finish()) if opus else rest.astype("<i2").tobytes()
