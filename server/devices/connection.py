"""One WebSocket of a device: its frames in, messages out, without waiting for a device that is slow.

Control messages go through a short queue with a task of its own; the voice paces itself and is sent straight, behind
what was posted before it. Knows the codec only as `DeviceCodec`, and no conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from server.devices.wire import CloseCode, DeviceCodec, DeviceError, Frame, ToDevice

_log = logging.getLogger(__name__)

_MOST_WAITING = 256
"""A device that has not taken so many messages is gone, whatever its socket says."""
_CLOSE_SECONDS = 2.0


class Socket(Protocol):
    """What a connection needs of a WebSocket."""

    async def send(self, frame: Frame) -> None:
        """Raises `ConnectionError` when the other side is gone."""

    async def close(self, code: int, reason: str) -> None: ...


async def _admitted() -> None: ...


class Connection:
    """A connected device. Not for two event loops."""

    def __init__(self, socket: Socket, codec: DeviceCodec) -> None:
        self.codec = codec
        self.open = True
        self.still_admitted: Callable[[], Awaitable[None]] = _admitted
        """Raises `AuthError` when whoever has come in may not be here any more, `StorageError`."""
        self._socket = socket
        self._waiting: deque[ToDevice] = deque()
        self._added = asyncio.Event()
        self._sending = asyncio.Lock()
        self._sender = asyncio.create_task(self._send_waiting(), name="device-messages")

    def post(self, message: ToDevice) -> None:
        """Send a message soon, in the order of `post`."""
        if not self.open:
            return
        if len(self._waiting) >= _MOST_WAITING:
            _log.warning("a device takes no messages any more; it is given up")
            self.open = False
            self._added.set()
            return
        self._waiting.append(message)
        self._added.set()

    async def send(self, message: ToDevice) -> bool:
        """Send a message, behind all that was posted; False: the device is gone."""
        if self.open:
            async with self._sending:
                await self._send_posted()
                if self.open:
                    await self._write(message)
        return self.open

    async def close(self, code: CloseCode, error: DeviceError | None = None) -> None:
        """Tell the device why, and hang up. Safe to call twice."""
        if error is not None:
            self.post(error)
        was_open, self.open = self.open, False
        self._added.set()
        await asyncio.wait({self._sender}, timeout=_CLOSE_SECONDS)
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)
        if was_open:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._socket.close(code, error.code if error is not None else "")
            except (ConnectionError, TimeoutError):
                pass

    async def _send_waiting(self) -> None:
        """Until the connection is closed and what was posted before has gone."""
        while self.open or self._waiting:
            self._added.clear()
            async with self._sending:
                await self._send_posted()
            if self.open:
                await self._added.wait()

    async def _send_posted(self) -> None:
        while self._waiting:
            await self._write(self._waiting.popleft())

    async def _write(self, message: ToDevice) -> None:
        try:
            for frame in self.codec.encode(message):
                await self._socket.send(frame)
        except ConnectionError:
            self.open = False
            self._waiting.clear()
            self._added.set()
