"""Which OpenAI-compatible endpoint the settings mean: URL, model, key, and how it is told not to think.

A frozen table of the known kinds, and `resolve_endpoint`, which joins it with the settings and refuses what cannot
work. Pure: contacts nobody, imports no client.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import SecretStr

from server.config_sections import LlmSettings
from server.errors import ConfigError

JsonForm = Literal["json_schema", "json_object"]

_TEMPLATE_OFF = MappingProxyType({"chat_template_kwargs": MappingProxyType({"enable_thinking": False})})
_FIELD_OFF = MappingProxyType({"enable_thinking": False})
_EFFORT_OFF = MappingProxyType({"reasoning_effort": "none"})
# Parts of the names of models that hear, speak, rank or embed.
_NOT_FOR_CHAT = ("embed", "rerank", "whisper", "tts", "asr")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of endpoint. `local`: runs on the owner's machines, costs nothing to warm, and may be slow to load."""

    base_url: str
    model: str | None
    """None: whatever it has; the first of its list is taken."""
    local: bool
    key_variable: str | None
    """The environment variable its users usually keep the key in; None: needs no key."""
    thinking_off: Mapping[str, Any]
    """Fields of the request that turn thinking off."""
    json_form: JsonForm | None
    """What `response_format` it takes, where no tools are sent along."""
    to_start: str
    """What to do when it does not answer."""


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "modelscope": Preset(
            base_url="https://api-inference.modelscope.cn/v1",
            model="Qwen/Qwen3-30B-A3B-Instruct-2507",
            local=False,
            key_variable="MODELSCOPE_API_KEY",
            thinking_off=_FIELD_OFF,
            json_form=None,
            to_start="Check the network.",
        ),
        "dashscope": Preset(
            base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            model="qwen-flash",
            local=False,
            key_variable="DASHSCOPE_API_KEY",
            thinking_off=_FIELD_OFF,
            json_form="json_object",
            to_start="Check the network.",
        ),
        # Its /v1 endpoint passes over `think`, which only its own API knows.
        "ollama": Preset(
            base_url="http://127.0.0.1:11434/v1",
            model=None,
            local=True,
            key_variable=None,
            thinking_off=_EFFORT_OFF,
            json_form="json_schema",
            to_start="Start it with `ollama serve`.",
        ),
        "vllm": Preset(
            base_url="http://127.0.0.1:8000/v1",
            model=None,
            local=True,
            key_variable=None,
            thinking_off=_TEMPLATE_OFF,
            json_form="json_schema",
            to_start="Start it with `vllm serve`.",
        ),
        "llama-server": Preset(
            base_url="http://127.0.0.1:8080/v1",
            model=None,
            local=True,
            key_variable=None,
            thinking_off=_TEMPLATE_OFF,
            json_form="json_schema",
            to_start="Start it with `llama-server --jinja`.",
        ),
        "lmstudio": Preset(
            base_url="http://127.0.0.1:1234/v1",
            model=None,
            local=True,
            key_variable=None,
            thinking_off=_TEMPLATE_OFF,
            json_form="json_schema",
            to_start="Start its server with `lms server start`.",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to ask. What is secret is in no `repr`."""

    base_url: str
    """Without user, password, query or a slash at its end: fit to be shown."""
    model: str | None = None
    authorization: SecretStr | None = field(default=None, repr=False)
    """The whole header; None sends none."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that must not be repeated to anybody."""
    name: str = "endpoint"
    """What to call it: the preset, or "endpoint"."""
    local: bool = False
    thinking_off: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    json_form: JsonForm | None = None
    native_tools: bool = True
    to_start: str = "Check that it runs."

    @property
    def loopback(self) -> bool:
        """It is on this machine: no proxy lies between."""
        return _is_loopback(urlsplit(self.base_url).hostname or "")

    def headers(self) -> dict[str, str]:
        """The headers that let one in."""
        return {} if self.authorization is None else {"Authorization": self.authorization.get_secret_value()}

    def thinking_off_for(self, model: str) -> Mapping[str, Any]:
        """The fields that keep `model` from thinking; the Instruct models of 2507 cannot think and take none."""
        return _NOTHING if "instruct-2507" in model.casefold() else self.thinking_off

    def hide(self, text: str) -> str:
        """`text` without this endpoint's secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def resolve_endpoint(settings: LlmSettings) -> Endpoint:
    """The endpoint that these settings name.

    Raises `ConfigError` when they name none, when a key is missing where one is needed, or when URL or key cannot be
    sent.
    """
    preset = PRESETS[settings.preset] if settings.preset is not None else None
    if preset is None and settings.base_url is None:
        raise ConfigError(
            "llm.preset (STACKCHAN_LLM__PRESET): the engine openai needs to know which endpoint to ask.",
            hint=f"Set it to one of: {', '.join(PRESETS)}; or set llm.base_url (STACKCHAN_LLM__BASE_URL).",
        )
    url = _split(settings.base_url or (preset.base_url if preset is not None else ""))
    key = _checked_key(settings.api_key)
    # An address of one's own may be a gateway that adds the key itself.
    if key is None and preset is not None and preset.key_variable is not None and settings.base_url is None:
        raise ConfigError(
            f"llm.api_key (STACKCHAN_LLM__API_KEY): {settings.preset} needs a key.",
            hint=f'If yours is in {preset.key_variable}: export STACKCHAN_LLM__API_KEY="${preset.key_variable}"',
        )
    host = url.hostname or ""
    password = unquote(url.password or "")
    basic = base64.b64encode(f"{unquote(url.username or '')}:{password}".encode()).decode() if url.username else ""
    authorization = f"Bearer {key}" if key else (f"Basic {basic}" if basic else None)
    shown = f"{url.scheme}://{f'[{host}]' if ':' in host else host}{f':{url.port}' if url.port else ''}{url.path}"
    return Endpoint(
        base_url=shown.rstrip("/"),
        model=settings.model or (preset.model if preset is not None else None),
        authorization=SecretStr(authorization) if authorization else None,
        secrets=tuple(text for text in (key, password, url.password, basic) if text),
        name=settings.preset or "endpoint",
        local=preset.local if preset is not None else _is_loopback(host),
        thinking_off=preset.thinking_off if preset is not None else _NOTHING,
        json_form=preset.json_form if preset is not None else None,
        native_tools=settings.tools == "native",
        to_start=preset.to_start if preset is not None else "Check that it runs.",
    )


def choose_model(offered: Sequence[str]) -> str | None:
    """The model to use where none is named: the first that can chat; None when there is none at all."""
    chat = [name for name in offered if not any(mark in name.casefold() for mark in _NOT_FOR_CHAT)]
    return next(iter(chat or offered), None)


def _split(base_url: str) -> SplitResult:
    try:
        url = urlsplit(base_url)
        usable = bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable:
        raise ConfigError(
            "llm.base_url (STACKCHAN_LLM__BASE_URL): is not a URL with a host.",
            hint="Write it like http://127.0.0.1:8000/v1.",
        )
    return url


def _checked_key(secret: SecretStr | None) -> str | None:
    key = secret.get_secret_value() if secret is not None else ""
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            "llm.api_key (STACKCHAN_LLM__API_KEY): has a character that no key has"
            f" ({'a line break' if set(key) & set(chr(10) + chr(13)) else 'a space or a sign outside ASCII'}).",
            hint="Copy it again, alone and on one line.",
        )
    return key


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
