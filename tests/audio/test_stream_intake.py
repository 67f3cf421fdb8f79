"""Live sound from a device: frames of any size become the same samples, and a bad frame costs only itself."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Sequence
from functools import cache

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.frames import OPUS_FRAME_MS, FrameCutter
from server.audio.stream_intake import StreamIntake
from server.errors import AudioError
from tests.audio.spoken import human_speech

pytestmark = pytest.mark.unit

FRAME_MS = (10, 20, 32, 40, 60, 100, 120)


def pcm(name: str = "human_ja.flac", rate_hz: int = 16_000, seconds: float = 3.0) -> np.ndarray:
    """Speech as int16 of any rate: the samples are taken for that rate, which is sound as good as any."""
    return np.round(human_speech(name)[: round(seconds * rate_hz)] * 32_767).astype("<i2")


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def taken(intake: StreamIntake, frames: Sequence[bytes]) -> np.ndarray:
    return np.concatenate([intake.push(frame) for frame in frames])


def opus(samples: np.ndarray, frame_ms: int = 60, rate_hz: int = 16_000) -> list[bytes]:
    cutter = FrameCutter("opus", rate_hz, frame_ms)
    return cutter.push(samples.astype(np.int16)) + cutter.finish()


# --- PCM ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame_ms", FRAME_MS)
def test_pcm_at_16_khz_is_taken_exactly_whatever_the_frame(frame_ms: int) -> None:
    samples = pcm()
    got = taken(StreamIntake("pcm16", 16_000), cut(samples.tobytes(), frame_ms * 32))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, samples.astype(np.float32) / 32_768)


@settings(max_examples=40, deadline=None)
@given(
    rate_hz=st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000]),
    channels=st.sampled_from([1, 2]),
    sizes=st.lists(st.integers(1, 5_000), min_size=1, max_size=30).filter(lambda sizes: sum(sizes) > 50 * len(sizes)),
)
def test_frames_of_any_size_give_the_same_samples_at_any_rate(rate_hz: int, channels: int, sizes: list[int]) -> None:
    samples = np.repeat(pcm(seconds=0.7, rate_hz=rate_hz), channels)
    data = samples.tobytes()
    whole = taken(StreamIntake("pcm16", rate_hz, channels), [data])
    frames, position = [], 0
    while position < len(data):
        size = sizes[len(frames) % len(sizes)] * 2 * channels
        frames.append(data[position : position + size])
        position += size
    np.testing.assert_array_equal(taken(StreamIntake("pcm16", rate_hz, channels), frames), whole)


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 44_100, 48_000])
def test_conversion_keeps_the_sound_and_holds_back_at_most_two_milliseconds(rate_hz: int) -> None:
    seconds = np.arange(rate_hz) / rate_hz
    tone = np.round(16_000 * np.sin(2 * np.pi * 440 * seconds)).astype("<i2")
    intake = StreamIntake("pcm16", rate_hz)
    pieces, sent = [], 0
    for frame in cut(tone.tobytes(), rate_hz // 50 * 2):
        pieces.append(intake.push(frame))
        sent += len(frame) // 2
        assert sent / rate_hz - sum(map(len, pieces)) / 16_000 <= 0.0021
    got = np.concatenate(pieces)
    wanted = 16_000 / 32_768 * np.sin(2 * np.pi * 440 * np.arange(len(got)) / 16_000)
    np.testing.assert_allclose(got[200:-200], wanted[200:-200], atol=0.005)


def test_what_is_above_8_khz_does_not_come_back_as_speech() -> None:
    tone = np.round(16_000 * np.sin(2 * np.pi * 12_000 * np.arange(48_000) / 48_000)).astype("<i2")
    got = StreamIntake("pcm16", 48_000).push(tone.tobytes())
    assert np.abs(got[200:]).max() < 0.001


def test_two_channels_become_their_mean() -> None:
    frame = np.array([[1_000, 3_000], [-32_768, -32_768], [32_767, -32_767]], "<i2").tobytes()
    got = StreamIntake("pcm16", 16_000, 2).push(frame)
    np.testing.assert_allclose(got * 32_768, [2_000, -32_768, 0])


@pytest.mark.parametrize(("frame", "code"), [(b"", "audio_empty"), (b"abc", "audio_invalid"), (b"ab", "audio_invalid")])
def test_a_frame_that_is_no_sound_costs_only_itself(frame: bytes, code: str) -> None:
    samples = np.repeat(pcm(), 2)
    frames = cut(samples.tobytes(), 3_840)
    intake = StreamIntake("pcm16", 48_000, 2)
    got = [intake.push(one) for one in frames[:5]]
    with pytest.raises(AudioError) as caught:
        intake.push(frame)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)
    got += [intake.push(one) for one in frames[5:]]
    np.testing.assert_array_equal(np.concatenate(got), taken(StreamIntake("pcm16", 48_000, 2), frames))


@pytest.mark.parametrize(
    ("format", "rate_hz", "channels"),
    [
        ("pcm16", 4_000, 1),
        ("pcm16", 96_000, 1),
        ("pcm16", 0, 1),
        ("pcm16", 16_000, 0),
        ("pcm16", 16_000, 3),
        ("opus", 44_100, 1),
        ("opus", 16_000, 9),
        ("mp3", 16_000, 1),
    ],
)
def test_what_is_not_taken_is_said_before_the_first_frame(format: str, rate_hz: int, channels: int) -> None:
    with pytest.raises(AudioError) as caught:
        StreamIntake(format, rate_hz, channels)  # type: ignore[arg-type]
    assert (caught.value.code, bool(caught.value.hint)) == ("audio_unsupported", True)


# --- Opus ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame_ms", OPUS_FRAME_MS)
def test_opus_of_any_frame_is_understood(frame_ms: int) -> None:
    samples = pcm()
    packets = opus(samples, frame_ms)
    got = taken(StreamIntake("opus", 16_000), packets)
    assert len(got) == len(packets) * frame_ms * 16 - 16, "all but the millisecond that is held back"
    sound = samples.astype(np.float32) / 32_768
    delay = 104  # of the codec, 6.5 ms
    near = np.corrcoef(got[delay + 1_000 : delay + 40_000], sound[1_000:40_000])[0, 1]
    assert near > 0.8


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 48_000])
def test_an_opus_stream_is_the_same_samples_every_time(rate_hz: int) -> None:
    packets = opus(pcm(rate_hz=rate_hz), 60, rate_hz)
    once, again = (taken(StreamIntake("opus", rate_hz), packets) for _ in range(2))
    np.testing.assert_array_equal(once, again)


def test_a_packet_in_stereo_is_mixed() -> None:
    encoder = av.AudioCodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = 48_000, "stereo", "s16"
    tone = np.round(8_000 * np.sin(np.arange(9_600) * 0.06)).astype(np.int16)
    frame = av.AudioFrame.from_ndarray(np.repeat(tone, 2)[None, :], format="s16", layout="stereo")
    frame.sample_rate = 48_000
    packets = [bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)]]
    got = taken(StreamIntake("opus", 48_000), packets)
    assert np.abs(got[1_000:3_000]).max() == pytest.approx(8_000 / 32_768, rel=0.15)


NO_PACKETS = [b"\xff", b"\xff\xff\xff\xff", b"\x0b\x00", b"\x03", b"\x03\x00" + bytes(20), b"\x02\xff\xff", b"\x01a"]


@pytest.mark.parametrize("bad", NO_PACKETS)
def test_bytes_that_are_no_packet_cost_only_themselves(bad: bytes) -> None:
    packets = opus(pcm())
    intake = StreamIntake("opus", 16_000)
    got = [intake.push(packet) for packet in packets[:10]]
    for _ in range(3):
        with pytest.raises(AudioError, match="not an Opus packet") as caught:
            intake.push(bad)
        assert caught.value.code == "audio_invalid"
        with pytest.raises(AudioError) as caught:
            intake.push(b"")
        assert caught.value.code == "audio_empty"
    got += [intake.push(packet) for packet in packets[10:]]
    np.testing.assert_array_equal(np.concatenate(got), taken(StreamIntake("opus", 16_000), packets))


@cache
def spoken_packets() -> tuple[bytes, ...]:
    return tuple(opus(pcm(seconds=2.5)))


@cache
def spoken_samples() -> np.ndarray:
    return taken(StreamIntake("opus", 16_000), [*spoken_packets()])


@settings(max_examples=60, deadline=None)
@given(noise=st.lists(st.binary(min_size=1, max_size=300), max_size=4), at=st.integers(0, 20))
def test_whatever_comes_the_speech_after_it_is_heard(noise: list[bytes], at: int) -> None:
    """Noise may happen to be a packet; then it sounds, and the decoder is back in the speech soon after it."""
    packets = spoken_packets()
    intake = StreamIntake("opus", 16_000)
    for packet in packets[:at]:
        intake.push(packet)
    for bad in noise:
        with contextlib.suppress(AudioError):
            sound = intake.push(bad)
            assert len(sound) <= 0.12 * 16_000 + 16
            assert np.isfinite(sound).all()
            assert np.abs(sound).max(initial=0) <= 1.0
    got = taken(intake, packets[at:])
    wanted = spoken_samples()
    settled = 14_000
    assert np.corrcoef(got[-settled:], wanted[-settled:])[0, 1] > 0.9


# --- gaps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("format", "rate_hz"), [("pcm16", 16_000), ("pcm16", 44_100), ("opus", 16_000)])
def test_a_gap_is_silence_of_its_length(format: str, rate_hz: int) -> None:
    intake = StreamIntake(format, rate_hz)  # type: ignore[arg-type]
    frames = opus(pcm()) if format == "opus" else cut(pcm().tobytes(), 1_920)
    before = sum(len(intake.push(frame)) for frame in frames[:10])
    gap = intake.gap(240)
    assert len(gap) == pytest.approx(240 * 16, abs=1)
    assert np.abs(gap[64:]).max() == 0.0, "from a few milliseconds on"
    after = sum(len(intake.push(frame)) for frame in frames[10:20])
    assert after == pytest.approx(before, abs=33)
    assert len(intake.gap(0)) == 0


def test_a_gap_of_years_needs_no_memory() -> None:
    intake = StreamIntake("pcm16", 48_000)
    tracemalloc.start()
    try:
        assert len(intake.gap(2.0**32)) == pytest.approx(160_000, abs=20)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("ms", [-1, float("nan")])
def test_a_gap_that_is_no_time_is_refused(ms: float) -> None:
    with pytest.raises(ValueError, match="gap"):
        StreamIntake("pcm16", 16_000).gap(ms)
