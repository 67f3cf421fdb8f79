"""The robot's voice on its way to a device: order, pace, what was played, and silence at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np
import pytest

from server.devices.voice import LiveVoice, TurnVoice, VoiceSettings
from server.devices.wire import AudioFormat, Levels, Sentence, SpeechFrame, SpeechStart, SpeechStop, ToDevice
from server.events import AudioChunk
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.unit

Result = TypeVar("Result")
PCM = AudioFormat("pcm16", 24_000, 60)
GRACE_SECONDS = 0.3
"""A device that does not say what it has played is given so much more."""


class Device:
    """Takes what is sent, with its times; `gone`: takes nothing."""

    def __init__(self, **voice: bool) -> None:
        self.voice = LiveVoice(PCM, VoiceSettings(), self.now, levels=voice.get("levels", False))
        self.got: list[tuple[float, ToDevice]] = []
        self.gone = False

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def send(self, message: ToDevice) -> bool:
        if not self.gone:
            self.got.append((self.now(), message))
        return not self.gone

    def kinds(self) -> list[str]:
        names = [type(message).__name__ for _, message in self.got]
        return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]

    def frames(self) -> list[tuple[float, bytes]]:
        return [(at, message.data) for at, message in self.got if isinstance(message, SpeechFrame)]


def with_device(play: Callable[[Device], Awaitable[Result]], **voice: bool) -> tuple[Device, Result]:
    async def run() -> tuple[Device, Result]:
        device = Device(**voice)
        sending = asyncio.ensure_future(device.voice.run(device.send))
        try:
            return device, await play(device)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    return in_virtual_time(run())


def sound(seconds: float, value: int = 3000, rate_hz: int = 24_000) -> AudioChunk:
    return AudioChunk(np.full(round(seconds * rate_hz), value, np.int16), rate_hz)


def say(voice: TurnVoice, *seconds: float) -> None:
    for number, length in enumerate(seconds):
        voice.sentence(7, f"文{number}")
        voice.sound(7, sound(length, 1000 * (number + 1)))


def test_all_of_it_goes_in_order_and_at_the_pace_of_playing() -> None:
    async def play(device: Device) -> float:
        voice = device.voice.begin()
        say(voice, 1.2, 0.6)
        await voice.played_out()
        return device.now()

    device, seconds = with_device(play)
    assert seconds == pytest.approx(1.8 + GRACE_SECONDS, abs=0.001)
    assert device.kinds() == ["SpeechStart", "Sentence", "SpeechFrame", "Sentence", "SpeechFrame", "SpeechStop"]
    at = [time for time, _ in device.frames()]
    assert at[:5] == [0.0] * 5
    assert at[5:] == pytest.approx([0.06 * n for n in range(1, 26)], abs=0.001)
    heard = np.frombuffer(b"".join(data for _, data in device.frames()), "<i2")
    assert list(heard) == [1000] * 28_800 + [2000] * 14_400
    assert [message for _, message in device.got if isinstance(message, Sentence)] == [
        Sentence(7, "文0"),
        Sentence(7, "文1"),
    ]


def test_the_first_frame_waits_for_nothing_and_the_last_is_filled_with_silence() -> None:
    async def play(device: Device) -> None:
        voice = device.voice.begin()
        say(voice, 0.06)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [type(message) for _, message in device.got] == [SpeechStart, Sentence, SpeechFrame]
        voice.sound(7, sound(0.01, 5))
        await voice.played_out()

    device, _ = with_device(play)
    assert list(np.frombuffer(device.frames()[1][1], "<i2")) == [5] * 240 + [0] * 1200


def test_sound_of_another_rate_is_converted() -> None:
    async def play(device: Device) -> None:
        voice = device.voice.begin()
        voice.sound(7, sound(1.0, rate_hz=48_000))
        await voice.played_out()

    device, _ = with_device(play)
    heard = np.frombuffer(b"".join(data for _, data in device.frames()), "<i2")
    assert len(heard) == pytest.approx(24_000, abs=1440)
    assert list(heard[5_000:6_000]) == pytest.approx([3000] * 1000, abs=2)


def test_mouth_levels_go_with_their_sound_where_they_are_wanted() -> None:
    async def play(device: Device) -> None:
        voice = device.voice.begin()
        say(voice, 0.24, 0.2)
        await voice.played_out()

    device, _ = with_device(play, levels=True)
    levels = [message for _, message in device.got if isinstance(message, Levels)]
    assert [(one.start_ms, len(one.values)) for one in levels] == [(0, 3), (120, 3), (240, 3), (360, 2)]
    assert all(0 < value <= 1 for one in levels for value in one.values)
    assert not [message for _, message in with_device(play)[0].got if isinstance(message, Levels)]


@pytest.mark.parametrize("after", [0.0, 0.1, 0.5, 1.0])
def test_hushed_nothing_more_goes_and_what_was_played_stays(after: float) -> None:
    async def play(device: Device) -> tuple[float, float]:
        voice = device.voice.begin()
        say(voice, 2.0)
        await asyncio.sleep(after)
        device.voice.hush()
        sent = len(device.frames())
        await voice.played_out()
        over = device.now()
        voice.sound(7, sound(1.0))  # the voice was still at work
        await asyncio.sleep(3.0)
        assert len(device.frames()) == sent
        return over, voice.played_ms()

    device, (over, played) = with_device(play)
    assert over == pytest.approx(after, abs=0.001)
    assert played == pytest.approx(after * 1000, abs=61)
    assert device.kinds()[-1] == ("SpeechStop" if device.got else device.kinds()[-1])
    assert sum(isinstance(message, SpeechStop) for _, message in device.got) == min(1, len(device.got))


def test_hushed_before_it_said_anything_it_says_nothing() -> None:
    async def play(device: Device) -> float:
        voice = device.voice.begin()
        device.voice.hush()
        say(voice, 1.0)
        await voice.played_out()
        return voice.played_ms()

    device, played = with_device(play)
    assert (device.got, played) == ([], 0)


def test_what_the_device_says_counts_more_than_the_clock() -> None:
    async def play(device: Device) -> list[float]:
        voice = device.voice.begin()
        say(voice, 2.0)
        told = []
        await asyncio.sleep(1.0)
        told.append(voice.played_ms())
        device.voice.acknowledge(7, 400)  # its network was slow
        told.append(voice.played_ms())
        await asyncio.sleep(0.2)
        told.append(voice.played_ms())
        device.voice.acknowledge(7, 300)  # never back
        device.voice.acknowledge(8, 2000)  # of another turn
        told.append(voice.played_ms())
        device.voice.acknowledge(7, 10**9)  # more than was sent
        told.append(voice.played_ms())
        return told

    _, told = with_device(play)
    assert told == pytest.approx([1000, 400, 600, 600, 1200], abs=61)


def test_a_device_that_has_played_all_is_not_waited_for() -> None:
    async def play(device: Device) -> float:
        voice = device.voice.begin()
        say(voice, 0.3)
        ended = asyncio.ensure_future(voice.played_out())
        await asyncio.sleep(0.1)
        device.voice.acknowledge(7, 300)
        await ended
        return device.now()

    assert with_device(play)[1] == pytest.approx(0.1, abs=0.001)


def test_for_a_device_that_is_away_the_rest_waits_and_then_goes_on() -> None:
    async def run() -> tuple[Device, float]:
        device = Device()
        sending = asyncio.ensure_future(device.voice.run(device.send))
        voice = device.voice.begin()
        say(voice, 1.2)
        ended = asyncio.ensure_future(voice.played_out())
        await asyncio.sleep(0.3)
        device.gone = True
        await sending  # it noticed
        device.voice.away(True)
        await asyncio.sleep(60)
        device.gone = False
        device.voice.away(False)
        sending = asyncio.ensure_future(device.voice.run(device.send))
        await ended
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return device, device.now()

    device, over = in_virtual_time(run())
    assert over == pytest.approx(60.36 + 0.6 + GRACE_SECONDS, abs=0.01)  # what it had been given is played
    assert len(device.frames()) == 20
    rest = [type(message) for at, message in device.got if at > 59]
    assert (rest[0], rest.count(SpeechStart), rest[-1], rest.count(SpeechStop)) == (SpeechStart, 1, SpeechStop, 1)


def test_a_device_that_stays_away_ends_the_waiting() -> None:
    async def play(device: Device) -> float:
        voice = device.voice.begin()
        say(voice, 1.2)
        await asyncio.sleep(0.1)
        device.gone = True
        device.voice.away(True)
        await voice.played_out()
        return device.now()

    assert with_device(play)[1] == pytest.approx(120.1, abs=0.2)


@pytest.mark.parametrize("comes", ["before its voice", "in its voice"])
@pytest.mark.parametrize("after", [121.0, 180.0, 239.0, 600.0])
def test_whoever_comes_back_too_late_gets_nothing_of_the_old_turn(comes: str, after: float) -> None:
    async def run() -> tuple[Device, int]:
        device = Device()
        sending = asyncio.ensure_future(device.voice.run(device.send))
        if comes == "in its voice":
            voice = device.voice.begin()
            say(voice, 3.0)
            await asyncio.sleep(0.3)
        device.gone = True
        device.voice.away(True)
        await asyncio.sleep(60)
        if comes == "before its voice":  # the model took long
            voice = device.voice.begin()
            say(voice, 3.0)
        await voice.played_out()
        assert device.now() == pytest.approx(120.3 if comes == "in its voice" else 120, abs=0.1)
        await asyncio.sleep(after - 120)
        sent = len(device.got)
        device.gone = False
        device.voice.away(False)
        sending.cancel()
        again = asyncio.ensure_future(device.voice.run(device.send))
        voice.sound(7, sound(1.0))
        await asyncio.sleep(5)
        again.cancel()
        await asyncio.gather(sending, again, return_exceptions=True)
        return device, sent

    device, sent = in_virtual_time(run())
    assert device.got[sent:] == []


def test_of_a_device_that_went_with_nothing_left_to_hear_nobody_waits() -> None:
    async def play(device: Device) -> tuple[float, float]:
        voice = device.voice.begin()
        device.gone = True
        device.voice.away(True)
        await voice.played_out()
        silent = device.now()
        device.gone = False
        device.voice.away(False)
        voice = device.voice.begin()
        say(voice, 0.3)
        await asyncio.sleep(0.1)
        device.gone = True
        device.voice.away(True)
        await voice.played_out()
        return silent, device.now()

    assert with_device(play)[1] == pytest.approx((0.0, 0.3), abs=0.001)


def test_after_a_cut_played_and_mouth_levels_count_from_the_new_start() -> None:
    async def run() -> tuple[Device, list[float]]:
        device = Device(levels=True)
        sending = asyncio.ensure_future(device.voice.run(device.send))
        voice = device.voice.begin()
        say(voice, 2.4)
        await asyncio.sleep(0.3)
        device.gone = True
        await sending
        device.voice.away(True)
        before = len(device.frames()) * 60.0
        await asyncio.sleep(1)
        device.gone = False
        device.voice.away(False)
        sending = asyncio.ensure_future(device.voice.run(device.send))
        await asyncio.sleep(0.6)
        told = [before]
        device.voice.acknowledge(7, 540)
        told.append(voice.played_ms())
        device.voice.hush()
        device.voice.acknowledge(7, 480)
        told.append(await voice.final_ms())
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return device, told

    device, (before, acknowledged, last_word) = in_virtual_time(run())
    assert (acknowledged, last_word) == pytest.approx((before + 540, before + 480), abs=1)
    place = max(place for place, (_, message) in enumerate(device.got) if isinstance(message, SpeechStart))
    starts = [message.start_ms for _, message in device.got[place:] if isinstance(message, Levels)]
    assert starts[0] < 130
    assert starts == [starts[0] + 120 * n for n in range(len(starts))]


def test_a_new_turn_silences_the_one_before() -> None:
    async def play(device: Device) -> None:
        first = device.voice.begin()
        say(first, 3.0)
        await asyncio.sleep(0.5)
        second = device.voice.begin()
        await first.played_out()
        second.sentence(8, "つぎ")
        second.sound(8, sound(0.12, 9))
        await second.played_out()

    device, _ = with_device(play)
    turns = [message.turn_id for _, message in device.got if isinstance(message, SpeechStart)]
    assert turns == [7, 8]
    assert list(np.frombuffer(device.frames()[-1][1], "<i2")) == [9] * 1440


def test_silence_is_a_turn_without_sound() -> None:
    async def play(device: Device) -> float:
        voice = device.voice.begin()
        await voice.played_out()
        return device.now()

    device, seconds = with_device(play)
    assert (device.got, seconds) == ([], 0.0)


@pytest.mark.parametrize(
    ("last_word", "after", "final", "waited"),
    [(None, 0.0, 1000, 0.15), (850, 0.05, 850, 0.05), (5000, 0.05, 1000, 0.05), (850, 0.5, 1000, 0.15)],
)
def test_a_device_that_tells_has_the_last_word(
    last_word: float | None, after: float, final: float, waited: float
) -> None:
    async def play(device: Device) -> tuple[float, float]:
        voice = device.voice.begin()
        say(voice, 3.0)
        await asyncio.sleep(0.5)
        device.voice.acknowledge(7, 500)
        await asyncio.sleep(0.5)
        device.voice.hush()
        began = device.now()
        if last_word is not None:
            asyncio.get_running_loop().call_later(after, device.voice.acknowledge, 7, last_word)
        ms = await voice.final_ms()
        took = device.now() - began
        await asyncio.sleep(1.0)
        return ms, took

    _, (ms, took) = with_device(play)
    assert ms == pytest.approx(final, abs=61)
    assert took == pytest.approx(waited, abs=0.01)


def test_of_a_device_that_tells_nothing_nobody_waits_for_a_last_word() -> None:
    async def play(device: Device) -> float:
        voice = device.voice.begin()
        say(voice, 3.0)
        await asyncio.sleep(0.5)
        device.voice.hush()
        await voice.final_ms()
        return device.now()

    assert with_device(play)[1] == pytest.approx(0.5, abs=0.001)
