"""Uploads: every accepted format becomes the same sound, and nothing else gets in."""

from __future__ import annotations

import io
import struct
import tracemalloc

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.audio.codec import OggOpusEncoder, decode_upload, encode_wav, wav_header
from server.errors import AudioError

pytestmark = pytest.mark.unit

RATE_HZ = 16_000


def tone(seconds: float = 1.0, rate_hz: int = RATE_HZ, hz: float = 440.0) -> np.ndarray:
    """A sine of amplitude one half; float32."""
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def pcm(samples: np.ndarray) -> np.ndarray:
    return np.round(samples * 32767).astype(np.int16)


def riff(
    payload: bytes, *, tag: int, bits: int, channels: int = 1, rate_hz: int = RATE_HZ, extension: bytes = b""
) -> bytes:
    align = channels * bits // 8
    form = struct.pack("<HHIIHH", tag, channels, rate_hz, rate_hz * align, align, bits) + extension
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(payload)) + payload
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def encoded(container: str, codec: str, samples: np.ndarray, rate_hz: int = RATE_HZ) -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate_hz, layout="mono")
        frame = av.AudioFrame.from_ndarray(pcm(samples)[None, :], format="s16", layout="mono")
        frame.sample_rate = rate_hz
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def opus(samples: np.ndarray, rate_hz: int = RATE_HZ) -> bytes:
    encoder = OggOpusEncoder(rate_hz)
    return encoder.push(pcm(samples)) + encoder.finish()


def peak_hz(samples: np.ndarray, rate_hz: int = RATE_HZ) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(samples)))) * rate_hz / len(samples)


def code_of(data: bytes, content_type: str | None = None, max_seconds: float = 60.0) -> str:
    with pytest.raises(AudioError) as caught:
        decode_upload(data, content_type, max_seconds=max_seconds)
    return caught.value.code


def int24(samples: np.ndarray) -> bytes:
    wide = np.round(samples * (2**23 - 1)).astype("<i4")
    return wide.view(np.uint8).reshape(-1, 4)[:, :3].tobytes()


EXTENSIBLE = struct.pack("<HHI", 22, 16, 4) + struct.pack("<H", 1) + bytes.fromhex("000000001000800000aa00389b71")

WAVS = {
    "8 bit": lambda x: riff((np.round(x * 127) + 128).astype(np.uint8).tobytes(), tag=1, bits=8),
    "16 bit": lambda x: riff(pcm(x).tobytes(), tag=1, bits=16),
    "24 bit": lambda x: riff(int24(x), tag=1, bits=24),
    "32 bit": lambda x: riff(np.round(x * (2**31 - 1)).astype("<i4").tobytes(), tag=1, bits=32),
    "float": lambda x: riff(x.astype("<f4").tobytes(), tag=3, bits=32),
    "double": lambda x: riff(x.astype("<f8").tobytes(), tag=3, bits=64),
    "extensible": lambda x: riff(pcm(x).tobytes(), tag=0xFFFE, bits=16, extension=EXTENSIBLE),
}


@pytest.mark.parametrize("width", WAVS)
def test_every_wav_width_gives_the_same_samples(width: str) -> None:
    samples = tone(0.25)
    decoded = decode_upload(WAVS[width](samples), "audio/wav", max_seconds=1)
    assert decoded.dtype == np.float32
    assert decoded.shape == samples.shape
    np.testing.assert_allclose(decoded, samples, atol=1 / 100 if width == "8 bit" else 1e-4)


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 44_100, 48_000])
def test_other_rates_become_16_khz_with_exact_length(rate_hz: int) -> None:
    decoded = decode_upload(encode_wav(pcm(tone(1.0, rate_hz)), rate_hz), None, max_seconds=1)
    assert len(decoded) == 16_000
    assert peak_hz(decoded) == pytest.approx(440, abs=2)
    assert np.abs(decoded).max() == pytest.approx(0.5, abs=0.02)


def test_stereo_is_averaged() -> None:
    both = np.stack([tone(0.1), np.zeros(1600, np.float32)], axis=1)
    decoded = decode_upload(riff(pcm(both).tobytes(), tag=1, bits=16, channels=2), None, max_seconds=1)
    np.testing.assert_allclose(decoded, tone(0.1) / 2, atol=1e-4)


@pytest.mark.parametrize("content_type", ["audio/flac", "audio/wav", "application/octet-stream", None])
def test_flac_is_known_by_its_first_bytes(content_type: str | None) -> None:
    decoded = decode_upload(encoded("flac", "flac", tone(0.5)), content_type, max_seconds=1)
    np.testing.assert_allclose(decoded, tone(0.5), atol=1e-4)


def test_mp3_is_heard_with_and_without_a_tag() -> None:
    tagged = encoded("mp3", "libmp3lame", tone(1.0))
    assert tagged[:3] == b"ID3"
    bare = tagged[10 + int.from_bytes(tagged[6:10], "big") :]  # the tag is short: no byte uses its top bit
    for data in (tagged, bare):
        decoded = decode_upload(data, "audio/mpeg", max_seconds=2)
        assert len(decoded) == pytest.approx(16_000, abs=2400)
        assert peak_hz(decoded) == pytest.approx(440, abs=3)


def test_opus_round_trip_keeps_length_and_sound() -> None:
    decoded = decode_upload(opus(tone(1.0)), "audio/ogg", max_seconds=2)
    assert len(decoded) == 16_000
    assert peak_hz(decoded) == pytest.approx(440, abs=2)


def test_opus_is_encoded_piece_by_piece() -> None:
    encoder = OggOpusEncoder(24_000)
    samples = pcm(tone(2.0, 24_000))
    pieces = [encoder.push(samples[start : start + 500]) for start in range(0, len(samples), 500)]
    assert pieces[0].startswith(b"OggS")
    assert sum(bool(piece) for piece in pieces) >= 8  # about five pages a second
    assert len(decode_upload(b"".join(pieces) + encoder.finish(), None, max_seconds=3)) == 32_000
    assert encoder.finish() == b""
    with pytest.raises(ValueError, match="finished"):
        encoder.push(samples)


def test_opus_without_a_sample_is_still_a_file() -> None:
    assert OggOpusEncoder(16_000).finish().startswith(b"OggS")


def test_opus_refuses_a_rate_it_does_not_have() -> None:
    with pytest.raises(ValueError, match="22050"):
        OggOpusEncoder(22_050)


def page(packets: list[bytes], *, serial: int, sequence: int, granule: int, flags: int = 0) -> bytes:
    """One Ogg page, by the book (RFC 3533)."""
    lacing = b"".join(bytes([255] * (len(packet) // 255) + [len(packet) % 255]) for packet in packets)
    head = struct.pack("<4sBBqIII", b"OggS", 0, flags, granule, serial, sequence, 0) + bytes([len(lacing)]) + lacing
    body = b"".join(packets)
    crc = 0
    for byte in head + body:
        crc ^= byte << 24
        for _ in range(8):
            crc = ((crc << 1) ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1) & 0xFFFFFFFF
    return head[:22] + struct.pack("<I", crc) + head[26:] + body


def test_empty_opus_packet_does_not_end_the_sound() -> None:
    with av.open(io.BytesIO(opus(tone(1.0))), format="ogg") as opened:
        packets = [bytes(packet) for packet in opened.demux() if packet.size]
        head = bytes(opened.streams.audio[0].codec_context.extradata or b"")
    tags = b"OpusTags" + struct.pack("<I", 0) + struct.pack("<I", 0)
    data = page([head], serial=7, sequence=0, granule=0, flags=2) + page([tags], serial=7, sequence=1, granule=0)
    half = len(packets) // 2
    data += page([*packets[:half], b"", *packets[half:]], serial=7, sequence=2, granule=48_000 + 312, flags=4)
    assert len(decode_upload(data, "audio/ogg", max_seconds=2)) == pytest.approx(16_000, abs=400)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 12])
def test_wav_of_a_stream_decodes_what_is_there(size: int) -> None:
    body = pcm(tone(0.5)).tobytes()
    data = b"RIFF" + struct.pack("<I", size) + wav_header(RATE_HZ, None)[8:40]
    data += struct.pack("<I", 0xFFFFFFFF if size == 12 else size) + body
    np.testing.assert_allclose(decode_upload(data, "audio/wav", max_seconds=1), tone(0.5), atol=1e-4)


def test_wav_cut_in_the_middle_keeps_its_beginning() -> None:
    data = encode_wav(pcm(tone(1.0)), RATE_HZ)
    np.testing.assert_allclose(decode_upload(data[:16_044], None, max_seconds=1), tone(0.5), atol=1e-4)


def test_wav_header_carries_the_sizes() -> None:
    header = wav_header(24_000, 480)
    assert len(header) == 44
    assert struct.unpack_from("<I", header, 4) == (480 + 36,)
    assert struct.unpack_from("<IIHH", header, 24) == (24_000, 48_000, 2, 16)
    assert struct.unpack_from("<I", header, 40) == (480,)
    assert struct.unpack_from("<I", wav_header(24_000, None), 40) == (0xFFFFFFFF,)


@pytest.mark.parametrize(
    ("content_type", "rate_hz", "channels"),
    [
        ("audio/pcm;rate=16000", 16_000, 1),
        ("audio/pcm", 16_000, 1),
        ("AUDIO/PCM; Rate=48000 ; channels=2", 48_000, 2),
        ('audio/L16;rate="8000";channels=1', 8_000, 1),
    ],
)
def test_raw_pcm_is_read_as_the_content_type_says(content_type: str, rate_hz: int, channels: int) -> None:
    samples = pcm(np.repeat(tone(0.5, rate_hz)[:, None], channels, axis=1)).astype("<i2")
    decoded = decode_upload(samples.tobytes(), content_type, max_seconds=1)
    assert len(decoded) == 8_000
    assert peak_hz(decoded) == pytest.approx(440, abs=2)


@pytest.mark.parametrize(
    ("content_type", "data", "code"),
    [
        ("audio/pcm;rate=16000", b"\0" * 3, "audio_invalid"),
        ("audio/pcm;rate=16000;channels=2", b"\0" * 6, "audio_invalid"),
        ("audio/pcm;rate=fast", b"\0" * 4, "audio_unsupported"),
        ("audio/pcm;rate=-1", b"\0" * 4, "audio_unsupported"),
        ("audio/pcm;rate=１６０００", b"\0" * 4, "audio_unsupported"),
        ("audio/pcm;rate=0", b"\0" * 4, "audio_unsupported"),
        ("audio/pcm;channels=0", b"\0" * 4, "audio_unsupported"),
        ("audio/pcm;rate=16000", b"", "audio_empty"),
        (None, b"", "audio_empty"),
        (None, "こんにちは".encode(), "audio_unsupported"),
        ("text/html", b"<html></html>", "audio_unsupported"),
        ("audio/webm", b"\x1a\x45\xdf\xa3" + b"\0" * 40, "audio_unsupported"),
        ("audio/wav", b"not a wav at all", "audio_invalid"),
        ("audio/flac", b"fLaC\0\0", "audio_invalid"),
        ("audio/wav", encode_wav(np.zeros(0, np.int16), RATE_HZ), "audio_empty"),
        ("audio/wav", encode_wav(np.zeros(9, np.int16), RATE_HZ)[:30], "audio_invalid"),
        ("audio/wav", riff(struct.pack("<4f", 0, float("nan"), 0, 0), tag=3, bits=32), "audio_invalid"),
        ("audio/wav", riff(struct.pack("<2d", 1e300, 0), tag=3, bits=64), "audio_invalid"),
        ("audio/wav", riff(b"\0" * 64, tag=0x11, bits=4), "audio_unsupported"),
        ("audio/wav", riff(b"\0" * 64, tag=1, bits=64), "audio_unsupported"),
    ],
)
def test_unusable_audio_has_a_code(content_type: str | None, data: bytes, code: str) -> None:
    assert code_of(data, content_type) == code


def test_ogg_with_another_codec_is_refused() -> None:
    speex = b"Speex   " + b"1.2".ljust(20, b"\0")
    speex += struct.pack("<13i", 1, 80, RATE_HZ, 1, 4, 1, -1, 320, 0, 1, 0, 0, 0)
    data = page([speex], serial=1, sequence=0, granule=0, flags=2)
    data += page([b"comment\0" * 4], serial=1, sequence=1, granule=0)
    data += page([bytes(40)] * 4, serial=1, sequence=2, granule=1280, flags=4)
    assert code_of(data, "audio/ogg") == "audio_unsupported"


@pytest.mark.parametrize("rate_hz", [1, 100, 1_000_000])
def test_absurd_rates_are_refused(rate_hz: int) -> None:
    assert code_of(encode_wav(np.zeros(100, np.int16), rate_hz), "audio/wav") == "audio_unsupported"


def test_playlist_is_never_opened() -> None:
    for text in (b"#EXTM3U\nfile:///etc/hostname\n", b"ffconcat version 1.0\nfile /etc/hostname\n"):
        for content_type in ("audio/mpegurl", "audio/wav", "audio/mpeg", None):
            assert code_of(text, content_type) in ("audio_unsupported", "audio_invalid")


@pytest.mark.parametrize("make", [WAVS["16 bit"], lambda x: encoded("flac", "flac", x), opus])
def test_exactly_the_limit_is_taken_and_more_is_not(make: object) -> None:
    data = make(tone(2.0))  # type: ignore[operator]
    assert len(decode_upload(data, None, max_seconds=2.0)) == 32_000
    assert code_of(data, None, max_seconds=1.999) == "audio_too_long"


def test_raw_pcm_has_the_limit_too() -> None:
    assert code_of(b"\0" * 32_002, "audio/pcm;rate=16000", max_seconds=1.0) == "audio_too_long"


def test_decompression_bomb_stops_early() -> None:
    bomb = encoded("flac", "flac", np.zeros(600 * 8_000, np.float32), rate_hz=8_000)
    assert len(bomb) < 150_000  # ten minutes of silence, 19 MB as float32
    tracemalloc.start()
    try:
        assert code_of(bomb, "audio/flac", max_seconds=1.0) == "audio_too_long"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


SEEDS = [
    WAVS["16 bit"](tone(0.1)),
    WAVS["extensible"](tone(0.05)),
    encoded("flac", "flac", tone(0.2)),
    encoded("mp3", "libmp3lame", tone(0.2)),
    opus(tone(0.2)),
]


def survives(data: bytes, content_type: str | None) -> None:
    try:
        decoded = decode_upload(data, content_type, max_seconds=5)
    except AudioError:
        return
    assert decoded.ndim == 1
    assert 0 < len(decoded) <= 5 * RATE_HZ + 1
    assert np.isfinite(decoded).all()


@settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.binary(max_size=400),
    magic=st.sampled_from([b"", b"RIFF\xff\xff\xff\xffWAVEfmt ", b"fLaC", b"OggS\0\2", b"ID3\4\0\0", b"\xff\xfb"]),
    content_type=st.sampled_from([None, "audio/wav", "audio/flac", "audio/ogg", "audio/mpeg", "audio/pcm;rate=8000"]),
)
def test_random_bytes_raise_nothing_but_audio_errors(data: bytes, magic: bytes, content_type: str | None) -> None:
    survives(magic + data, content_type)


@settings(max_examples=200, deadline=2000, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=12),
    cut=st.integers(0, 4000),
)
def test_damaged_files_raise_nothing_but_audio_errors(seed: bytes, edits: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(seed)
    for position, value in edits:
        damaged[position % len(damaged)] = value
    survives(bytes(damaged[: len(damaged) - cut % len(damaged)]), None)


@settings(max_examples=50, deadline=None)
@given(content_type=st.text(max_size=40).map(lambda text: "audio/pcm;" + text))
def test_any_content_type_is_answered(content_type: str) -> None:
    survives(b"\0\1" * 160, content_type)
