"""Recordings that are not what they say: hand-made lies first, then good recordings damaged at random, without end.

Knows containers and the upload endpoint's path; not what the server should answer.
"""

from __future__ import annotations

import gzip
import io
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache

import av
import numpy as np

from server.audio.codec import OggOpusEncoder, encode_wav
from tests.soaks.wire import CLOSE, Headers, Malformed, request_bytes, whole

RATE_HZ = 16_000
TYPES = {
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "mp3": "audio/mpeg",
    "raw": "audio/pcm;rate=16000",
}
ODD_TYPES = (
    "",
    "audio/",
    "audio/pcm;rate=",
    "audio/pcm;rate=0",
    "audio/pcm;rate=4294967295",
    "audio/pcm;rate=16000;rate=8000",
    "audio/pcm;rate=1e5",
    "audio/pcm;rate=１６０００",
    "audio/pcm;channels=0",
    "audio/pcm;channels=255",
    "audio/pcm;channels=7;rate=4000",
    'audio/pcm;rate="',
    "audio/L16;rate=384000;channels=8",
    "audio/pcm;" + "rate=16000;" * 500,
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "application/octet-stream",
    "audio/webm",
    "audio/wav, audio/flac",
    "AUDIO/WAV;codecs=\x7f",
    "image/png",
    "text/plain; charset=utf-16",
)


def upload(body: bytes, content_type: str | None, device: str, auth: Headers, extra: Headers = ()) -> bytes:
    """A POST of a recording."""
    kind = [("Content-Type", content_type)] if content_type is not None else []
    return request_bytes("POST", "/v1/turns", [("Host", "x"), *auth, ("Device-Id", device), CLOSE, *kind, *extra], body)


def speech(seconds: float, rate_hz: int = RATE_HZ) -> np.ndarray:
    """Something loud; int16, shape (n,)."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    return np.asarray(np.round(16_000 * np.sin(2 * np.pi * 220 * time)), np.int16)


def riff(
    payload: bytes, *, tag: int = 1, bits: int = 16, channels: int = 1, rate_hz: int = RATE_HZ, **lies: int
) -> bytes:
    """A WAV file; `lies`: other values for `align`, `byte_rate`, `data_size`, `riff_size`, `fmt_size`."""
    align = lies.get("align", channels * bits // 8 & 0xFFFF)
    form = struct.pack(
        "<HHIIHH", tag, channels, rate_hz, lies.get("byte_rate", rate_hz * align & 0xFFFFFFFF), align, bits
    )
    chunks = b"fmt " + struct.pack("<I", lies.get("fmt_size", len(form))) + form
    chunks += b"data" + struct.pack("<I", lies.get("data_size", len(payload))) + payload
    return b"RIFF" + struct.pack("<I", lies.get("riff_size", 4 + len(chunks))) + b"WAVE" + chunks


def encoded(container: str, codec: str, seconds: float = 0.4, rate_hz: int = RATE_HZ) -> bytes:
    """A recording as FFmpeg writes it."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate_hz, layout="mono")
        frame = av.AudioFrame.from_ndarray(speech(seconds, rate_hz)[None, :], format="s16", layout="mono")
        frame.sample_rate = rate_hz
        for resampled in av.AudioResampler(format=stream.format, layout="mono", rate=stream.rate).resample(frame):
            output.mux(stream.encode(resampled))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def opus() -> bytes:
    encoder = OggOpusEncoder(RATE_HZ)
    return encoder.push(speech(0.4)) + encoder.finish()


@cache
def good_recordings() -> dict[str, tuple[str, bytes]]:
    """Name -> container and bytes; all of them can be heard, or are of a codec that is not taken."""
    wide = speech(0.2).astype("<i4") << 16
    floats = (speech(0.2) / 32768).astype("<f4")
    return {
        "wav 16": ("wav", encode_wav(speech(0.4), RATE_HZ)),
        "wav 48 kHz": ("wav", encode_wav(speech(0.2, 48_000), 48_000)),
        "wav 8": ("wav", riff((speech(0.4) // 256 + 128).astype(np.uint8).tobytes(), bits=8)),
        "wav 24": ("wav", riff(wide.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes(), bits=24)),
        "wav 32": ("wav", riff(wide.tobytes(), bits=32)),
        "wav float": ("wav", riff(floats.tobytes(), tag=3, bits=32)),
        "wav stereo": ("wav", riff(np.repeat(speech(0.2), 2).tobytes(), channels=2)),
        "wav ms adpcm": ("wav", encoded("wav", "adpcm_ms")),
        "wav ima adpcm": ("wav", encoded("wav", "adpcm_ima_wav")),
        "wav mu-law": ("wav", encoded("wav", "pcm_mulaw")),
        "flac": ("flac", encoded("flac", "flac")),
        "mp3": ("mp3", encoded("mp3", "libmp3lame")),
        "ogg opus": ("ogg", opus()),
        "matroska opus": ("ogg", encoded("matroska", "libopus", rate_hz=48_000)),
        "adts aac": ("mp3", encoded("adts", "aac")),
        "pcm": ("raw", speech(0.4).tobytes()),
    }


@cache
def zip_bomb_tag(megabytes: int = 200) -> bytes:
    """An ID3 tag whose one frame claims to unpack to so much, and does."""
    packed = zlib.compress(b"x\0" + bytes(megabytes << 20), 9)
    size = lambda n: bytes(n >> shift & 0x7F for shift in (21, 14, 7, 0))  # noqa: E731
    frame = b"PRIV" + size(len(packed) + 4) + b"\0\x09" + size((megabytes << 20) + 2) + packed
    return b"ID3\4\0\0" + size(len(frame)) + frame


@cache
def liars() -> dict[str, tuple[str | None, bytes]]:
    """Name -> content type and bytes; each tells one lie that a reader could believe."""
    samples = speech(0.3).tobytes()
    wav, ogg, flac, mp3 = (
        encode_wav(speech(0.3), RATE_HZ),
        opus(),
        encoded("flac", "flac"),
        encoded("mp3", "libmp3lame"),
    )
    bomb = zip_bomb_tag()
    tagged = b"id3 " + struct.pack("<I", len(bomb)) + bomb + b"\0" * (len(bomb) % 2)
    found: dict[str, tuple[str | None, bytes]] = {
        "nothing": ("audio/wav", b""),
        "one byte": ("audio/pcm", b"\x01"),
        "one sample": ("audio/pcm", b"\x01\x7f"),
        "one sample wav": ("audio/wav", riff(b"\x01\x7f")),
        "odd bytes": ("audio/pcm;rate=16000", samples[:-1]),
        "odd stereo": ("audio/pcm;rate=16000;channels=2", samples[:-2]),
        "not a number": ("audio/wav", riff(np.full(4_000, np.nan, "<f4").tobytes(), tag=3, bits=32)),
        "infinite": ("audio/wav", riff(np.full(4_000, np.inf, "<f4").tobytes(), tag=3, bits=32)),
        "beyond float32": ("audio/wav", riff(np.full(4_000, 1e300, "<f8").tobytes(), tag=3, bits=64)),
        "denormal": ("audio/wav", riff(np.full(4_000, 1e-42, "<f4").tobytes(), tag=3, bits=32)),
        "too loud": ("audio/wav", riff(np.full(4_000, 3e38, "<f4").tobytes(), tag=3, bits=32)),
        "a minute and a bit": ("audio/pcm;rate=4000", bytes(2 * 4_000 * 61)),
        "ten minutes of flac": ("audio/flac", encoded("flac", "flac", 600.0, 8_000)),
        "tag bomb": ("audio/mpeg", bomb + mp3),
        "tag bomb in wav": ("audio/wav", wav[:12] + wav[12:36] + tagged + wav[36:]),
        "endless tag": ("audio/mpeg", b"ID3\4\0\0\x7f\x7f\x7f\x7f" + mp3),
        "many tags": ("audio/mpeg", b"ID3\4\0\0\0\0\0\0" * 20_000 + mp3),
        "gzipped": ("audio/wav", gzip.compress(wav)),
        "nested riff": ("audio/wav", wav[:12] + b"LIST" + struct.pack("<I", len(wav)) + wav * 3),
        "a thousand chunks": ("audio/wav", wav[:12] + b"junk\0\0\0\0" * 1_000 + wav[12:]),
        "two formats": ("audio/wav", wav[:36] + wav[12:36] + wav[36:]),
        "no format": ("audio/wav", wav[:12] + wav[36:]),
        "two wavs": ("audio/wav", wav + encode_wav(speech(0.2, 8_000), 8_000)),
        "two oggs": ("audio/ogg", ogg + ogg),
        "flac in ogg clothes": ("audio/ogg", b"OggS" + flac),
        "playlist": ("audio/mpegurl", b"#EXTM3U\nfile:///etc/hostname\n"),
        "concat": ("audio/wav", b"ffconcat version 1.0\nfile /etc/hostname\n"),
    }
    for rate_hz in (0, 1, 3_999, 4_000, 384_000, 384_001, 2**31, 2**32 - 1):
        found[f"rate {rate_hz}"] = ("audio/wav", riff(samples, rate_hz=rate_hz))
    for channels in (0, 2, 9, 255, 65_535):
        found[f"channels {channels}"] = ("audio/wav", riff(samples, channels=channels))
    for bits in (0, 1, 4, 7, 12, 33, 64, 65_535):
        found[f"bits {bits}"] = ("audio/wav", riff(samples, bits=bits))
    for tag in (0, 2, 3, 6, 7, 0x11, 0x31, 0x50, 0x55, 0xFF, 0x161, 0x674F, 0xF1AC, 0xFFFE, 0xFFFF):
        found[f"codec {tag:#x}"] = ("audio/wav", riff(samples, tag=tag))
    for name in ("align", "byte_rate", "data_size", "riff_size", "fmt_size"):
        for value in (0, 1, 3, 2**16 - 1, 2**31, 2**32 - 1):
            lie = value & 0xFFFF if name == "align" else value
            found[f"{name} {lie}"] = ("audio/wav", riff(samples, **{name: lie}))
    for position in (4, 5, 6, 14, 18, 26):  # version, flags, granule, serial, sequence, number of segments
        for value in (0, 1, 0xFF):
            found[f"ogg byte {position} {value}"] = ("audio/ogg", ogg[:position] + bytes([value]) + ogg[position + 1 :])
    return found


Damage = Callable[[random.Random, bytes], bytes]


def flip_bits(chance: random.Random, data: bytes) -> bytes:
    broken = bytearray(data)
    for _ in range(chance.randint(1, 24)):
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
    return bytes(broken)


def flip_head(chance: random.Random, data: bytes) -> bytes:
    broken = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        broken[chance.randrange(min(64, len(broken)))] = chance.choice(
            (0, 1, 0x7F, 0x80, 0xFE, 0xFF, chance.randrange(256))
        )
    return bytes(broken)


def cut_off(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def cut_out(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randint(1, 200) :]


def repeat(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start : start + chance.randint(1, 2_000)] * chance.randint(2, 40) + data[start:]


def write_number(chance: random.Random, data: bytes) -> bytes:
    """A size or count somewhere in the head becomes extreme."""
    form = chance.choice(("<I", ">I", "<H", ">H", "<Q"))
    limit = 256 ** struct.calcsize(form) - 1
    value = chance.choice((0, 1, limit, limit // 2, limit // 2 + 1, chance.randint(0, limit)))
    place = chance.randrange(min(len(data), 256))
    return data[:place] + struct.pack(form, value) + data[place + struct.calcsize(form) :]


def add_noise(chance: random.Random, data: bytes) -> bytes:
    return chance.choice((chance.randbytes(chance.randint(1, 4_000)) + data, data + chance.randbytes(2_000)))


DAMAGES: tuple[Damage, ...] = (flip_bits, flip_head, cut_off, cut_out, repeat, write_number, add_noise)


def audio_requests(chance: random.Random, auth: Headers, device: Callable[[], str]) -> Iterator[Malformed]:
    """Uploads without end. `device`: gives a device id for the next one."""
    recordings = good_recordings()
    lies = [(name, content_type, data) for name, (content_type, data) in liars().items()]
    lies += [(f"type {odd[:40]!r}", odd, recordings["wav 16"][1]) for odd in ODD_TYPES]
    lies += [(f"raw type {odd[:40]!r}", odd, recordings["pcm"][1]) for odd in ODD_TYPES]
    chance.shuffle(lies)
    for name, content_type, data in lies:
        yield whole("audio", name, upload(data, content_type, device(), auth))
    bomb = gzip.compress(bytes(64 << 20))
    for coding in ("gzip", "deflate", "br", "identity", "gzip, gzip"):
        extra = [("Content-Encoding", coding)]
        yield whole("audio", f"{coding} bomb", upload(bomb, "audio/wav", device(), auth, extra))
    while True:
        name, (container, data) = chance.choice(list(recordings.items()))
        applied = [chance.choice(DAMAGES) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
        for damage in applied:
            data = damage(chance, data) if data else data
        content_type = chance.choice(
            (TYPES[container], TYPES[container], None, *TYPES.values(), chance.choice(ODD_TYPES))
        )
        title = f"{name}: {', '.join(d.__name__ for d in applied) or 'whole'} as {content_type!r:.40}"
        yield whole("audio", title, upload(data, content_type, device(), auth))
