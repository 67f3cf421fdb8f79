"""The production web server with scripted engines, and simulated robots that are connected to it.

Everything between the two is real: sockets, storage, time. Also raw connections, for devices that misbehave.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from server.app import create_app
from server.commands.simulated_robot import SimulatedRobot
from server.commands.web_server import WebServer, web_config
from server.config import load_settings
from server.devices.wire import AudioFormat, SpeechStop, State, TurnAnswer
from server.events import Samples
from server.persona import default_persona_path, load_persona
from tests.devices.conftest import TOKEN, LiveServer
from tests.fakes.engines import FakeLlm, answer, fake_engines

SENTENCE = "今日はいい天気だね。"
LONG_REPLY = SENTENCE * 30
"""Three seconds as `FakeTts` speaks it."""
LONG = answer(json.dumps({"emotion": "happy", "action": "nod", "reply": LONG_REPLY}, ensure_ascii=False))
HELLO = {"type": "hello", "protocol": 1, "device_id": "raw", "audio": {"format": "pcm16", "sample_rate": 16000}}
HELLO["audio"]["frame_ms"] = 20  # type: ignore[index]
SILENT_SECONDS = 0.2
"""So soon a robot that was told to be silent is, as it was promised."""


@asynccontextmanager
async def live_server(folder: Path, *, env: dict[str, str] | None = None, **engines: Any) -> AsyncIterator[LiveServer]:
    """As `stackchan serve` runs it, with fakes; `engines` as for `fake_engines`."""
    settings = load_settings({"STACKCHAN_DATA_DIR": str(folder / "data"), "STACKCHAN_TOKEN": TOKEN, **(env or {})})
    fakes = fake_engines(**engines)
    app = create_app(settings, load_persona(default_persona_path()), fakes)
    async with serving(app) as url:
        await asyncio.wait_for(app.state.readiness.wait(), 60)
        assert app.state.readiness.error is None
        headers = {"Authorization": f"Bearer {TOKEN}", "Device-Id": "desk"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=10, verify=False) as client:
            yield LiveServer(app, url, client, fakes)


@asynccontextmanager
async def scripted(folder: Path, *scripts: Any) -> AsyncIterator[LiveServer]:
    """A server that answers `scripts`, or at length and then shortly; none early: a busy machine would mix them."""
    env = {"STACKCHAN_LIVE__ANSWER_EARLY": "false"}
    async with live_server(folder, env=env, llm=FakeLlm(scripts=[*scripts] or [LONG, answer()])) as live:
        yield live


def kept_waiting_seconds() -> float:
    """How long this thread has wanted a processor and got none, since it began, as the kernel counts it (Linux).

    Robot and server are in the same thread: what took longer only by so much is nobody's fault, and what either of them
    does meanwhile is not excused by it.
    """
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


class Silence:
    """How long a robot is still spoken to from now on.

    `silence = Silence(robot)`, then say that it shall stop; `await silence.seconds()` is when it was told that it did,
    without what the thread was kept waiting.
    """

    def __init__(self, device: SimulatedRobot) -> None:
        self._device = device
        self._began, self._waited = device.monotonic(), kept_waiting_seconds()

    async def seconds(self) -> float:
        await self._device.wait_for(SpeechStop)
        waited = kept_waiting_seconds() - self._waited
        stopped = next(at for at, message in self._device.got if isinstance(message, SpeechStop))
        return stopped - self._began - waited


class Stalls:
    """How long the event loop could not run at the worst; what comes meanwhile comes late."""

    def __init__(self) -> None:
        self.longest_ms = 0.0

    async def sleep(self, seconds: float) -> None:
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        self.longest_ms = max(self.longest_ms, (time.perf_counter() - began - seconds) * 1000)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """An ASGI application on a port of its own: its address."""
    if not hasattr(app.state, "hang_up"):
        app.state.hang_up = _nobody_there
    listener = socket.create_server(("127.0.0.1", 0))
    config = web_config(app)
    config.timeout_graceful_shutdown = 2
    server = WebServer(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


async def _nobody_there() -> None: ...


def robot(live: LiveServer, device_id: str = "desk", **fields: Any) -> SimulatedRobot:
    return SimulatedRobot(live.url, fields.pop("token", TOKEN), device_id, **fields)


def tone(seconds: float) -> Samples:
    """What `FakeVad` takes for speech, also after a codec."""
    t = np.arange(round(seconds * 16_000)) / 16_000
    return (0.5 * np.sin(2 * np.pi * 220 * t)).astype(np.float32)


async def ask(device: SimulatedRobot, seconds: float = 0.6) -> None:
    """Say something with an open microphone, and be quiet until the answer begins to sound."""
    device.first_sound_at = None
    await device.say(tone(seconds))
    assert await device.be_quiet_until(lambda: device.first_sound_at is not None, 10), device.got


async def answered(device: SimulatedRobot, since: int = 0, *, outcome: str = "ok") -> dict[str, Any]:
    """The turn as the device is told of it, once it rests again."""
    turn = await device.wait_for(TurnAnswer, since=since)
    place = next(place for place, (_, message) in enumerate(device.got) if message is turn)
    await device.wait_for(State, since=place, wanted=lambda state: state.value in ("idle", "listening"))
    assert turn.answer["outcome"] == outcome, turn.answer
    return dict(turn.answer)


def microphone(audio: str, frame_ms: int) -> AudioFormat:
    return AudioFormat("opus" if audio == "opus" else "pcm16", 16_000, frame_ms)


@asynccontextmanager
async def raw(url: str, token: str | None = TOKEN, **headers: str) -> AsyncIterator[ClientConnection]:
    """A WebSocket on which nothing has been said."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with connect(
        url.replace("http", "ws", 1) + "/v1/device", additional_headers=headers, compression=None, proxy=None
    ) as connection:
        yield connection


async def end_of(connection: ClientConnection) -> tuple[int | None, list[str]]:
    """Close code, and the codes of the errors that came before it."""
    codes = []
    try:
        async with asyncio.timeout(10):
            while True:
                frame = await connection.recv()
                if isinstance(frame, str) and (message := json.loads(frame))["type"] == "error":
                    codes.append(message["code"])
    except ConnectionClosed:
        return connection.close_code, codes
