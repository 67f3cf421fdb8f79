"""The door of a server that speaks HTTPS: a connection until its TLS handshake is over, counted from its first moment.

asyncio tells a protocol of a connection only after the handshake: until then who sends nothing would be counted by
nobody, and hold a file descriptor for a minute. Knows no HTTP; what is behind the door is made by a function.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
"""A handshake that is not over by then ends the connection; a robot takes less than two."""


class TlsDoor(asyncio.Protocol):
    """One connection's. `make`: the protocol behind it; `connections`: all that are open, of which it is one meanwhile;
    `most`: how many there may be.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        connections: set[Any],
        most: Callable[[], int],
    ) -> None:
        self._make = make
        self._context = context
        self._connections = connections
        self._most = most
        self._early: list[bytes] = []
        """What came with the end of the handshake."""
        self._inside: asyncio.Protocol | None = None
        self._is_lost = False
        self._entering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._connections.add(self)
        if len(self._connections) > self._most():
            transport.abort()
            return
        transport.pause_reading()  # nothing may come before the handshake looks
        self._entering = asyncio.get_running_loop().create_task(self._enter(transport), name="tls-handshake")

    def data_received(self, data: bytes) -> None:
        if self._inside is not None:
            self._inside.data_received(data)
        else:
            self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._connections.discard(self)
        if self._inside is not None:
            self._inside.connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops."""
        if self._entering is not None:
            self._entering.cancel()

    async def _enter(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            secure = await loop.start_tls(
                transport, self, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as error:  # also an ssl.SSLError, and that it took too long
            _log.debug("a TLS handshake failed: %s", type(error).__name__)
            secure = None
        except asyncio.CancelledError:
            transport.abort()
            raise
        finally:
            self._connections.discard(self)
        if secure is None or self._is_lost or secure.is_closing():
            transport.abort()
            return
        self._inside = self._make()
        secure.set_protocol(self._inside)
        self._inside.connection_made(secure)
        for data in self._early:
            self._inside.data_received(data)
        self._early.clear()
