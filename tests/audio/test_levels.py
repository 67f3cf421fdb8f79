"""Levels, silence and edges of spoken samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.audio.levels import MouthLevels, fade_edges, mouth_level, to_pcm16, trim_silence

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


# --- the mouth ----------------------------------------------------------------------------------------------------


def tone(rms: float, seconds: float, rate_hz: int = RATE_HZ) -> np.ndarray:
    times = np.arange(round(seconds * rate_hz))
    return np.round(rms * np.sqrt(2) * 32_767 * np.sin(times * 0.1)).astype(np.int16)


@pytest.mark.parametrize(
    ("rms", "level"), [(0.0, 0.0), (0.001, 0.0), (0.0251, 0.0), (0.0708, 0.5), (0.2, 1.0), (1.0, 1.0)]
)
def test_a_mouth_opens_evenly_in_decibels(rms: float, level: float) -> None:
    assert mouth_level(rms) == pytest.approx(level, abs=0.01)


def test_one_level_for_each_40_ms_the_rest_at_the_end() -> None:
    mouth = MouthLevels(RATE_HZ)
    assert mouth.push(tone(0.2, 0.1)) == [1.0, 1.0]
    (last,) = mouth.finish()
    assert 0.5 < last < 1.0, "half a step of sound, half a step of silence"
    assert mouth.finish() == []
    assert mouth.push(np.zeros(960, np.int16)) == [0.0]


@given(count=st.integers(0, 9_000), sizes=st.lists(st.integers(0, 2_000), max_size=12))
def test_pieces_of_any_length_give_the_same_levels(count: int, sizes: list[int]) -> None:
    samples = np.round(9_000 * np.sin(np.arange(count) ** 1.3 * 0.01)).astype(np.int16)
    whole = MouthLevels(16_000)
    pieces, position, levels = MouthLevels(16_000), 0, []
    for size in sizes:
        levels += pieces.push(samples[position : position + size])
        position += size
    levels += pieces.push(samples[position:]) + pieces.finish()
    assert levels == whole.push(samples) + whole.finish()
    assert len(levels) == -(-count // 640)
    assert all(0.0 <= level <= 1.0 for level in levels)


@pytest.mark.parametrize("rate_hz", [8_010, 16_010, 22_051, 44_056])
def test_at_any_rate_there_is_a_level_for_each_step(rate_hz: int) -> None:
    mouth = MouthLevels(rate_hz)
    levels = mouth.push(np.full(rate_hz * 10, 9_000, np.int16)) + mouth.finish()
    assert len(levels) == pytest.approx(250, abs=1)
