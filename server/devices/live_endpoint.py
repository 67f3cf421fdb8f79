"""`GET /v1/device`: the WebSocket of devices that speak the native protocol (`firmware/PROTOCOL.md`).

Admits a device, keeps it to the rules of the flow, and hands its messages to its session. Knows the socket and the
order of a connection; no conversation and no sound.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from fastapi import APIRouter, Response, WebSocket, WebSocketDisconnect

from server.devices.auth import Authorizer, device_of
from server.devices.connection import Connection
from server.devices.gaps import Gaps
from server.devices.intake_limits import IntakeLimits, Violation, audio_ms
from server.devices.native import NativeCodec, downlink_audio
from server.devices.session import LiveDevice, LiveDevices
from server.devices.wire import (
    AudioFormat,
    AudioFrame,
    BadMessage,
    CloseCode,
    DeviceError,
    DeviceHello,
    Frame,
    FromDevice,
    ListenStart,
    Ping,
)
from server.errors import AudioError, AuthError, OverloadError, StackChanError
from server.log_context import error_fields

_log = logging.getLogger(__name__)

LIVE_PATH = "/v1/device"
HELLO_SECONDS = 10.0
SILENT_SECONDS = 120.0
"""A connection on which nothing comes for so long is given up; a device that is idle pings."""
_GOODBYE_SECONDS = 2.0
_PARTED = (1000, 1001)
"""Close codes of a device that has hung up by itself, rather than been cut off."""


OnIgnored = Callable[[int, int], None]
"""Told at a connection's end how many messages and fields of it were not known; must not raise."""


@dataclass(frozen=True, slots=True)
class LiveService:
    """What the endpoint needs; there once the server is ready."""

    authorizer: Authorizer
    devices: LiveDevices
    make_device: Callable[[DeviceHello, AudioFormat], LiveDevice]
    on_ignored: OnIgnored = lambda types, fields: None


class Violated(Exception):
    """A rule was broken; the connection ends."""

    def __init__(self, error: DeviceError, close_code: CloseCode = CloseCode.POLICY) -> None:
        super().__init__(error.code)
        self.error = error
        self.close_code = close_code


class StarletteSocket:
    """Implements `Socket`."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def send(self, frame: Frame) -> None:
        try:
            if isinstance(frame, str):
                await self._websocket.send_text(frame)
            else:
                await self._websocket.send_bytes(frame)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise ConnectionError(str(error)) from error

    async def close(self, code: int, reason: str) -> None:
        try:
            await self._websocket.close(code, reason)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise ConnectionError(str(error)) from error


def live_router(
    service: Callable[[], LiveService],
    refuse: Callable[[StackChanError], Response],
    origins: Collection[str] = (),
    *,
    hello_seconds: float = HELLO_SECONDS,
    silent_seconds: float = SILENT_SECONDS,
) -> APIRouter:
    """The endpoint. `service` raises a `starting` error until the server is ready.

    `refuse`: an error as an HTTP answer; `origins`: pages from elsewhere that may connect.
    """
    router = APIRouter()

    @router.websocket(LIVE_PATH)
    async def device(websocket: WebSocket) -> None:
        if not _same_origin(websocket, origins):
            await websocket.send_denial_response(refuse(_foreign_page()))
            return
        await websocket.accept()
        connection = Connection(StarletteSocket(websocket), NativeCodec())
        code, error = CloseCode.GOING_AWAY, None
        try:
            await _Intake(websocket, connection, hello_seconds, silent_seconds).serve(service)
        except Violated as violated:
            code, error = violated.close_code, violated.error
        except WebSocketDisconnect:
            connection.open = False
        except TimeoutError:
            pass  # nothing comes any more
        except OverloadError as refused:
            code, error = CloseCode.TRY_AGAIN_LATER, DeviceError.of(refused)
        except StackChanError as refused:
            code = CloseCode.TRY_AGAIN_LATER if refused.retryable else CloseCode.POLICY
            error = DeviceError.of(refused)
        except Exception:
            _log.exception("a device's connection ended on a defect")
            code, error = CloseCode.INTERNAL, DeviceError("internal", "Something went wrong inside the server.")
        finally:
            await connection.close(code, error)
            await _read_out(websocket)

    return router


async def _read_out(websocket: WebSocket) -> None:
    """Throw away what still comes of a device that was hung up on: behind it is its answer, and the end."""
    with contextlib.suppress(TimeoutError, RuntimeError):  # it is silent; it has gone before
        async with asyncio.timeout(_GOODBYE_SECONDS):
            while (await websocket.receive())["type"] != "websocket.disconnect":
                pass


class _Intake:
    """One connection's frames, in their order."""

    def __init__(
        self, websocket: WebSocket, connection: Connection, hello_seconds: float, silent_seconds: float
    ) -> None:
        self._websocket = websocket
        self._connection = connection
        self._hello_seconds = hello_seconds
        self._silent_seconds = silent_seconds
        self._limits = IntakeLimits()
        self._told_bad_sound = False

    async def serve(self, service: Callable[[], LiveService]) -> None:
        """Until the device goes. Raises `Violated`, `WebSocketDisconnect`, and why the device is not admitted."""
        hello = await self._hello()
        live = service()
        hello = await self._admitted(hello, live)
        down = downlink_audio(hello.voice or hello.audio)
        device = await live.devices.connect(hello, self._connection, lambda: live.make_device(hello, down))
        gaps = Gaps(device.frame_seconds)
        try:
            while self._connection.open:  # one that was replaced has no more to say
                message = await self._next_of(device, gaps)
                if isinstance(message, AudioFrame):
                    gaps.packet(message.data)
                if message is not None:
                    await self._take(device, hello, message)
                await asyncio.sleep(0)  # a device that has sent a thousand at once must not hold up the others
        except WebSocketDisconnect as gone:
            if gone.code in _PARTED:
                device.is_there()
            raise
        finally:
            self._tell_ignored(hello.device_id, live)
            await live.devices.disconnect(device, self._connection)

    def _tell_ignored(self, device_id: str, live: LiveService) -> None:
        ignored = self._connection.codec.ignored
        if ignored.types or ignored.fields:
            live.on_ignored(ignored.types, ignored.fields)
            _log.info(
                "device %s sent %d messages and %d fields that are not known here",
                device_id,
                ignored.types,
                ignored.fields,
            )

    async def _hello(self) -> DeviceHello:
        message: FromDevice | None = None
        with contextlib.suppress(TimeoutError):
            message = await self._next(self._hello_seconds, strict=True)
        if not isinstance(message, DeviceHello):
            raise Violated(DeviceError("hello_expected", "The first message must be hello, within 10 seconds."))
        return message

    async def _admitted(self, hello: DeviceHello, live: LiveService) -> DeviceHello:
        header = self._websocket.headers.get("authorization") or (f"Bearer {hello.token}" if hello.token else None)

        async def admitted() -> str:
            return device_of(await live.authorizer.caller(header), hello.device_id)

        async def still_admitted() -> None:
            await admitted()

        self._connection.still_admitted = still_admitted
        return replace(hello, device_id=await admitted(), token=None)

    async def _next(self, seconds: float, *, strict: bool = False) -> FromDevice | None:
        """The next message; None: one that is passed over. `strict`: one that is not understood ends the connection."""
        # A wait that is given up loses nothing: what comes in is queued below.
        async with asyncio.timeout(seconds):
            received = await self._websocket.receive()
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(received.get("code", 1005))
        text, data = received.get("text"), received.get("bytes")
        frame: Frame = text if text is not None else data or b""
        _heed(self._limits.frame(len(frame.encode()) if isinstance(frame, str) else len(frame)))
        try:
            return self._connection.codec.decode(frame)
        except BadMessage as error:
            if strict:
                raise Violated(DeviceError.of(error)) from error
            self._bad(error)
            return None

    async def _next_of(self, device: LiveDevice, gaps: Gaps) -> FromDevice | None:
        """As `_next`. While nothing comes of a device that sends nothing for silence, it hears that silence."""
        silent = 0.0
        while device.may_be_silent and silent < self._silent_seconds:
            patience = gaps.patience_seconds
            try:
                return await self._next(patience)
            except TimeoutError:
                gaps.silent()
                await device.miss(patience)
                silent += patience
        return await self._next(max(0.0, self._silent_seconds - silent))

    async def _take(self, device: LiveDevice, hello: DeviceHello, message: FromDevice) -> None:
        if isinstance(message, DeviceHello):
            again = "This connection has said hello; connect again to change it."
            self._bad(BadMessage(again, code="hello_repeated"))
            return
        if isinstance(message, AudioFrame):
            _heed(self._limits.audio(time.monotonic(), audio_ms(hello.audio, message.data)))
        try:
            if isinstance(message, ListenStart | Ping):
                await self._connection.still_admitted()
            await device.take(message)
        except AuthError:
            # Nothing that has begun is answered to whoever may not be here any more.
            await device.end("not_admitted")
            raise
        except AudioError as error:
            # A frame that is no sound costs itself; a broken microphone must not end the conversation.
            if not self._told_bad_sound:
                self._told_bad_sound = True
                self._connection.post(DeviceError.of(error))
        except StackChanError as error:
            _log.warning("a device's message failed: %s", error.code, extra=error_fields(error))
            self._connection.post(DeviceError.of(error))

    def _bad(self, error: StackChanError) -> None:
        self._connection.post(DeviceError.of(error))
        _heed(self._limits.bad_message())


def _heed(violation: Violation | None) -> None:
    if violation is not None:
        raise Violated(violation.error, violation.close_code)


def _foreign_page() -> AuthError:
    return AuthError(
        "A page from another site may not talk to the robot.",
        code="origin_forbidden",
        hint="Open the page that the server itself shows.",
    )


def _same_origin(websocket: WebSocket, origins: Collection[str]) -> bool:
    """Browsers say where a page came from: another site must not talk to the robot with its visitor's help."""
    origin = websocket.headers.get("origin")
    if origin is None or origin in origins:
        return True
    try:
        return urlsplit(origin).netloc == websocket.headers.get("host", "")
    except ValueError:  # such as half an IPv6 address
        return False
