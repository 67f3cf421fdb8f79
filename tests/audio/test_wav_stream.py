"""Sound in pieces: whatever its header claims and wherever it is cut, the samples are the same."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from server.audio.codec import encode_wav, wav_header
from server.audio.wav_stream import PcmStream, WavStream
from server.errors import AudioError

pytestmark = pytest.mark.unit

SAMPLES = (np.arange(-600, 600, dtype=np.int16) * 27).astype(np.int16)


def header(
    tag: int, bits: int, channels: int = 1, rate_hz: int = 24_000, *, before: bytes = b"", size: int = 0
) -> bytes:
    form = struct.pack("<HHIIHH", tag, channels, rate_hz, 0, 0, bits)
    return (
        b"RIFF\0\0\0\0WAVE" + before + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size)
    )


def read(data: bytes, step: int) -> tuple[np.ndarray, int | None]:
    stream = WavStream()
    pieces = [stream.push(data[start : start + step]) for start in range(0, len(data), step)]
    stream.finish()
    return np.concatenate(pieces), stream.sample_rate_hz


@pytest.mark.parametrize("step", [1, 3, 7, 44, 45, 1000, 10**6])
@pytest.mark.parametrize("data_bytes", [len(SAMPLES) * 2, 0, None, 0x7FFF_FFDB])
def test_pieces_of_any_length_and_any_claim_of_a_stream_give_the_same_samples(
    step: int, data_bytes: int | None
) -> None:
    samples, rate_hz = read(wav_header(22_050, data_bytes) + SAMPLES.tobytes(), step)
    assert rate_hz == 22_050
    assert np.array_equal(samples, SAMPLES)


def test_what_stands_around_the_samples_is_no_sound() -> None:
    title = b"LIST" + struct.pack("<I", 5) + b"title\0"
    data = header(1, 16, before=title, size=len(SAMPLES) * 2) + SAMPLES.tobytes() + title
    for step in (1, 50, 10**6):
        assert np.array_equal(read(data, step)[0], SAMPLES)


@pytest.mark.parametrize(
    ("tag", "bits", "encoded"),
    [
        (1, 8, (SAMPLES // 256 + 128).astype(np.uint8).tobytes()),
        (1, 24, b"".join(int(sample * 256).to_bytes(3, "little", signed=True) for sample in SAMPLES.tolist())),
        (1, 32, (SAMPLES.astype(np.int32) * 65536).tobytes()),
        (3, 32, (SAMPLES / 32768).astype("<f4").tobytes()),
        (3, 64, (SAMPLES / 32768).astype("<f8").tobytes()),
    ],
)
@pytest.mark.parametrize("step", [5, 10**6])
def test_other_numbers_become_the_same_sound(tag: int, bits: int, encoded: bytes, step: int) -> None:
    samples, _ = read(header(tag, bits) + encoded, step)
    assert np.abs(samples.astype(int) - SAMPLES).max() <= (256 if bits == 8 else 2)


def test_channels_are_averaged_and_what_is_no_number_is_silent() -> None:
    stereo = np.stack([SAMPLES, -SAMPLES], axis=1)
    assert not np.any(read(header(1, 16, channels=2) + stereo.tobytes(), 3)[0])
    strange = np.array([np.nan, np.inf, -np.inf, 0.5, 7.0], "<f4")
    assert read(header(3, 32) + strange.tobytes(), 3)[0].tolist() == [0, 32767, -32767, 16384, 32767]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"<!DOCTYPE html><html>", "audio_invalid"),
        (b"RIFF\0\0\0\0AVI LIST", "audio_invalid"),
        (b"RIFX\0\0\0\0WAVE", "audio_invalid"),
        (header(1, 16)[:30], "audio_invalid"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0\0\0", "audio_invalid"),
        (b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\x7f" + b"\0" * 100_000, "audio_invalid"),
        (b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 20_000, "audio_invalid"),
        (b"RIFF\0\0\0\0WAVEfmt \x04\0\0\0\1\0\1\0data\0\0\0\0", "audio_invalid"),
        (encode_wav(SAMPLES, 24_000)[:-100], "audio_invalid"),
        (header(2, 4) + b"\0" * 50, "audio_unsupported"),
        (header(1, 12) + b"\0" * 50, "audio_unsupported"),
        (header(1, 16, channels=0) + b"\0" * 50, "audio_unsupported"),
        (header(1, 16, channels=99) + b"\0" * 50, "audio_unsupported"),
        (header(1, 16, rate_hz=0) + b"\0" * 50, "audio_unsupported"),
        (header(1, 16, rate_hz=2**31) + b"\0" * 50, "audio_unsupported"),
        (b"", "audio_invalid"),
    ],
)
@pytest.mark.parametrize("step", [1, 10**6])
def test_what_is_no_wav_file_is_refused_however_it_comes(data: bytes, code: str, step: int) -> None:
    with pytest.raises(AudioError) as caught:
        read(data[:4000] if step == 1 else data, step)
    assert caught.value.code in (code, "audio_invalid" if step == 1 else code)


def test_an_extensible_header_names_its_form_further_behind() -> None:
    form = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 24_000, 0, 0, 16, 22, 16, 4) + struct.pack("<H", 1) + b"\0" * 14
    data = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<I", len(form)) + form + b"data\xff\xff\xff\xff" + SAMPLES.tobytes()
    assert np.array_equal(read(data, 11)[0], SAMPLES)


def test_raw_samples_may_be_cut_in_the_middle() -> None:
    stream = PcmStream(24_000)
    data = SAMPLES.tobytes()
    pieces = [stream.push(data[start : start + 3]) for start in range(0, len(data), 3)]
    assert np.array_equal(np.concatenate(pieces), SAMPLES)
    assert all(piece.dtype == np.int16 for piece in pieces)
