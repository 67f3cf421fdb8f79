"""A robot made of software that speaks the native protocol in real time: for `simulate`, benchmarks and tests.

Plays what it gets as a loudspeaker would, in real time from a queue, tells how much it has played, and notes when
things happened. Speaks the sound it is given; knows no microphone and no server but through its socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from server.audio.frames import FrameCutter
from server.audio.resample import resample
from server.audio.stream_intake import StreamIntake
from server.commands.trust import trusting
from server.devices.intake_limits import audio_ms
from server.devices.native_client import decode_server, encode_device
from server.devices.wire import (
    Abort,
    AudioFormat,
    AudioFrame,
    Capabilities,
    Command,
    CommandResult,
    DeviceHello,
    FromDevice,
    Ignored,
    ListenMode,
    ListenStart,
    ListenStop,
    Played,
    ServerHello,
    SpeechFrame,
    SpeechStart,
    SpeechStop,
    ToDevice,
)
from server.events import ASR_SAMPLE_RATE_HZ, Pcm16, Samples

Wanted = TypeVar("Wanted", bound=ToDevice)

_ACKNOWLEDGE_SECONDS = 0.5
MICROPHONE = AudioFormat("pcm16", ASR_SAMPLE_RATE_HZ, 20)


@dataclass(slots=True)
class Loudspeaker:
    """Plays frames one after another. Times are monotonic seconds."""

    queued_ms: float = 0.0
    dry_at: float = 0.0
    underruns: int = 0
    """How often it ran empty in the middle of a speech."""
    silent_since: float | None = None

    def start(self) -> None:
        self.queued_ms, self.dry_at, self.silent_since = 0.0, 0.0, None

    def take(self, ms: float, now: float) -> None:
        if self.queued_ms and now > self.dry_at + 0.001:
            self.underruns += 1
        self.dry_at = max(self.dry_at, now) + ms / 1000
        self.queued_ms += ms

    def stop(self, now: float) -> None:
        self.queued_ms = self.played_ms(now)
        self.dry_at = min(self.dry_at, now)
        self.silent_since = self.dry_at

    def played_ms(self, now: float) -> float:
        return self.queued_ms - max(0.0, self.dry_at - now) * 1000


@dataclass(slots=True)
class SimulatedRobot:
    """One robot. Use it as `async with SimulatedRobot(url, token, "desk") as robot:`."""

    url: str
    """Of the server: http://…"""
    token: str
    device_id: str
    microphone: AudioFormat = MICROPHONE
    voice: AudioFormat | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)
    session_label: str | None = None
    acknowledges: bool = True
    keeps_sound: bool = False
    """Keep what was heard, for whoever wants to listen to it."""
    certificate: str = ""
    """File of the one that the server shows; empty: none, or one that is trusted anyway."""
    monotonic: Callable[[], float] = time.perf_counter
    hello: ServerHello | None = None
    got: list[tuple[float, ToDevice]] = field(default_factory=list)
    """Everything but sound, with its time."""
    speaker: Loudspeaker = field(default_factory=Loudspeaker)
    volume_percent: int = 60
    muted: bool = False
    """Its microphone hears nothing."""
    sound: list[Samples] = field(default_factory=list)
    first_sound_at: float | None = None
    """When the first frame of the newest speech came."""
    speech_ended_at: float | None = None
    """When the last sample of what was said had been sent."""
    close_code: int | None = None
    _socket: ClientConnection | None = None
    _reader: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _turn_id: int = 0
    _recorded_until: float = 0.0
    """When its microphone's newest frame ended."""
    _heard: StreamIntake | None = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.disconnect()

    async def connect(self) -> ServerHello:
        """Connect and wait for the server's hello. Raises `ConnectionError` when it is not given."""
        address = self.url.replace("http", "ws", 1).rstrip("/") + "/v1/device"
        trust: dict[str, Any] = {"ssl": trusting(Path(self.certificate))} if self.certificate else {}
        headers = {"Authorization": f"Bearer {self.token}"}
        self._socket = await connect(address, additional_headers=headers, compression=None, proxy=None, **trust)
        self.close_code = None
        self._reader = asyncio.create_task(self._read(self._socket), name=f"robot-{self.device_id}")
        label = self.hello.session_id if self.hello is not None else self.session_label
        before = len(self.got)
        await self.send(
            DeviceHello(
                self.device_id,
                self.microphone,
                "simulated",
                self.capabilities,
                session_label=label,
                voice=self.voice,
            )
        )
        self.hello = await self.wait_for(ServerHello, since=before)
        self._heard = StreamIntake(self.hello.audio.format, self.hello.audio.sample_rate_hz)
        return self.hello

    async def disconnect(self, *, rudely: bool = False) -> None:
        """Hang up; `rudely`: without a word, as when the power goes."""
        socket, reader = self._socket, self._reader
        self._socket = self._reader = None
        if socket is not None:
            if rudely:
                socket.transport.abort()
            else:
                await socket.close()
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def send(self, message: FromDevice) -> None:
        assert self._socket is not None
        await self._socket.send(encode_device(message))

    async def listen(self, mode: ListenMode = "auto") -> None:
        await self.send(ListenStart(mode))

    async def stop_listening(self) -> None:
        await self.send(ListenStop())

    async def say(self, samples: Samples, *, end: bool = True) -> None:
        """Speak float32 mono at 16 kHz in real time. `end`: what follows is silence, so the clock starts here."""
        await self._stream(samples)
        if end:
            self.speech_ended_at = self.monotonic()

    async def be_quiet(self, seconds: float) -> None:
        """An open microphone in a quiet room."""
        await self._stream(np.zeros(round(seconds * ASR_SAMPLE_RATE_HZ), np.float32))

    async def be_quiet_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """The same until `done()`, or for so long: then False."""
        end = self.monotonic() + seconds
        while not done():
            if self.monotonic() >= end:
                return False
            await self.be_quiet(self.microphone.frame_ms / 1000)
        return True

    async def abort(self, reason: str = "touch") -> None:
        """Be silent and say so, as a robot that is touched."""
        now = self.monotonic()
        self.speaker.stop(now)
        await self.send(Abort(reason))
        if self.acknowledges and self._turn_id:
            await self.send(Played(self._turn_id, round(self.speaker.played_ms(now))))

    def messages(self, kind: type[Wanted], *, since: int = 0) -> list[Wanted]:
        """What came of one kind."""
        return [message for _, message in self.got[since:] if isinstance(message, kind)]

    async def wait_for(
        self,
        kind: type[Wanted],
        seconds: float = 30.0,
        *,
        since: int = 0,
        wanted: Callable[[Wanted], bool] = lambda message: True,
    ) -> Wanted:
        """The first message of a kind from place `since` on. Raises `TimeoutError`, `ConnectionError`."""
        async with asyncio.timeout(seconds):
            while True:
                self._changed.clear()
                for message in self.messages(kind, since=since):
                    if wanted(message):
                        return message
                if self._reader is None or self._reader.done():
                    raise ConnectionError(f"The server hung up with {self.close_code}.")
                await self._changed.wait()

    async def _stream(self, samples: Samples) -> None:
        """Frames of the microphone, one each frame time."""
        rate_hz, frame_ms = self.microphone.sample_rate_hz, self.microphone.frame_ms
        heard = np.zeros_like(samples) if self.muted else samples
        spoken: Pcm16 = np.round(np.clip(heard, -1, 1) * 32767).astype(np.int16)
        cutter = FrameCutter(self.microphone.format, rate_hz, frame_ms)
        frames = [*cutter.push(resample(spoken, ASR_SAMPLE_RATE_HZ, rate_hz)), *cutter.finish()]
        frame_seconds, now = frame_ms / 1000, self.monotonic()
        # A microphone has one clock: what follows at once begins where the frame before it ended.
        if now > self._recorded_until + frame_seconds:
            self._recorded_until = now
        for frame in frames:
            self._recorded_until += frame_seconds
            wait = self._recorded_until - self.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            await self.send(AudioFrame(frame))

    async def _read(self, socket: ClientConnection) -> None:
        ignored = Ignored()
        acknowledging = asyncio.create_task(self._acknowledge())
        try:
            async for frame in socket:
                message = decode_server(frame, ignored)
                if message is not None:
                    self._take(message)
                if isinstance(message, Command):
                    await self.send(self._obey(message))
        except ConnectionClosed:
            pass
        finally:
            self.close_code = socket.close_code
            acknowledging.cancel()
            self._changed.set()

    def _take(self, message: ToDevice) -> None:
        now = self.monotonic()
        if isinstance(message, SpeechFrame):
            assert self.hello is not None
            if self.first_sound_at is None:
                self.first_sound_at = now
            if self.speaker.silent_since is None:
                self.speaker.take(audio_ms(self.hello.audio, message.data), now)
                if self.keeps_sound and self._heard is not None:
                    self.sound.append(self._heard.push(message.data))
        else:
            self.got.append((now, message))
            if isinstance(message, SpeechStart):
                self._turn_id, self.first_sound_at = message.turn_id, None
                self.speaker.start()
            elif isinstance(message, SpeechStop):
                self.speaker.stop(now)
        self._changed.set()

    def _obey(self, command: Command) -> CommandResult:
        if not self.capabilities.obeys(command.name):
            return CommandResult(command.id, False, "unknown_command")
        if command.name == "mute":
            self.muted = command.args["on"]
            return CommandResult(command.id, True)
        wanted = command.args.get("percent", self.volume_percent + command.args.get("change", 0))
        self.volume_percent = max(0, min(100, wanted))
        return CommandResult(command.id, True, {"percent": self.volume_percent})

    async def _acknowledge(self) -> None:
        told = 0
        while self.acknowledges:
            await asyncio.sleep(_ACKNOWLEDGE_SECONDS)
            played = round(self.speaker.played_ms(self.monotonic()))
            if self._turn_id and played != told:
                told = played
                with contextlib.suppress(ConnectionClosed, AssertionError):
                    await self.send(Played(self._turn_id, played))
