"""The part of `sounddevice` the command line uses, with a microphone that plays back what it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FakePortAudio:
    """`heard`: int16 bytes the microphone delivers, block by block; then it is still open and silent (or stuck)."""

    class PortAudioError(Exception):
        pass

    def __init__(
        self,
        *,
        microphone: str | None = None,
        loudspeaker: str | None = None,
        heard: bytes = b"",
        refused_rates_hz: tuple[int, ...] = (),
        stuck: bool = False,
    ) -> None:
        self._names = {"input": microphone, "output": loudspeaker}
        self.heard = heard
        self.refused_rates_hz = refused_rates_hz
        self.stuck = stuck
        self.input_rate_hz = 0
        self.output_rate_hz = 0
        self.played = b""

    @property
    def played_seconds(self) -> float:
        return len(self.played) / 2 / self.output_rate_hz

    def query_devices(self, *, kind: str) -> dict[str, Any]:
        name = self._names[kind]
        if name is None:
            raise self.PortAudioError("no default device")
        return {"name": name, "default_samplerate": 48_000.0}

    def RawInputStream(
        self, *, samplerate: int, channels: int, dtype: str, blocksize: int, callback: Callable[..., None]
    ) -> Any:
        if samplerate in self.refused_rates_hz:
            raise self.PortAudioError("Invalid sample rate")
        assert (channels, dtype) == (1, "int16")
        self.input_rate_hz = samplerate
        return _Input(self, blocksize * 2, callback)

    def RawOutputStream(self, *, samplerate: int, channels: int, dtype: str) -> Any:
        if self._names["output"] is None:
            raise self.PortAudioError("no device")
        assert (channels, dtype) == (1, "int16")
        self.output_rate_hz = samplerate
        return _Output(self)


class _Input:
    def __init__(self, owner: FakePortAudio, block_bytes: int, callback: Callable[..., None]) -> None:
        self._owner, self._block_bytes, self._callback = owner, block_bytes, callback

    def __enter__(self) -> _Input:
        if not self._owner.stuck:
            heard = self._owner.heard
            for offset in range(0, len(heard), self._block_bytes):
                block = heard[offset : offset + self._block_bytes]
                self._callback(memoryview(block), len(block) // 2, None, None)
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Output:
    def __init__(self, owner: FakePortAudio) -> None:
        self._owner = owner

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, samples: bytes) -> None:
        self._owner.played += samples
