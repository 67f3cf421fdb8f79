"""Sound that arrives in pieces, as WAV or raw PCM, turned into int16 mono as it comes.

Sizes of a header are believed only where they can be true: a stream says 0 or all bits set. Pieces may end anywhere,
also within a sample. This module does not know where the bytes come from; whole recordings are `codec`'s.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from server.errors import AudioError
from server.events import Pcm16

_MIN_RATE_HZ, _MAX_RATE_HZ = 4_000, 192_000
_MAX_CHANNELS = 8
_MAX_HEADER_BYTES = 64 * 1024
_MAX_FORMAT_BYTES = 1_024
# Streams also write the largest size a signed number can have, less their header.
_UNKNOWN_FROM = 0x7FFF_0000
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_SUBFORMAT = slice(24, 26)
_WIDTHS = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}


class PcmStream:
    """Raw little-endian samples. `bits`: 8 (unsigned), 16, 24 or 32; `floating`: 32 or 64; channels are averaged."""

    def __init__(self, sample_rate_hz: int, channels: int = 1, bits: int = 16, *, floating: bool = False) -> None:
        self.sample_rate_hz = sample_rate_hz
        self._channels = channels
        self._width = bits // 8
        self._floating = floating
        self._rest = b""

    def push(self, data: bytes) -> Pcm16:
        """The samples that are whole after `data`, int16, shape (n,); n may be 0."""
        data = self._rest + data
        whole = len(data) - len(data) % (self._width * self._channels)
        self._rest = data[whole:]
        return self._mono(data[:whole])

    def _mono(self, data: bytes) -> Pcm16:
        if not self._floating and self._width == 2 and self._channels == 1:
            plain: Pcm16 = np.frombuffer(data, "<i2").astype(np.int16)
            return plain
        scaled = self._full_scale(data).reshape(-1, self._channels).mean(axis=1)
        pcm: Pcm16 = np.round(np.clip(np.nan_to_num(scaled), -1.0, 1.0) * 32767.0).astype(np.int16)
        return pcm

    def _full_scale(self, data: bytes) -> NDArray[np.float64]:
        """Full scale is 1.0."""
        if self._floating:
            return np.frombuffer(data, f"<f{self._width}").astype(np.float64)
        if self._width == 1:
            return (np.frombuffer(data, np.uint8).astype(np.float64) - 128.0) / 128.0
        if self._width == 3:
            wide = np.zeros((len(data) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            return wide.reshape(-1).view("<i4").astype(np.float64) / 2.0**31
        return np.frombuffer(data, f"<i{self._width}").astype(np.float64) / 2.0 ** (8 * self._width - 1)


class WavStream:
    """A WAV file in pieces. `sample_rate_hz`: None until its header is read."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._format: PcmStream | None = None
        self._samples: PcmStream | None = None
        self._left_bytes: int | None = None
        """Of the samples; None: all that follows is sound."""

    @property
    def sample_rate_hz(self) -> int | None:
        return self._samples.sample_rate_hz if self._samples is not None else None

    def push(self, data: bytes) -> Pcm16:
        """The samples that are whole after `data`, int16 mono, shape (n,); n may be 0.

        Raises `AudioError`: `audio_invalid` (no WAV file) or `audio_unsupported` (compressed, big-endian, an odd rate).
        """
        if self._samples is None:
            self._header += data
            found = self._read_header()
            if found is None:
                return np.zeros(0, np.int16)
            data = found
        assert self._samples is not None
        if self._left_bytes is not None:  # what follows the samples is no sound
            data = data[: self._left_bytes]
            self._left_bytes -= len(data)
        return self._samples.push(data)

    def finish(self) -> None:
        """Nothing follows. Raises `AudioError` (`audio_invalid`) when the file has no samples' chunk, or is cut."""
        if self._samples is None:
            raise AudioError("The WAV file ends before its sound.")
        if self._left_bytes:
            raise AudioError("The WAV file is cut: its header promises more sound.")

    def _read_header(self) -> bytes | None:
        """What follows the header; None while it is not whole."""
        header = bytes(self._header)
        if not b"RIFF".startswith(header[:4]) or (len(header) >= 12 and header[8:12] != b"WAVE"):
            raise AudioError("This is no WAV file.")
        position = 12
        while len(header) >= position + 8:
            name, size = header[position : position + 4], int.from_bytes(header[position + 4 : position + 8], "little")
            start = position + 8
            if name == b"data":
                if self._format is None:
                    raise AudioError("The WAV file has samples without a format.")
                self._samples, self._header = self._format, bytearray()
                self._left_bytes = size if 0 < size < _UNKNOWN_FROM else None
                return header[start:]
            if name == b"fmt ":
                if len(header) < start + size and size <= _MAX_FORMAT_BYTES:
                    break
                self._format = _format_of(header[start : start + size])
            position = start + size + size % 2
        if max(position, len(header)) > _MAX_HEADER_BYTES:
            raise AudioError("The WAV file has no sound near its beginning.")
        return None


def _format_of(chunk: bytes) -> PcmStream:
    if len(chunk) < 16:
        raise AudioError("The WAV file's format is cut.")
    tag, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE and len(chunk) >= _SUBFORMAT.stop:
        tag = int.from_bytes(chunk[_SUBFORMAT], "little")
    if bits not in _WIDTHS.get(tag, ()):
        raise _unsupported(f"WAV of the kind {tag} with {bits} bits")
    if not 1 <= channels <= _MAX_CHANNELS:
        raise _unsupported(f"WAV with {channels} channels")
    if not _MIN_RATE_HZ <= rate_hz <= _MAX_RATE_HZ:
        raise _unsupported(f"WAV of {rate_hz} Hz")
    return PcmStream(rate_hz, channels, bits, floating=tag == _FLOAT)


def _unsupported(what: str) -> AudioError:
    return AudioError(f"{what} is not taken here.", code="audio_unsupported", hint="Ask for 16-bit PCM.")
