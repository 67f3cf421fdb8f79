"""The door of a server that speaks HTTPS: a connection until its TLS handshake is over, counted from its first moment.

asyncio tells a protocol of a connection only after the handshake: until then who sends nothing would be counted by
nobody, and hold a file descriptor for a minute. Knows no HTTP; what is behind the door is made by a function.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10
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
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._connections.add(self)
        if len(self._connections) > self._most():
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()
        waiter.add_done_callback(self._opened)
        # Not `loop.start_tls`: it begins later, and what comes before, or together with the end, would be lost.
        handshake = SSLProtocol(
            loop, self._make(), self._context, waiter, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
        )
        transport.set_protocol(handshake)
        handshake.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)

    def shutdown(self) -> None:
        """The server stops."""
        if self._transport is not None:
            self._transport.abort()

    def _opened(self, waiter: asyncio.Future[Any]) -> None:
        """The handshake is over, well or not."""
        self._connections.discard(self)
        if not waiter.cancelled() and (error := waiter.exception()) is not None:
            _log.debug("a TLS handshake failed: %s", type(error).__name__)
