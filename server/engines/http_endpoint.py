"""An engine that is somebody's server: its address, its key, and how it is called in messages and settings.

What is secret is in no `repr`, and what is shown holds nothing secret. Pure: contacts nobody, imports no client.
"""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import SecretStr

from server.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Service:
    """What an endpoint does for the robot."""

    section: str
    """Of the settings, and the beginning of its errors' codes: `llm`, `asr`, `tts`."""
    who: str
    """At the beginning of a message: "The language model"."""
    url_hint: str
    """What to check when the address seems to be another one."""

    def setting(self, name: str) -> str:
        """A setting as messages name it: `llm.api_key (STACKCHAN_LLM__API_KEY)`."""
        return setting_name(self.section, name)


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """Where to ask, and what lets one in."""

    service: ClassVar[Service]

    base_url: str
    """Without user, password, query or a slash at its end: fit to be shown."""
    model: str | None = None
    authorization: SecretStr | None = field(default=None, repr=False)
    """The whole header; None sends none."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that must not be repeated to anybody."""
    name: str = "endpoint"
    """What to call it."""
    to_start: str = "Check that it runs."
    """What to do when it does not answer."""

    @property
    def where(self) -> str:
        """The beginning of a message about it."""
        return f"{self.service.who} at {self.base_url}"

    @property
    def loopback(self) -> bool:
        """It is on this machine: no proxy lies between."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    def headers(self) -> dict[str, str]:
        """The headers that let one in."""
        return {} if self.authorization is None else {"Authorization": self.authorization.get_secret_value()}

    def hide(self, text: str) -> str:
        """`text` without this endpoint's secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


@dataclass(frozen=True, slots=True)
class Access:
    """An address from the settings, taken apart."""

    base_url: str
    host: str
    authorization: SecretStr | None = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


def resolve_access(section: str, base_url: str, api_key: SecretStr | None) -> Access:
    """Address and key as they are used. Raises `ConfigError` when one of them cannot be sent."""
    url = _split(section, base_url)
    key = checked_key(section, api_key)
    host = url.hostname or ""
    password = unquote(url.password or "")
    basic = base64.b64encode(f"{unquote(url.username or '')}:{password}".encode()).decode() if url.username else ""
    authorization = f"Bearer {key}" if key else (f"Basic {basic}" if basic else None)
    shown = f"{url.scheme}://{f'[{host}]' if ':' in host else host}{f':{url.port}' if url.port else ''}{url.path}"
    return Access(
        base_url=shown.rstrip("/"),
        host=host,
        authorization=SecretStr(authorization) if authorization else None,
        secrets=tuple(text for text in (key, password, url.password, basic) if text),
    )


def checked_key(section: str, secret: SecretStr | None) -> str | None:
    """The key, None when there is none. Raises `ConfigError` for one that no header can hold."""
    key = secret.get_secret_value() if secret is not None else ""
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"{setting_name(section, 'api_key')}: has a character that no key has"
            f" ({'a line break' if set(key) & set(chr(10) + chr(13)) else 'a space or a sign outside ASCII'}).",
            hint="Copy it again, alone and on one line.",
        )
    return key


def setting_name(section: str, name: str) -> str:
    return f"{section}.{name} (STACKCHAN_{section.upper()}__{name.upper()})"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(section: str, base_url: str) -> SplitResult:
    try:
        url = urlsplit(base_url)
        usable = bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable:
        raise ConfigError(
            f"{setting_name(section, 'base_url')}: is not a URL with a host.",
            hint="Write it like http://127.0.0.1:8000/v1.",
        )
    return url
