"""Who may come in while one process lives: the stored tokens, this boot's admin token, an owner's token set by hand.

Knows tokens and the database they are in; not which request asks for what (`auth.py` checks a caller's device).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime

from server.devices.auth import Authorizer, StoredToken
from server.devices.endpoint import not_ready
from server.errors import AuthError, StackChanError
from server.storage import tokens
from server.storage.database import Databases


class Access:
    """The tokens of one boot. `owner_token`: the owner's, where it was set by hand; it replaces the stored one."""

    def __init__(self, owner_token: str | None) -> None:
        self.boot_token = secrets.token_urlsafe(32)
        """The admin token of this boot, for the command line."""
        self.new_owner_token: str | None = None
        """An owner's token that `open` generated; the only copy."""
        self._owner_token = owner_token

    async def open(self, databases: Databases, clock: Callable[[], datetime]) -> Authorizer:
        """Set up the tokens; generate the owner's when there is none and none was set by hand."""

        async def find(token: str) -> StoredToken | None:
            async with databases.server(write=False) as db:
                found = await tokens.find_token(db, token)
            return StoredToken(found.kind, found.device_id) if found is not None else None

        if self._owner_token is None:
            async with databases.server() as db:
                if not await tokens.has_owner_token(db):
                    self.new_owner_token = await tokens.create_token(db, kind="owner", now=clock())
        return Authorizer(find, self._secrets(), stored_owner=self._owner_token is None)

    async def owner_only(
        self, authorization: str | None, opened: Authorizer | None, start_error: StackChanError | None
    ) -> None:
        """Raise `AuthError` unless the owner asks, or that the server is not ready where only a database could tell.

        `opened` None: the database is not open, and only the secrets of this boot can be checked.
        """
        if opened is not None:
            caller = await opened.caller(authorization)
            if caller.device_id is not None:
                raise AuthError("A device's token does not open this; use the owner's.", code="device_forbidden")
            return
        try:
            await Authorizer(_no_token, self._secrets(), stored_owner=False).caller(authorization)
        except AuthError as error:
            if error.code == "token_invalid" and self._owner_token is None:
                raise not_ready(start_error) from None
            raise

    def _secrets(self) -> tuple[str, ...]:
        return (self.boot_token,) if self._owner_token is None else (self.boot_token, self._owner_token)


async def _no_token(token: str) -> StoredToken | None:
    return None
