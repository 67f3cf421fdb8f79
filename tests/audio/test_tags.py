"""What else a recording holds beside sound (tags, titles, other chunks) changes nothing and costs nothing."""

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


def lying_title(size: int, *, before: bool = True) -> bytes:
    """A WAV whose software title, and the list it stands in, claim to be so long."""
    wav = encode_wav(pcm(tone(0.5)), RATE_HZ)
    title = b"LIST" + struct.pack("<I", min(size + 12, 0xFFFFFFFF)) + b"INFOISFT" + struct.pack("<I", size) + b"Lavf62"
    inner = wav[12:36] + title + wav[36:] if before else wav[12:] + title
    return b"RIFF" + struct.pack("<I", 0xFFFFFFF0) + b"WAVE" + inner


@pytest.mark.unit
@pytest.mark.parametrize(
    ("chunk", "content"),
    [
        (b"LIST", b"INFOISFT" + struct.pack("<I", 4) + b"abc\0"),
        (b"bext", bytes(602)),
        (b"fact", struct.pack("<I", 8_000)),
        (b"junk", b"data" * 25),
        (b"\xff\0\xff\0", b"odd"),
        (b"LIST", b""),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_other_chunks_of_a_wav_change_nothing(chunk: bytes, content: bytes, before: bool) -> None:
    decoded = decode_upload(inside_wav(chunk, content, before=before), None, max_seconds=2)
    np.testing.assert_array_equal(decoded, decode_upload(RECORDINGS["wav"], None, max_seconds=2))


@pytest.mark.unit
def test_the_64_bit_form_of_wav_is_read() -> None:
    wav = RECORDINGS["wav"]
    sizes = b"ds64" + struct.pack("<IQQQI", 28, len(wav) + 28, len(wav) - 44, 8_000, 0)
    big = b"RF64\xff\xff\xff\xffWAVE" + sizes + wav[12:36] + b"data\xff\xff\xff\xff" + wav[44:]
    np.testing.assert_array_equal(decode_upload(big, None, max_seconds=2), decode_upload(wav, None, max_seconds=2))


@pytest.mark.unit
def test_the_big_endian_form_of_wav_is_refused() -> None:
    """FFmpeg would read its samples the wrong way round, which is loud noise."""
    form = struct.pack(">HHIIHH", 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
    sound = pcm(tone(0.5)).astype(">i2").tobytes()
    chunks = b"fmt " + struct.pack(">I", 16) + form + b"data" + struct.pack(">I", len(sound)) + sound
    with pytest.raises(AudioError) as caught:
        decode_upload(b"RIFX" + struct.pack(">I", 4 + len(chunks)) + b"WAVE" + chunks, None, max_seconds=2)
    assert caught.value.code == "audio_unsupported"


@pytest.mark.unit
@pytest.mark.parametrize(
    "data",
    [
        RECORDINGS["wav"][:12] + b"junk\0\0\0\0" * 500_000 + RECORDINGS["wav"][12:],
        RECORDINGS["wav"][:36],
        RECORDINGS["wav"][:12],
        RECORDINGS["wav"][:12] + RECORDINGS["wav"][36:],
        RECORDINGS["wav"][:16] + b"\xff\xff\xff\xff" + RECORDINGS["wav"][20:],
    ],
    ids=["half a million chunks", "no samples", "no chunk", "no format", "a format without end"],
)
def test_a_wav_whose_chunks_lead_nowhere_is_invalid(data: bytes) -> None:
    with pytest.raises(AudioError) as caught:
        decode_upload(data, None, max_seconds=2)
    assert caught.value.code in ("audio_invalid", "audio_empty")


@pytest.mark.unit
def test_opposite_infinities_are_no_sound() -> None:
    pair = np.array([np.inf, -np.inf] * 100, "<f4").tobytes()
    form = struct.pack("<HHIIHH", 3, 2, RATE_HZ, 8 * RATE_HZ, 8, 32)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(pair)) + pair
    with pytest.raises(AudioError, match="not numbers"):
        decode_upload(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks, None, max_seconds=2)


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
        lying_title(1_400_000_000),
        lying_title(1_400_000_000, before=False),
        lying_title(0x7FFFFFFF),
        lying_title(0xFFFFFFF0),
        encode_wav(pcm(tone(0.5)), RATE_HZ).replace(b"fmt \x10\0\0\0", b"fmt \x10\0\0\x70"),
    ],
    ids=[
        *("mp3", "two", "flac", "wav", "picture", "text", "before samples", "after samples"),
        *("title", "title after", "title of 2 GB", "title of 4 GB", "format"),
    ],
)
def test_what_is_no_sound_takes_no_memory(data: bytes) -> None:
    assert len(data) < 1_000_000
    done = subprocess.run([sys.executable, "-c", MEASURE], input=data, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) < ALLOWED_MIB
