"""Speech as wire frames: nothing lost, nothing added but the silence that fills the last one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.frames import OPUS_FRAME_MS, FrameCutter
from server.audio.stream_intake import StreamIntake
from server.errors import AudioError

pytestmark = pytest.mark.unit

PIECES = st.lists(st.integers(0, 5_000), max_size=20)


def ramp(count: int) -> np.ndarray:
    return (np.arange(count) % 65_536 - 32_768).astype(np.int16)


def in_pieces(cutter: FrameCutter, samples: np.ndarray, sizes: list[int]) -> list[bytes]:
    frames, position = [], 0
    for size in sizes:
        frames += cutter.push(samples[position : position + size])
        position += size
    return frames + cutter.push(samples[position:]) + cutter.finish()


@settings(max_examples=100, deadline=None)
@given(
    count=st.integers(0, 30_000), sizes=PIECES, frame_ms=st.integers(10, 120), rate_hz=st.sampled_from([16_000, 24_000])
)
def test_pcm_frames_hold_every_sample_once(count: int, sizes: list[int], frame_ms: int, rate_hz: int) -> None:
    samples = ramp(count)
    frames = in_pieces(FrameCutter("pcm16", rate_hz, frame_ms), samples, sizes)
    size = rate_hz * frame_ms // 1000
    assert {len(frame) for frame in frames} <= {2 * size}
    assert len(frames) == -(-count // size)
    got = np.frombuffer(b"".join(frames), "<i2")
    np.testing.assert_array_equal(got[:count], samples)
    assert not got[count:].any()


def test_a_frame_leaves_as_soon_as_it_is_full() -> None:
    cutter = FrameCutter("pcm16", 16_000, 20)
    assert cutter.push(ramp(319)) == []
    assert len(cutter.push(ramp(1))) == 1
    assert cutter.finish() == []


def test_the_frame_says_how_long_it_is() -> None:
    cutter = FrameCutter("opus", 24_000, 60)
    assert (cutter.frame_samples, cutter.frame_ms, cutter.sample_rate_hz) == (1_440, 60, 24_000)


@pytest.mark.parametrize("rate_hz", [16_000, 24_000])
@pytest.mark.parametrize("frame_ms", OPUS_FRAME_MS)
def test_opus_packets_have_the_duration_that_was_asked_for(frame_ms: int, rate_hz: int) -> None:
    seconds = np.arange(rate_hz) / rate_hz
    tone = np.round(8_000 * np.sin(2 * np.pi * 440 * seconds)).astype(np.int16)
    packets = in_pieces(FrameCutter("opus", rate_hz, frame_ms), tone, [7, 3_000, 0, 1_441])
    intake = StreamIntake("opus", rate_hz)
    lengths = [len(intake.push(packet)) for packet in packets]
    assert max(map(len, packets)) <= 1_275
    assert set(lengths[1:]) == {frame_ms * 16}


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 4_000), frame_ms=st.sampled_from([10, 20, 60]))
def test_the_end_of_the_sound_does_not_stay_in_the_decoder(count: int, frame_ms: int) -> None:
    """The last 5 ms are a burst; however the frames fall, the device hears it."""
    samples = np.zeros(count + 80, np.int16)
    samples[-80:] = np.round(16_000 * np.sin(np.arange(80) * 0.5))
    packets = in_pieces(FrameCutter("opus", 16_000, frame_ms), samples, [])
    intake = StreamIntake("opus", 16_000)
    got = np.concatenate([*(intake.push(packet) for packet in packets), intake.gap(1)])
    burst = got[count + 104 : count + 184]
    assert len(burst) >= 76
    assert np.square(burst).sum() > 0.35 * np.square(samples[-80:] / 32_768).sum()
    assert len(packets) <= -(-(len(samples) + 104) // (frame_ms * 16)), "and not a frame more than that needs"


@settings(max_examples=30, deadline=None)
@given(count=st.integers(0, 20_000), sizes=PIECES)
def test_pieces_of_any_length_make_the_same_packets(count: int, sizes: list[int]) -> None:
    samples = np.round(8_000 * np.sin(np.arange(count) * 0.05)).astype(np.int16)
    cutters = [FrameCutter("opus", 24_000, 60) for _ in range(2)]
    assert in_pieces(cutters[0], samples, sizes) == in_pieces(cutters[1], samples, [])


@pytest.mark.parametrize("format", ["pcm16", "opus"])
def test_one_speech_after_another(format: str) -> None:
    cutter = FrameCutter(format, 16_000, 60)  # type: ignore[arg-type]
    first = cutter.push(ramp(1_000)) + cutter.finish()
    assert cutter.finish() == []
    second = cutter.push(ramp(960)) + cutter.finish()
    assert len(first) == 2
    assert len(second) == (2 if format == "opus" else 1)


@pytest.mark.parametrize(
    ("format", "rate_hz", "frame_ms"),
    [("pcm16", 16_000, 9), ("pcm16", 16_000, 121), ("pcm16", 22_050, 25), ("pcm16", 24_000, -60),
     ("opus", 16_000, 30), ("opus", 22_050, 60), ("opus", 24_000, 5), ("flac", 16_000, 60)],
)  # fmt: skip
def test_frames_that_nobody_can_make_are_refused(format: str, rate_hz: int, frame_ms: int) -> None:
    with pytest.raises(AudioError) as caught:
        FrameCutter(format, rate_hz, frame_ms)  # type: ignore[arg-type]
    assert (caught.value.code, bool(caught.value.hint)) == ("audio_unsupported", True)


@pytest.mark.parametrize("samples", [np.zeros(10, np.float32), np.zeros((2, 10), np.int16)])
def test_only_int16_mono_is_cut(samples: np.ndarray) -> None:
    with pytest.raises(TypeError, match="int16 mono"):
        FrameCutter("pcm16", 16_000, 60).push(samples)
