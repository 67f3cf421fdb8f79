"""Between encoded audio and samples: what was uploaded becomes an utterance, what was spoken becomes WAV or Ogg-Opus.

Decoding takes bytes from strangers. Only four demuxers and their own codecs can be reached, always from memory, and
decoding stops as soon as the audio is longer than allowed, so that a small file cannot become a large array. This
module does not know HTTP, models or turns.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal

import av
import numpy as np
from numpy.typing import NDArray

from server.audio.resample import StreamResampler
from server.errors import AudioError
from server.events import ASR_SAMPLE_RATE_HZ, Pcm16, Samples

Container = Literal["wav", "flac", "ogg", "mp3"]

_CODECS_OF_CONTAINER: dict[Container, tuple[str, ...]] = {
    "wav": ("pcm_",),
    "flac": ("flac",),
    "ogg": ("opus", "libopus"),
    "mp3": ("mp3", "mp3float"),
}
_CONTAINER_OF_TYPE: dict[str, Container] = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/ogg": "ogg",
    "audio/opus": "ogg",
    "application/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_RAW_TYPES = ("audio/pcm", "audio/l16")
_DEFAULT_RAW_RATE_HZ = 16_000
_MIN_RATE_HZ, _MAX_RATE_HZ = 4_000, 384_000
_MAX_CHANNELS = 8
_MAX_READ_FAILURES = 8
"""Unreadable packets in a row before the rest of a file is given up."""

# A tag as the demuxers know it; its size is four times seven bits.
_ID3_HEADER = re.compile(rb"ID3[^\xff][^\xff](.)([\0-\x7f]{4})", re.DOTALL)
_ID3_HEADER_BYTES = 10
_ID3_FOOTER = 0x10
_MAX_RIFF_CHUNKS = 200
_MAX_FORMAT_BYTES = 1_024

ACCEPTED_FORMATS = "WAV, FLAC, Ogg-Opus, MP3, or raw 16-bit little-endian PCM as audio/pcm;rate=16000"

_UNKNOWN_LENGTH = 0xFFFFFFFF
_WAV_HEADER_BYTES = 44

OPUS_SAMPLE_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)


# --- decoding -----------------------------------------------------------------------------------------------------


def decode_upload(data: bytes, content_type: str | None, *, max_seconds: float) -> Samples:
    """Turn one uploaded recording into float32 mono samples in [-1, 1] at 16 kHz, shape (n,), n > 0.

    `content_type` decides raw PCM: `audio/pcm` and `audio/L16`, both 16-bit **little-endian** here (RFC 2586 says
    big-endian for L16, its users seldom do), with `rate` (default 16000) and `channels` (default 1). WAV, FLAC,
    Ogg-Opus and MP3 are known by their first bytes (after any ID3 tag), whatever was declared; damage after the first
    good packet costs only what is damaged. Channels are averaged.

    Raises `AudioError`: `audio_unsupported` (a format or rate not taken here), `audio_invalid` (not what it claims to
    be, broken, or not numbers), `audio_empty` (no sample in it), `audio_too_long` (more than `max_seconds`).
    """
    if not data:
        raise AudioError("The upload has no bytes.", code="audio_empty", hint="Send the recording as the body.")
    media_type, parameters = _parse_content_type(content_type)
    intake = _Intake(max_seconds)
    if media_type in _RAW_TYPES:
        _decode_raw(data, parameters, intake)
    else:
        data, was_tagged = _without_id3(data)
        container = _sniff(data) or ("mp3" if was_tagged else _CONTAINER_OF_TYPE.get(media_type))
        if container is None:
            raise AudioError(
                f"Audio of the type {content_type!r} is not taken here.",
                code="audio_unsupported",
                hint=f"Send {ACCEPTED_FORMATS}.",
            )
        _decode_container(_only_sound(data) if container == "wav" else data, container, intake)
    return intake.finish()


class _Intake:
    """Collects mono pieces of one rate as 16 kHz, and refuses more than `max_seconds`."""

    def __init__(self, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        self._rate_hz = 0
        self._received = 0
        self._pieces: list[Samples] = []
        self._resampler: StreamResampler | None = None

    @property
    def received(self) -> int:
        return self._received

    def add(self, interleaved: NDArray[np.generic], rate_hz: int) -> None:
        """Take samples of any numeric type, shape (n, channels)."""
        if self._resampler is None:
            if not _MIN_RATE_HZ <= rate_hz <= _MAX_RATE_HZ:
                raise AudioError(
                    f"A sample rate of {rate_hz} Hz is not taken here.",
                    code="audio_unsupported",
                    hint=f"Use {_MIN_RATE_HZ} to {_MAX_RATE_HZ} Hz; 16000 is best.",
                )
            self._rate_hz = rate_hz
            self._resampler = StreamResampler(rate_hz, ASR_SAMPLE_RATE_HZ, np.float32)
        elif rate_hz != self._rate_hz:
            raise AudioError(f"The sample rate changes from {self._rate_hz} to {rate_hz} Hz inside the recording.")
        self._received += len(interleaved)
        if self._received > self._max_seconds * rate_hz:
            raise AudioError(
                f"The recording is longer than {self._max_seconds:g} seconds.",
                code="audio_too_long",
                hint="Send a shorter one.",
            )
        with np.errstate(over="ignore", invalid="ignore"):  # what is no number is refused just below
            mono = _to_float(interleaved).mean(axis=1, dtype=np.float32)
        if not np.isfinite(mono).all():
            raise AudioError("The recording holds values that are not numbers (NaN or infinity).")
        self._pieces.append(self._resampler.push(mono))

    def finish(self) -> Samples:
        if self._resampler is not None:
            self._pieces.append(self._resampler.finish())
        samples = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.float32)
        if len(samples) == 0:
            raise AudioError("The recording holds no samples.", code="audio_empty", hint="Was the microphone on?")
        return np.clip(samples, -1.0, 1.0)


def _to_float(samples: NDArray[np.generic]) -> Samples:
    """Full scale becomes 1.0; 8-bit WAV is unsigned, everything wider is signed."""
    if samples.dtype == np.uint8:
        return (samples.astype(np.float32) - 128.0) / 128.0
    if np.issubdtype(samples.dtype, np.integer):
        return samples.astype(np.float32) / np.float32(2 ** (8 * samples.dtype.itemsize - 1))
    return samples.astype(np.float32)  # a float64 beyond float32 becomes infinity, which `_Intake` refuses


def _parse_content_type(content_type: str | None) -> tuple[str, dict[str, str]]:
    """The media type and its parameters, names in lower case."""
    media_type, *rest = (content_type or "").split(";")
    pairs = (item.partition("=") for item in rest)
    return media_type.strip().lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _sniff(data: bytes) -> Container | None:
    head = data[:12]
    if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE":
        return "wav"
    if head[:4] == b"fLaC":
        return "flac"
    if head[:4] == b"OggS":
        return "ogg"
    # An MPEG audio frame: sync, a version that is not reserved, layer III (layer 0 would be AAC in ADTS).
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2 and head[1] & 0x18 != 0x08:
        return "mp3"
    return None


def _without_id3(data: bytes) -> tuple[bytes, bool]:
    """The recording without the ID3v2 tags before it, and whether there was one.

    A tag says nothing about the sound, and its frames may be compressed: FFmpeg unpacks 200 kB to 200 MB, many times
    in one upload.
    """
    start = 0
    while found := _ID3_HEADER.match(data, start):
        flags, size = found[1][0], 0
        for seven_bits in found[2]:
            size = size << 7 | seven_bits
        start += _ID3_HEADER_BYTES + size + (_ID3_HEADER_BYTES if flags & _ID3_FOOTER else 0)
    return data[start:], start > 0


def _only_sound(wav: bytes) -> bytes:
    """A WAV file reduced to its format and its first samples, with sizes that are true.

    Every other chunk is left out: FFmpeg reserves and clears whatever a title claims to need (1.4 GB for 13 kB), and
    unpacks ID3 tags here too.
    """
    if wav[:4] == b"RIFX":  # FFmpeg would read its samples the wrong way round
        raise AudioError(
            "Big-endian WAV is not taken here.", code="audio_unsupported", hint=f"Send {ACCEPTED_FORMATS}."
        )
    kept = [b"RIFF", b"\xff\xff\xff\xff", wav[8:12]]
    position = 12
    for _ in range(_MAX_RIFF_CHUNKS):
        name, start = wav[position : position + 4], position + 8
        size = int.from_bytes(wav[position + 4 : start], "little")
        if name == b"data":
            # A stream says 0, or all bits set: then everything that follows is sound.
            content = wav[start : start + size] if 0 < size < _UNKNOWN_LENGTH else wav[start:]
            return b"".join([*kept, name, len(content).to_bytes(4, "little"), content])
        if name == b"fmt ":
            content = wav[start : min(start + size, start + _MAX_FORMAT_BYTES)]
            kept += [name, len(content).to_bytes(4, "little"), content, b"\0" * (len(content) % 2)]
        position = start + size + size % 2
        if position >= len(wav):
            break
    return b"".join(kept)


def _decode_raw(data: bytes, parameters: dict[str, str], intake: _Intake) -> None:
    rate_hz = _whole_number(parameters, "rate", _DEFAULT_RAW_RATE_HZ)
    channels = _whole_number(parameters, "channels", 1)
    if not 1 <= channels <= _MAX_CHANNELS:
        raise AudioError(f"Raw audio with {channels} channels is not taken here.", code="audio_unsupported")
    if len(data) % (2 * channels):
        raise AudioError(
            f"{len(data)} bytes are not a whole number of 16-bit samples in {channels} channel(s).",
            hint="Send whole little-endian 16-bit samples.",
        )
    intake.add(np.frombuffer(data, "<i2").reshape(-1, channels), rate_hz)


def _whole_number(parameters: dict[str, str], name: str, default: int) -> int:
    text = parameters.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise AudioError(
            f"`{name}={text}` in the content type is not a whole number.",
            code="audio_unsupported",
            hint="Write audio/pcm;rate=16000;channels=1.",
        )
    return int(text)


def _decode_container(data: bytes, container: Container, intake: _Intake) -> None:
    try:
        with av.open(io.BytesIO(data), mode="r", format=container, metadata_errors="ignore") as opened:
            if not opened.streams.audio:
                raise AudioError(f"There is no audio in this {container.upper()} file.")
            stream = opened.streams.audio[0]
            context: av.AudioCodecContext | None = stream.codec_context  # None: FFmpeg has no decoder for it
            codec = context.name if context is not None else "An unknown codec"
            if not codec.startswith(_CODECS_OF_CONTAINER[container]):
                raise AudioError(
                    f"{codec} inside {container.upper()} is not taken here.",
                    code="audio_unsupported",
                    hint=f"Send {ACCEPTED_FORMATS}.",
                )
            for frame in _frames(opened, stream):
                intake.add(_interleave(frame), frame.sample_rate)
    except (av.FFmpegError, MemoryError) as error:  # a header that lies may ask for an impossible allocation
        if intake.received == 0:
            raise AudioError(
                f"The recording cannot be read as {container.upper()}: {getattr(error, 'strerror', error)}.",
                hint="It may be cut short or damaged; record it again.",
            ) from error


def _frames(opened: av.container.InputContainer, stream: av.AudioStream) -> Iterator[av.AudioFrame]:
    """Every frame that decodes; a bad packet in the middle is skipped, as players do."""
    for packet in _packets(opened, stream):
        if packet.size == 0:  # an empty Opus packet would put the decoder at its end for good
            continue
        try:
            yield from stream.decode(packet)
        except av.InvalidDataError:
            continue
    yield from stream.decode(None)


def _packets(opened: av.container.InputContainer, stream: av.AudioStream) -> Iterator[av.Packet[av.AudioStream]]:
    """Every packet that can be read; the Ogg demuxer reports an empty one as an error and can go on."""
    failures = 0
    while failures < _MAX_READ_FAILURES:
        try:
            for packet in opened.demux(stream):
                failures = 0
                yield packet
            return
        except av.InvalidDataError:
            failures += 1


def _interleave(frame: av.AudioFrame) -> NDArray[np.generic]:
    """Samples of a frame, shape (n, channels)."""
    channels = frame.layout.nb_channels
    if channels > _MAX_CHANNELS:
        raise AudioError(f"Audio with {channels} channels is not taken here.", code="audio_unsupported")
    try:
        samples = frame.to_ndarray()
    except ValueError as error:
        raise AudioError(f"{frame.format.name} samples are not taken here.", code="audio_unsupported") from error
    return samples.T if frame.format.is_planar else samples.reshape(-1, channels)


# --- encoding -----------------------------------------------------------------------------------------------------


def wav_header(sample_rate_hz: int, data_bytes: int | None) -> bytes:
    """The 44 bytes before 16-bit mono samples; None: the length is not known yet (a stream)."""
    known = data_bytes is not None and data_bytes <= _UNKNOWN_LENGTH - _WAV_HEADER_BYTES
    size = data_bytes if data_bytes is not None and known else _UNKNOWN_LENGTH
    riff_size = size + _WAV_HEADER_BYTES - 8 if known else _UNKNOWN_LENGTH
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", riff_size, b"WAVE", b"fmt ", 16, 1, 1, sample_rate_hz, sample_rate_hz * 2, 2, 16, b"data", size,
    )  # fmt: skip


def encode_wav(samples: Pcm16, sample_rate_hz: int) -> bytes:
    """A whole WAV file of int16 mono samples, shape (n,)."""
    data = samples.astype("<i2", copy=False).tobytes()
    return wav_header(sample_rate_hz, len(data)) + data


class _Sink:
    """A file that the muxer writes to and the encoder empties."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


class OggOpusEncoder:
    """Turns int16 mono pieces into an Ogg-Opus stream as they come; a page leaves every 0.2 s of audio.

    `sample_rate_hz`: one of `OPUS_SAMPLE_RATES_HZ`. Raises `ValueError` for another. Not for two threads at once.
    """

    _PAGE_MICROSECONDS = 200_000

    def __init__(self, sample_rate_hz: int, *, bit_rate: int = 32_000) -> None:
        if sample_rate_hz not in OPUS_SAMPLE_RATES_HZ:
            raise ValueError(f"Opus has no sample rate of {sample_rate_hz} Hz; use one of {OPUS_SAMPLE_RATES_HZ}.")
        self._rate_hz = sample_rate_hz
        self._sink = _Sink()
        self._output = av.open(
            self._sink, mode="w", format="ogg", options={"page_duration": str(self._PAGE_MICROSECONDS)}
        )
        self._stream = self._output.add_stream(
            "libopus", rate=sample_rate_hz, layout="mono", bit_rate=bit_rate, options={"application": "voip"}
        )
        self._position = 0
        self._finished = False

    def push(self, samples: Pcm16) -> bytes:
        """Bytes that are ready after these samples, shape (n,); may be empty."""
        if self._finished:
            raise ValueError("This stream is finished; make a new encoder.")
        if len(samples):
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None, :], format="s16", layout="mono")
            frame.sample_rate = self._rate_hz
            frame.pts = self._position
            frame.time_base = Fraction(1, self._rate_hz)
            self._position += len(samples)
            self._output.mux(self._stream.encode(frame))
        return self._sink.take()

    def finish(self) -> bytes:
        """The last bytes. Calling it again gives none."""
        if not self._finished:
            self._finished = True
            self._output.start_encoding()  # writes the headers even when no sample ever came
            self._output.mux(self._stream.encode(None))
            self._output.close()
        return self._sink.take()
