"""When frames may go: never more than the device holds, never later than it needs them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.pacing import Pacer

pytestmark = pytest.mark.unit

FRAME = 0.06
START = 5_000.0


def send_while_allowed(pacer: Pacer, now: float, most: int = 1_000) -> int:
    """Send what may go at this moment; how many went."""
    count = 0
    while count < most and pacer.delay_seconds(now) == 0.0:
        pacer.sent(now)
        count += 1
    return count


def test_the_lead_goes_at_once_then_one_each_frame_time() -> None:
    pacer = Pacer(60, lead_frames=5)
    now, times = START, []
    for _ in range(50):
        now += pacer.delay_seconds(now)
        times.append(now - START)
        pacer.sent(now)
    assert times[:5] == [0.0] * 5
    assert times[5:] == pytest.approx([FRAME * k for k in range(1, 46)], abs=1e-6)


@pytest.mark.parametrize("lead", [2, 5, 8])
def test_frames_that_go_in_bursts_wake_the_sender_less_often(lead: int) -> None:
    pacer = Pacer(20, lead, burst_frames=2)
    now, bursts = START, []
    for _ in range(20):
        now += pacer.delay_seconds(now)
        bursts.append((round((now - START) * 1000), send_while_allowed(pacer, now)))
        assert 0 < pacer.delay_seconds(now) <= 0.04 + 1e-6
    assert bursts == [(0, lead), *((40 * k, 2) for k in range(1, 20))]


def test_a_late_sender_makes_up_for_it() -> None:
    """The loop was busy for 2.5 frames: two go at once, the third when it is its time."""
    pacer = Pacer(60, lead_frames=5)
    assert send_while_allowed(pacer, START) == 5
    assert send_while_allowed(pacer, START + 2.5 * FRAME) == 2
    assert pacer.delay_seconds(START + 2.5 * FRAME) == pytest.approx(0.5 * FRAME)


def test_after_a_stall_that_ran_the_device_empty_the_lead_begins_anew() -> None:
    pacer = Pacer(60, lead_frames=5)
    send_while_allowed(pacer, START)
    later = START + 60.0
    assert pacer.played_ms(later) == pacer.sent_ms == 300
    assert send_while_allowed(pacer, later) == 5, "not the thousand frames that the time would have held"
    assert pacer.played_ms(later) == 300, "what went just now has not been heard"
    assert pacer.played_ms(later + FRAME) == 360


def test_what_has_been_played_follows_what_was_sent() -> None:
    pacer = Pacer(60, lead_frames=5)
    assert (pacer.sent_ms, pacer.played_ms(START), pacer.unplayed_seconds(START)) == (0, 0, 0.0)
    send_while_allowed(pacer, START)
    assert (pacer.sent_ms, pacer.played_ms(START), pacer.played_ms(START + 0.1)) == (300, 0, 100)
    assert pacer.unplayed_seconds(START + 0.1) == pytest.approx(0.2)
    assert (pacer.played_ms(START + 9), pacer.unplayed_seconds(START + 9)) == (300, 0.0)


def test_a_timer_that_wakes_a_hair_early_may_send() -> None:
    pacer = Pacer(60, lead_frames=1)
    pacer.sent(START)
    assert pacer.delay_seconds(START + FRAME - 1e-7) == 0.0


@pytest.mark.parametrize(("frame_ms", "lead_frames", "burst_frames"), [(0, 5, 1), (-60, 5, 1), (60, 0, 1), (60, 2, 3)])
def test_a_pace_that_is_none_is_refused(frame_ms: int, lead_frames: int, burst_frames: int) -> None:
    with pytest.raises(ValueError, match="lead"):
        Pacer(frame_ms, lead_frames, burst_frames)


class Device:
    """Plays what it has in real time. `starved_seconds`: how long it stood silent between frames."""

    def __init__(self) -> None:
        self.queue = self.played = self.starved_seconds = self.now = 0.0
        self.began = False

    def wait_until(self, now: float) -> None:
        passed = now - self.now
        played = min(self.queue, passed)
        self.queue -= played
        self.played += played
        if self.began:
            self.starved_seconds += passed - played
        self.now = now

    def receive(self) -> None:
        self.began = True
        self.queue += FRAME


@settings(max_examples=200, deadline=None)
@given(
    stalls=st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.001, 0.03, 0.2]) | st.floats(0, 0.7), min_size=1, max_size=120),
    lead=st.integers(1, 8),
    burst=st.integers(1, 3),
)
def test_a_device_is_never_flooded_and_starves_only_by_the_stalls(stalls: list[float], lead: int, burst: int) -> None:
    pacer, device = Pacer(60, lead, min(lead, burst)), Device()
    stalled = 0.0
    for stall in stalls:
        now = device.now + pacer.delay_seconds(device.now) + stall
        stalled += max(0.0, stall - (lead - 1) * FRAME)
        device.wait_until(now)
        assert pacer.played_ms(now) == pytest.approx(device.played * 1000, abs=1)
        assert pacer.delay_seconds(now) == 0.0, "who has waited may send"
        device.receive()
        pacer.sent(now)
        assert device.queue <= lead * FRAME + 1e-5
        assert pacer.sent_ms == pytest.approx((device.played + device.queue) * 1000, abs=1)
    if all(stall == 0.0 for stall in stalls):
        assert device.starved_seconds < 1e-3
    assert device.starved_seconds <= sum(stalls) + 1e-3
    if lead > 1 and max(stalls) == 0.0:
        assert stalled == 0.0
