"""Who is calling, and for which device.

The owner's token (and the admin token of this boot, which the command line uses) serves any device and creates it; a
device's token serves only its own. Knows headers as strings and tokens as hashes in the database; no HTTP status.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from server.errors import AuthError, RequestError

_DEVICE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z")
_LABEL = re.compile(r"[\x21-\x7e]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class StoredToken:
    """What the database knows of a token."""

    kind: Literal["owner", "device"]
    device_id: str | None


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `device_id` None: the owner, who may act for any device."""

    device_id: str | None

    def may_see(self, device_id: str) -> bool:
        return self.device_id is None or self.device_id == device_id


class Authorizer:
    """Checks bearer tokens. `find_token` looks a token up in the database by its hash."""

    def __init__(
        self,
        find_token: Callable[[str], Awaitable[StoredToken | None]],
        secrets: tuple[str, ...],
        *,
        stored_owner: bool,
    ) -> None:
        self._find_token = find_token
        self._secrets = tuple(secret.encode() for secret in secrets)
        # An owner's token that was set by hand replaces the stored one.
        self._stored_owner = stored_owner

    async def caller(self, authorization: str | None) -> Caller:
        """The caller behind an `Authorization` header. Raises `AuthError`."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        token = token.strip()
        if not token:
            raise AuthError(
                "This needs a token.",
                code="token_missing",
                hint="Send `Authorization: Bearer <token>`; the server showed the owner's token at its first start.",
            )
        if scheme.lower() == "bearer":
            given = token.encode("utf-8", "surrogateescape")
            if any(hmac.compare_digest(given, secret) for secret in self._secrets):
                return Caller(None)
            found = await self._find_token(token)
            if found is not None and found.kind == "device":
                return Caller(found.device_id)
            if found is not None and self._stored_owner:
                return Caller(None)
        raise AuthError("This token is not known here.", code="token_invalid")


def device_of(caller: Caller, header: str | None) -> str:
    """The device a request is for. Raises `RequestError` for a bad `Device-Id`, `AuthError` for somebody else's."""
    if header is None:
        if caller.device_id is None:
            raise RequestError(
                "The header Device-Id is missing.",
                code="device_id_missing",
                hint="Send `Device-Id: <name>`, any name for this device; with the owner's token it is created.",
            )
        return caller.device_id
    if not _DEVICE_ID.match(header):
        raise RequestError("Device-Id takes 1 to 64 letters, digits, and . _ : -", code="device_id_invalid")
    if not caller.may_see(header):
        raise AuthError("This token belongs to another device.", code="device_forbidden")
    return header


def session_label_of(header: str | None) -> str | None:
    """The device's own name for its conversation. Raises `RequestError`."""
    if header is None or _LABEL.match(header):
        return header
    raise RequestError("Session-Id takes 1 to 128 visible ASCII characters.", code="session_id_invalid")
