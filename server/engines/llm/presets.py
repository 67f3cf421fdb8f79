"""Which OpenAI-compatible endpoint the settings mean: URL, model, key, and how it is told not to think.

A frozen table of the known kinds, and `resolve_endpoint`, which joins it with the settings and refuses what cannot
work. Pure: contacts nobody, imports no client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from server.config_sections import LlmSettings
from server.engines.http_endpoint import HttpEndpoint, Service, checked_key, is_loopback, resolve_access
from server.errors import ConfigError

JsonForm = Literal["json_schema", "json_object"]

LLM = Service("llm", "The language model", "most end in /v1")

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
class Endpoint(HttpEndpoint):
    """Where and how to ask."""

    service: ClassVar[Service] = LLM

    local: bool = False
    thinking_off: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    json_form: JsonForm | None = None
    native_tools: bool = True

    def thinking_off_for(self, model: str) -> Mapping[str, Any]:
        """The fields that keep `model` from thinking; the Instruct models of 2507 cannot think and take none."""
        return _NOTHING if "instruct-2507" in model.casefold() else self.thinking_off


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
    access = resolve_access(
        "llm", settings.base_url or (preset.base_url if preset is not None else ""), settings.api_key
    )
    # An address of one's own may be a gateway that adds the key itself.
    if (
        checked_key("llm", settings.api_key) is None
        and preset is not None
        and preset.key_variable is not None
        and settings.base_url is None
    ):
        raise ConfigError(
            f"llm.api_key (STACKCHAN_LLM__API_KEY): {settings.preset} needs a key.",
            hint=f'If yours is in {preset.key_variable}: export STACKCHAN_LLM__API_KEY="${preset.key_variable}"',
        )
    return Endpoint(
        base_url=access.base_url,
        model=settings.model or (preset.model if preset is not None else None),
        authorization=access.authorization,
        secrets=access.secrets,
        name=settings.preset or "endpoint",
        local=preset.local if preset is not None else is_loopback(access.host),
        thinking_off=preset.thinking_off if preset is not None else _NOTHING,
        json_form=preset.json_form if preset is not None else None,
        native_tools=settings.tools == "native",
        to_start=preset.to_start if preset is not None else "Check that it runs.",
    )


def choose_model(offered: Sequence[str]) -> str | None:
    """The model to use where none is named: the first that can chat; None when there is none at all."""
    chat = [name for name in offered if not any(mark in name.casefold() for mark in _NOT_FOR_CHAT)]
    return next(iter(chat or offered), None)
