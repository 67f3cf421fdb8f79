"""What does not come of an Opus microphone: a silence where the device said so, else the network, for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from server.audio.frames import FrameCutter
from server.devices.gaps import STALL_SECONDS, Gaps
from server.devices.wire import AudioFrame, TurnAnswer
from tests.devices.live_robots import live_server, microphone, robot, tone

pytestmark = pytest.mark.integration

FULL, DTX = b"\x58" + b"x" * 60, b"\x58"


@pytest.mark.parametrize(("frame_seconds", "quiet"), [(0.02, 0.2), (0.06, 0.2), (0.12, 0.36)])
def test_a_gap_after_a_packet_of_silence_is_silence_and_one_after_sound_is_waited_for(
    frame_seconds: float, quiet: float
) -> None:
    gaps = Gaps(frame_seconds)
    gaps.packet(FULL)
    assert gaps.patience_seconds == STALL_SECONDS
    gaps.packet(DTX)
    assert gaps.patience_seconds == pytest.approx(quiet)
    gaps.packet(DTX + b"\x03")
    assert gaps.patience_seconds == pytest.approx(quiet)
    gaps.packet(FULL)
    assert gaps.patience_seconds == STALL_SECONDS
    gaps.silent()  # it was waited for once
    assert gaps.patience_seconds == pytest.approx(quiet)


async def test_words_that_the_network_holds_up_are_one_utterance_and_silence_that_is_left_out_ends_it(
    tmp_path: Path,
) -> None:
    frame_ms = 60
    cutter = FrameCutter("opus", 16_000, frame_ms)
    samples = (tone(1.2) * 32_767).astype("int16")
    frames = [*cutter.push(samples), *cutter.finish()]
    async with live_server(tmp_path) as live, robot(live, microphone=microphone("opus", frame_ms)) as desk:
        await desk.listen("auto")
        half = len(frames) // 2
        for frame in frames[:half]:
            await desk.send(AudioFrame(frame))
            await asyncio.sleep(frame_ms / 1000)
        await asyncio.sleep(0.75)  # longer than the silence that ends an utterance
        for frame in frames[half:]:
            await desk.send(AudioFrame(frame))
        await desk.send(AudioFrame(frames[-1][:1]))  # silent from here on, and nothing more is sent
        await desk.wait_for(TurnAnswer)
        (heard,) = live.engines.asr.heard  # type: ignore[attr-defined]
        assert len(heard) / 16_000 == pytest.approx(1.2 + 0.1, abs=0.25)
