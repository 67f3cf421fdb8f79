"""Resampling: exact lengths, the same sound, whole or in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.resample import StreamResampler, resample, resampled_length

pytestmark = pytest.mark.unit

RATES_HZ = [8_000, 16_000, 22_050, 24_000, 44_100, 48_000]


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 5_000),
    from_rate_hz=st.sampled_from(RATES_HZ),
    to_rate_hz=st.sampled_from([16_000, 24_000, 48_000]),
    piece=st.integers(1, 900),
    dtype=st.sampled_from([np.int16, np.float32]),
)
def test_lengths_are_exact_whole_and_in_pieces(
    count: int, from_rate_hz: int, to_rate_hz: int, piece: int, dtype: type
) -> None:
    samples = np.zeros(count, dtype)
    expected = resampled_length(count, from_rate_hz, to_rate_hz)
    whole = resample(samples, from_rate_hz, to_rate_hz)
    stream = StreamResampler(from_rate_hz, to_rate_hz, dtype)
    pieces = [stream.push(samples[start : start + piece]) for start in range(0, count, piece)]
    assert len(whole) == expected
    assert sum(map(len, [*pieces, stream.finish()])) == expected
    assert whole.dtype == dtype


def test_pieces_sound_like_the_whole() -> None:
    samples = (8_000 * np.sin(np.arange(24_000) * 0.1)).astype(np.int16)
    stream = StreamResampler(24_000, 16_000, np.int16)
    pieces = [stream.push(samples[start : start + 333]) for start in range(0, 24_000, 333)]
    joined = np.concatenate([*pieces, stream.finish()]).astype(int)
    assert np.abs(joined - resample(samples, 24_000, 16_000)).max() <= 2


def test_equal_rates_change_nothing() -> None:
    samples = np.arange(10, dtype=np.int16)
    stream = StreamResampler(16_000, 16_000, np.int16)
    assert resample(samples, 16_000, 16_000) is samples
    assert stream.push(samples) is samples
    assert len(stream.finish()) == 0


def test_a_finished_stream_takes_a_new_signal() -> None:
    stream = StreamResampler(48_000, 16_000, np.float32)
    for _ in range(2):
        assert len(stream.push(np.ones(480, np.float32))) + len(stream.finish()) == 160


def test_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="int16"):
        StreamResampler(48_000, 16_000, np.int16).push(np.zeros(4, np.float32))
