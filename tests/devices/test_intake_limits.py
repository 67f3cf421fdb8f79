"""How much a device may send: rules over times that are passed in."""

from __future__ import annotations

import tracemalloc

import pytest

from server.devices.intake_limits import IntakeLimits, Violation, audio_ms
from server.devices.wire import AudioFormat, CloseCode

pytestmark = pytest.mark.unit


def first_violation(rate: float, frame_ms: float, seconds: float, *, begins_at: float = 0.0) -> float | None:
    """When sound at `rate` times real time, in frames of `frame_ms`, is first too much; None: not within `seconds`."""
    limits = IntakeLimits()
    for number in range(round(seconds * rate / frame_ms * 1000)):
        now = begins_at + number * frame_ms / 1000 / rate
        if limits.audio(now, frame_ms) is not None:
            return now - begins_at
    return None


@pytest.mark.parametrize("frame_ms", [10, 20, 60, 120])
@pytest.mark.parametrize("rate", [0.5, 1.0, 1.9, 2.0])
@pytest.mark.parametrize("begins_at", [0.0, 12_345.678])
def test_up_to_twice_real_time_goes_on_for_ever(rate, frame_ms, begins_at):
    assert first_violation(rate, frame_ms, 60, begins_at=begins_at) is None


@pytest.mark.parametrize("frame_ms", [10, 20, 60, 120])
@pytest.mark.parametrize(("rate", "seconds"), [(2.2, 5.0), (3.0, 3.4), (10.0, 1.1), (1000.0, 0.1)])
def test_more_is_found_within_five_seconds(rate, seconds, frame_ms):
    at = first_violation(rate, frame_ms, 60)
    assert at is not None
    assert at <= seconds
    assert at >= 9.8 / rate


def test_what_waited_in_the_network_may_come_at_once():
    limits = IntakeLimits()
    # Real time, five seconds of nothing, then those five seconds in one moment, and real time again.
    times = [n * 0.02 for n in range(500)] + [15.0] * 250 + [15.0 + n * 0.02 for n in range(1, 500)]
    assert [limits.audio(now, 20) for now in times if limits.audio(now, 0) is not None] == []


@pytest.mark.parametrize(
    ("held_up_seconds", "burst_seconds", "refused"), [(8, 8, False), (30, 30, False), (600, 41, True), (2, 14, True)]
)
def test_sound_that_was_held_up_is_late_and_not_too_fast(held_up_seconds, burst_seconds, refused):
    limits = IntakeLimits()
    assert [limits.audio(n * 0.02, 20) for n in range(500)] == [None] * 500
    resumes_at = 10.0 + held_up_seconds
    broken = [limits.audio(resumes_at, 20) for _ in range(burst_seconds * 50)]
    assert any(violation is not None for violation in broken) is refused
    if not refused:
        # Then it goes on in real time.
        assert [limits.audio(resumes_at + n * 0.02, 20) for n in range(1, 500)] == [None] * 499


def test_too_much_sound_is_forgiven_after_the_window():
    limits = IntakeLimits()
    assert [limits.audio(1.0, 120) for _ in range(84)] == [None] * 84
    broken = limits.audio(1.0, 120)
    assert isinstance(broken, Violation)
    assert (broken.error.code, broken.close_code) == ("audio_too_fast", CloseCode.POLICY)
    assert broken.error.retryable is False
    assert limits.audio(6.1, 120) is None


def test_frames_of_no_length_are_not_free():
    limits = IntakeLimits()
    sent = next((n for n in range(1, 11_000) if limits.audio(1.0, 0.0) is not None), None)
    assert sent == 10_121


def test_years_of_sound_need_no_memory():
    limits = IntakeLimits()
    tracemalloc.start()
    try:
        for number in range(1_000):
            limits.audio(number * 0.02, 20)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1_000, 4_000):
            limits.audio(number * 0.02, 20)
        assert tracemalloc.get_traced_memory()[0] - before < 2048
    finally:
        tracemalloc.stop()


def test_a_frame_over_the_limit_is_too_big():
    limits = IntakeLimits()
    assert limits.frame(0) is None
    assert limits.frame(16_384) is None
    broken = limits.frame(16_385)
    assert broken is not None
    assert (broken.error.code, broken.close_code) == ("message_too_large", 1009)


def test_the_tenth_bad_message_closes():
    limits = IntakeLimits()
    assert [limits.bad_message() for _ in range(9)] == [None] * 9
    broken = limits.bad_message()
    assert broken is not None
    assert (broken.error.code, broken.close_code) == ("too_many_bad_messages", 1008)
    assert limits.bad_messages == 10


@pytest.mark.parametrize(
    ("audio", "frame", "milliseconds"),
    [
        (AudioFormat("pcm16", 16_000, 20), bytes(640), 20),
        (AudioFormat("pcm16", 48_000, 120), bytes(11_520), 120),
        (AudioFormat("pcm16", 8_000, 10), bytes(160), 10),
        (AudioFormat("pcm16", 16_000, 20), bytes(33), 1),
        (AudioFormat("pcm16", 16_000, 20), b"", 0),
        (AudioFormat("opus", 16_000, 60), b"\x58" + bytes(40), 60),
        (AudioFormat("opus", 48_000, 20), b"", 0),
    ],
)
def test_a_frame_lasts_as_long_as_its_sound(audio, frame, milliseconds):
    assert audio_ms(audio, frame) == milliseconds
