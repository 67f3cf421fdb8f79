"""Microphone and loudspeaker through a PortAudio that is played by the test."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from server.commands import sound
from server.commands.failures import SoundError
from server.errors import StackChanError
from tests.commands.fake_portaudio import FakePortAudio

pytestmark = pytest.mark.unit

ONE_SECOND = (np.ones(16_000, dtype="<i2") * 16_384).tobytes()


def test_a_recording_ends_when_asked() -> None:
    portaudio = FakePortAudio(microphone="Mic", heard=ONE_SECOND)
    levels: list[tuple[float, float]] = []

    recording = sound.record(
        lambda: len(levels) == 4, lambda seconds, decibels: levels.append((seconds, decibels)), portaudio=portaudio
    )

    samples, rate_hz, channels = sound.read_wav(recording)
    assert (rate_hz, channels) == (16_000, 1)
    assert samples == ONE_SECOND[: 4 * 800 * 2]
    assert levels[-1] == (pytest.approx(0.2), pytest.approx(-6.02, abs=0.01))


def test_a_recording_ends_at_its_longest() -> None:
    portaudio = FakePortAudio(microphone="Mic", heard=ONE_SECOND)
    recording = sound.record(lambda: False, lambda *_: None, portaudio=portaudio, max_seconds=0.33)
    assert len(sound.read_wav(recording)[0]) == int(0.33 * 16_000) * 2


def test_a_microphone_that_refuses_16_khz_is_used_at_its_own_rate() -> None:
    portaudio = FakePortAudio(microphone="Mic", heard=ONE_SECOND, refused_rates_hz=(16_000,))
    recording = sound.record(lambda: False, lambda *_: None, portaudio=portaudio, max_seconds=0.1)
    assert portaudio.input_rate_hz == 48_000
    assert sound.read_wav(recording)[1] == 48_000


def test_a_microphone_that_cannot_be_opened_is_told() -> None:
    portaudio = FakePortAudio(microphone="Mic", refused_rates_hz=(16_000, 48_000))
    with pytest.raises(SoundError, match="Invalid sample rate"):
        sound.record(lambda: False, lambda *_: None, portaudio=portaudio)


def test_devices_are_named() -> None:
    assert sound.find_devices(FakePortAudio(microphone="Mic")) == sound.SoundDevices(microphone="Mic")
    assert sound.find_devices(FakePortAudio(loudspeaker="Box")) == sound.SoundDevices(loudspeaker="Box")


def test_playing_without_a_loudspeaker_is_told() -> None:
    with pytest.raises(SoundError, match="no device"):
        sound.play(sound.wav_bytes(ONE_SECOND, 16_000), portaudio=FakePortAudio())


def test_everything_is_played_also_an_odd_rest() -> None:
    portaudio = FakePortAudio(loudspeaker="Box")
    samples = ONE_SECOND[:2_002]
    sound.play(sound.wav_bytes(samples, 22_050), portaudio=portaudio)
    assert portaudio.played == samples
    assert portaudio.output_rate_hz == 22_050


@pytest.mark.parametrize("content", [b"", b"OggS", b"RIFF\x00\x00\x00\x00WAVE"])
def test_sound_that_is_no_wav_is_told(content: bytes) -> None:
    with pytest.raises(StackChanError) as refused:
        sound.read_wav(content)
    assert refused.value.code == "answer_invalid"


def test_a_wav_of_other_samples_is_told() -> None:
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setparams((1, 1, 8000, 0, "NONE", ""))
        file.writeframes(b"\x80" * 10)
    with pytest.raises(StackChanError, match="8 bits"):
        sound.read_wav(target.getvalue())


@pytest.mark.parametrize(
    ("samples", "decibels"),
    [([], -60), ([0, 0], -60), ([32_767], 0), ([-32_768], 0), ([0, -16_384], -6.02), ([3_277], -20)],
)
def test_levels(samples: list[int], decibels: float) -> None:
    assert sound.level_db(np.array(samples, dtype="<i2").tobytes()) == pytest.approx(decibels, abs=0.01)
