"""Every answer is whole: `Range` is not looked at, which HTTP leaves to the server.

The pages are small and a reply's sound has no length while it is made. The library's own answer to a malformed range
would have a form of its own.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class WholeAnswers:
    """ASGI middleware that hides the `Range` header from everything inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"range"]}
        await self._app(scope, receive, send)
