"""Levels, silence and edges of spoken samples."""

from __future__ import annotations

import numpy as np
import pytest

from server.audio.levels import fade_edges, to_pcm16, trim_silence

pytestmark = pytest.mark.unit

RATE_HZ = 24_000


def speech(before: float, sound: float, after: float, level: int = 8_000) -> np.ndarray:
    parts = [(before, 0), (sound, level), (after, 0)]
    return np.concatenate([np.full(round(seconds * RATE_HZ), value, np.int16) for seconds, value in parts])


def test_silence_is_cut_to_what_is_kept() -> None:
    cut = trim_silence(speech(0.4, 1.0, 0.5), RATE_HZ, keep_before_seconds=0.02, keep_after_seconds=0.06, level=0.01)
    assert len(cut) == round(1.08 * RATE_HZ)
    assert np.count_nonzero(cut) == RATE_HZ
    assert not cut[: round(0.02 * RATE_HZ)].any()


def test_nothing_is_invented_at_tight_ends() -> None:
    sound = speech(0.0, 0.5, 0.0)
    assert len(trim_silence(sound, RATE_HZ, keep_before_seconds=1, keep_after_seconds=1, level=0.01)) == len(sound)


@pytest.mark.parametrize("samples", [np.zeros(0, np.int16), np.zeros(5_000, np.int16)])
def test_silence_alone_becomes_nothing(samples: np.ndarray) -> None:
    assert len(trim_silence(samples, RATE_HZ, keep_before_seconds=1, keep_after_seconds=1, level=0.01)) == 0


def test_faded_edges_reach_zero_and_leave_the_middle() -> None:
    faded = fade_edges(np.full(1_000, 10_000, np.int16), RATE_HZ, seconds=0.005)
    assert faded[0] == faded[-1] == 0
    assert (np.diff(faded[:120].astype(int)) >= 0).all()
    assert (faded[120:-120] == 10_000).all()
    assert len(fade_edges(np.full(1, 9, np.int16), RATE_HZ, seconds=1)) == 1


def test_loud_samples_are_clipped_not_wrapped() -> None:
    assert to_pcm16(np.array([2.0, -2.0, 0.5, 0.0]), 1.0).tolist() == [32767, -32767, 16384, 0]
