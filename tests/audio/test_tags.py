"""ID3 tags: they may stand before or inside a recording, and never cost what they claim to hold."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from server.audio.codec import decode_upload, encode_wav
from server.errors import AudioError
from tests.audio.test_codec import encoded, opus, pcm, tone

ROOT = Path(__file__).resolve().parent.parent.parent
RATE_HZ = 16_000
ALLOWED_MIB = 64
"""More than decoding needs, far less than the tags below unpack to."""


def seven_bits(number: int) -> bytes:
    return bytes((number >> shift) & 0x7F for shift in (21, 14, 7, 0))


def tag(frames: bytes, *, version: int = 4, flags: int = 0) -> bytes:
    footer = b"3DI" + bytes([version, 0, flags]) + seven_bits(len(frames)) if flags & 0x10 else b""
    return b"ID3" + bytes([version, 0, flags]) + seven_bits(len(frames)) + frames + footer


def frame(name: bytes, content: bytes, *, flags: int = 0, claims: int | None = None) -> bytes:
    if claims is not None:
        content = seven_bits(claims) + content
    return name + seven_bits(len(content)) + struct.pack(">H", flags) + content


def packed(name: bytes, megabytes: int, head: bytes = b"") -> bytes:
    """A compressed frame that unpacks to so much."""
    packer = zlib.compressobj(9)
    parts = [packer.compress(head), *(packer.compress(bytes(1 << 20)) for _ in range(megabytes)), packer.flush()]
    return frame(name, b"".join(parts), flags=0x0009, claims=len(head) + (megabytes << 20))


def inside_wav(chunk: bytes, content: bytes, *, before: bool) -> bytes:
    wav = encode_wav(pcm(tone(0.5)), RATE_HZ)
    tagged = chunk + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)
    inner = wav[12:36] + tagged + wav[36:] if before else wav[12:] + tagged
    return b"RIFF" + struct.pack("<I", 4 + len(inner)) + b"WAVE" + inner


TITLE = tag(frame(b"TIT2", b"\0a title"))
BOMB = tag(packed(b"PRIV", 200, b"x\0"))
RECORDINGS = {
    "mp3": encoded("mp3", "libmp3lame", tone(0.5)),
    "flac": encoded("flac", "flac", tone(0.5)),
    "wav": encode_wav(pcm(tone(0.5)), RATE_HZ),
    "opus": opus(tone(0.5)),
}


@pytest.mark.unit
@pytest.mark.parametrize("kind", RECORDINGS)
@pytest.mark.parametrize(
    "before", [TITLE, TITLE * 3, tag(b"", version=3), tag(bytes(300), version=2), tag(b"\0" * 20, flags=0x10)]
)
def test_a_tag_before_a_recording_changes_nothing(kind: str, before: bytes) -> None:
    bare = RECORDINGS[kind]
    expected = decode_upload(bare, None, max_seconds=2)
    np.testing.assert_array_equal(decode_upload(before + bare, None, max_seconds=2), expected)


@pytest.mark.unit
@pytest.mark.parametrize("chunk", [b"id3 ", b"ID3 "])
@pytest.mark.parametrize("before", [True, False])
def test_a_tag_inside_a_wav_changes_nothing(chunk: bytes, before: bool) -> None:
    decoded = decode_upload(inside_wav(chunk, TITLE, before=before), None, max_seconds=2)
    np.testing.assert_array_equal(decoded, decode_upload(RECORDINGS["wav"], None, max_seconds=2))


@pytest.mark.unit
@pytest.mark.parametrize("data", [TITLE, TITLE[:12], b"ID3\4\0\0\x7f\x7f\x7f\x7f", tag(b"") + b"noise" * 40])
def test_a_tag_without_a_recording_is_invalid(data: bytes) -> None:
    with pytest.raises(AudioError) as caught:
        decode_upload(data, None, max_seconds=1)
    assert caught.value.code in ("audio_invalid", "audio_empty")


MEASURE = """
import resource, sys
from server.audio.codec import decode_upload
from server.errors import AudioError
data = sys.stdin.buffer.read()
decode_upload(b"\\0\\0" * 16000, "audio/pcm", max_seconds=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decode_upload(data, None, max_seconds=60)
except AudioError:
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the peak memory differs")
@pytest.mark.parametrize(
    "data",
    [
        BOMB + RECORDINGS["mp3"],
        BOMB * 2 + RECORDINGS["mp3"],
        TITLE + BOMB + RECORDINGS["flac"],
        BOMB + RECORDINGS["wav"],
        tag(packed(b"APIC", 200, b"\0image/png\0\3\0")),
        tag(packed(b"TXXX", 200, b"\0")) + RECORDINGS["mp3"],
        inside_wav(b"id3 ", BOMB, before=True),
        inside_wav(b"ID3 ", BOMB, before=False),
        inside_wav(b"id3 ", BOMB, before=True).replace(b"RIFF", b"RIFX", 1),
    ],
    ids=["mp3", "two", "flac", "wav", "picture", "text", "before samples", "after samples", "big-endian"],
)
def test_a_tag_that_unpacks_to_200_megabytes_is_never_unpacked(data: bytes) -> None:
    assert len(data) < 1_000_000
    done = subprocess.run([sys.executable, "-c", MEASURE], input=data, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) < ALLOWED_MIB
