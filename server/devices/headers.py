"""The headers of a request for a turn, each checked: whose it is, and how the answer is wanted.

Knows header texts; no body, no database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers

from server.devices.auth import Caller, device_of, session_label_of
from server.errors import RequestError

LONGEST_WAIT_SECONDS = 30
"""A longer `Prefer: wait` is shortened to this: some proxies cut a silent connection after a minute."""

# A comma or semicolon inside quotes is text.
_PREFERENCE = re.compile(r"""(?:[^,"]|"(?:[^"\\]|\\.)*"?)+""")
_PARAMETERS = re.compile(r"""((?:[^;"]|"(?:[^"\\]|\\.)*"?)*)""")
_ESCAPED = re.compile(r"\\(.)")
_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")


@dataclass(frozen=True, slots=True)
class Preferences:
    """What `Prefer` (RFC 7240) asks for, as far as it is known here. `wait_seconds`: None when not asked for."""

    respond_async: bool = False
    wait_seconds: int | None = None

    def applied(self) -> str:
        """The value of `Preference-Applied`; empty: nothing was."""
        wait = [] if self.wait_seconds is None else [f"wait={self.wait_seconds}"]
        return ", ".join((["respond-async"] if self.respond_async else []) + wait)


def preferences_of(values: Iterable[str]) -> Preferences:
    """Read every `Prefer` header of a request; of a preference given twice the first counts, others are passed over."""
    found: dict[str, str] = {}
    for item in (item for value in values for item in _PREFERENCE.findall(value)):
        preference = _PARAMETERS.match(item)
        name, _, word = (preference.group() if preference else "").partition("=")
        word = word.strip()
        if len(word) > 1 and word[0] == word[-1] == '"':
            word = _ESCAPED.sub(r"\1", word[1:-1])
        found.setdefault(name.strip().lower(), word)
    wait = found.get("wait", "")
    seconds = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 10 else None
    return Preferences("respond-async" in found, None if seconds is None else min(seconds, LONGEST_WAIT_SECONDS))


@dataclass(frozen=True, slots=True)
class TurnHeaders:
    """Whose turn it is, and how its answer is wanted."""

    device_id: str
    session_label: str | None
    idempotency_key: str | None
    preferences: Preferences


def turn_headers(headers: Headers, caller: Caller) -> TurnHeaders:
    """Raises `RequestError` for a header that is wrong or sent twice, `AuthError` for somebody else's device."""
    return TurnHeaders(
        device_id=device_of(caller, _only(headers, "Device-Id", "device_id_invalid")),
        session_label=session_label_of(_only(headers, "Session-Id", "session_id_invalid")),
        idempotency_key=_key_of(_only(headers, "Idempotency-Key", "idempotency_key_invalid")),
        preferences=preferences_of(headers.getlist("prefer")),
    )


def _only(headers: Headers, name: str, code: str) -> str | None:
    values = headers.getlist(name)
    if len(values) > 1:
        # Taking one of them would be a guess, and a proxy on the way may have guessed otherwise.
        raise RequestError(f"{name} was sent {len(values)} times.", code=code, hint="Send it once.")
    return values[0] if values else None


def _key_of(header: str | None) -> str | None:
    if header is None or _KEY.match(header):
        return header
    raise RequestError(
        "Idempotency-Key takes 1 to 255 visible ASCII characters.",
        code="idempotency_key_invalid",
        hint="Send a random one for each new request, and the same one when you send a request again.",
    )
