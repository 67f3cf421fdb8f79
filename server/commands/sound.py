"""The microphone and loudspeaker of this computer, through PortAudio when it is there.

Sound in: int16 mono WAV bytes. Sound out: the WAV bytes of an answer. Knows no server and draws nothing: the caller
hears the level and says when to stop.
"""

from __future__ import annotations

import io
import json
import queue
import subprocess
import sys
import wave
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from server.commands.failures import SoundError
from server.errors import StackChanError

RECORD_RATE_HZ = 16_000
"""Tried first; a microphone that refuses it is opened at its own rate, and the WAV says which."""
MAX_RECORDING_SECONDS = 30.0
SILENT_LEVEL_DB = -60.0
_BLOCK_SECONDS = 0.05
_PROBE_TIMEOUT_SECONDS = 10.0
_INSTALL_HINT = (
    "For a microphone and loudspeaker at this computer install PortAudio (Debian, Ubuntu: sudo apt-get install "
    "libportaudio2). Files and typed text work without it."
)


@dataclass(frozen=True, slots=True)
class SoundDevices:
    """The names of the default devices; None where there is none. `problem`: why PortAudio itself is missing."""

    microphone: str | None = None
    loudspeaker: str | None = None
    problem: str | None = None


def load_portaudio() -> Any:
    """The `sounddevice` module. Raises `SoundError` when its library is not on this machine."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise SoundError(f"PortAudio cannot be used: {error}.", hint=_INSTALL_HINT) from error
    return sounddevice


def find_devices(portaudio: Any | None = None) -> SoundDevices:
    """What this computer has, asked in this process; see `DeviceProbe`."""
    try:
        library = portaudio or load_portaudio()
    except SoundError as error:
        return SoundDevices(problem=error.message)
    return SoundDevices(microphone=_default_name(library, "input"), loudspeaker=_default_name(library, "output"))


class DeviceProbe:
    """Looks for devices in a process of its own, beginning at once.

    A sound system that is set up wrongly aborts the whole process that asks, and one without hardware fills the
    terminal with its library's own complaints.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "server.commands.sound"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def result(self) -> SoundDevices:
        """What was found; never raises. May be called once."""
        try:
            output, _ = self._process.communicate(timeout=_PROBE_TIMEOUT_SECONDS)
            return SoundDevices(**json.loads(output))
        except (subprocess.TimeoutExpired, ValueError, TypeError):
            return SoundDevices(problem="The sound system of this computer does not work.")
        finally:
            self.close()

    def close(self) -> None:
        """End the process when nobody wants to know any more."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def record(
    should_stop: Callable[[], bool],
    on_level: Callable[[float, float], None],
    *,
    portaudio: Any | None = None,
    max_seconds: float = MAX_RECORDING_SECONDS,
) -> bytes:
    """Record until `should_stop()` or `max_seconds`: WAV bytes, int16 mono.

    `on_level(seconds, decibels)` hears the peak of each block in dBFS, never under -60. Raises `SoundError`.
    """
    library = portaudio or load_portaudio()
    blocks: queue.Queue[bytes] = queue.Queue()

    def received(block: Any, frames: int, time: Any, status: Any) -> None:
        blocks.put(bytes(block))

    stream, rate_hz = _open_microphone(library, received)
    recorded = bytearray()
    with stream:
        while not should_stop() and _seconds(recorded, rate_hz) < max_seconds:
            try:
                block = blocks.get(timeout=2.0)
            except queue.Empty:
                raise SoundError(
                    "The microphone gives no sound.", hint="Is it unplugged, muted or used by another program?"
                ) from None
            recorded += block
            on_level(_seconds(recorded, rate_hz), level_db(block))
    return wav_bytes(bytes(recorded[: int(max_seconds * rate_hz) * 2]), rate_hz)


def play(wav: bytes, *, portaudio: Any | None = None) -> None:
    """Play a WAV file to its end through the default loudspeaker. Raises `SoundError`."""
    library = portaudio or load_portaudio()
    samples, rate_hz, channels = read_wav(wav)
    block_bytes = int(rate_hz * _BLOCK_SECONDS) * 2 * channels
    try:
        # Small blocks let Ctrl-C stop the sound at once.
        with library.RawOutputStream(samplerate=rate_hz, channels=channels, dtype="int16") as stream:
            for offset in range(0, len(samples), block_bytes):
                stream.write(samples[offset : offset + block_bytes])
    except library.PortAudioError as error:
        raise SoundError(f"The loudspeaker cannot be used: {error}.") from error


def read_wav(wav: bytes) -> tuple[bytes, int, int]:
    """int16 little-endian samples, their rate in Hz and channels. Raises `StackChanError` for anything else."""
    try:
        with wave.open(io.BytesIO(wav)) as file:
            if file.getsampwidth() != 2:
                raise wave.Error(f"{file.getsampwidth() * 8} bits a sample")
            rate_hz, channels = file.getframerate(), file.getnchannels()
            samples = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise StackChanError(
            f"The answer's sound is not a 16-bit WAV file ({error}).", code="answer_invalid"
        ) from error
    return samples[: len(samples) - len(samples) % (2 * channels)], rate_hz, channels


def wav_bytes(samples: bytes, rate_hz: int) -> bytes:
    """A WAV file of int16 mono samples."""
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(samples)
    return target.getvalue()


def level_db(block: bytes) -> float:
    """The peak of int16 samples in dBFS, from -60 (or less) to 0."""
    import numpy as np

    samples = np.frombuffer(block[: len(block) - len(block) % 2], dtype="<i2").astype(np.int32)
    peak = int(np.abs(samples).max()) if samples.size else 0
    return float(max(SILENT_LEVEL_DB, 20 * np.log10(max(peak, 1) / 32768)))


def _open_microphone(library: Any, received: Callable[[Any, int, Any, Any], None]) -> tuple[Any, int]:
    problem: Exception | None = None
    for rate_hz in (RECORD_RATE_HZ, _own_rate_hz(library)):
        try:
            stream = library.RawInputStream(
                samplerate=rate_hz,
                channels=1,
                dtype="int16",
                blocksize=int(rate_hz * _BLOCK_SECONDS),
                callback=received,
            )
        except (library.PortAudioError, ValueError) as error:
            problem = error
        else:
            return stream, rate_hz
    raise SoundError(f"The microphone cannot be used: {problem}.") from problem


def _own_rate_hz(library: Any) -> int:
    try:
        return int(library.query_devices(kind="input")["default_samplerate"])
    except (library.PortAudioError, ValueError):
        return RECORD_RATE_HZ


def _default_name(library: Any, kind: str) -> str | None:
    try:
        return str(library.query_devices(kind=kind)["name"])
    except (library.PortAudioError, ValueError):
        return None


def _seconds(recorded: bytearray, rate_hz: int) -> float:
    return len(recorded) / (2 * rate_hz)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(find_devices())))
