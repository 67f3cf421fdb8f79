"""Every setting of the server, frozen, from `<data_dir>/stackchan.toml` and `STACKCHAN_*`.

Loaded once by whoever starts the server and passed down: nothing here is global, and importing it reads nothing.
Order: explicit overrides (command line) win over the environment, which wins over the file. This module does not know
which engines or models exist (the registry and the catalogue say so when one is chosen), nor what a persona is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import SecretStr, StringConstraints, field_validator, model_validator
from pydantic import ValidationError as PydanticValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from server.config_errors import (
    TomlFile,
    Wording,
    allowed_values,
    invalid_error,
    read_toml,
    type_name,
    unknown_keys_error,
)
from server.config_sections import (
    AsrSettings,
    EmbeddingSettings,
    Identifier,
    LimitSettings,
    ListeningSettings,
    LiveSettings,
    LlmSettings,
    MemorySettings,
    RerankSettings,
    Section,
    SessionSettings,
    SpeechSettings,
    TtsSettings,
    VadSettings,
    refuse_booleans,
)
from server.errors import ConfigError

ENV_PREFIX = "STACKCHAN_"
DATA_DIR = "~/.local/share/stackchan"
"""Where everything is kept, if nothing else is set."""
TOML_NAME = "stackchan.toml"
_PATHS = ("persona_path", "tls_cert", "tls_key")


class Settings(BaseSettings):
    """The whole configuration. Build it with `load_settings`; the constructor reads neither environment nor file."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, env_prefix=ENV_PREFIX
    )

    profile: Literal["embedded", "qwen"] = "embedded"
    """Set of engines: `embedded` needs no key, GPU or other server; `qwen` is the robot's full set-up."""
    host: Annotated[
        str, StringConstraints(min_length=1, max_length=253, strip_whitespace=True), Wording("a name or address")
    ] = "127.0.0.1"
    """Address to listen on. `0.0.0.0` opens the server to the robot's network."""
    port: Annotated[int, Ge(0), Le(65535)] = 8000
    """TCP port to listen on; 0: any free one."""
    data_dir: Path = Path(DATA_DIR)
    """Folder of everything that must be kept. Not settable in the file, which lies in it."""
    model_dir: Path = Path("~/.cache/stackchan")
    """Folder of downloaded models, shared by all checkouts."""
    tls: bool = False
    """Speak HTTPS, with a certificate made here. A browser elsewhere gives its microphone to no other page."""
    tls_cert: Path | None = None
    """One's own certificate in its place, a PEM file; needs `tls_key`, and turns `tls` on."""
    tls_key: Path | None = None
    """The key of `tls_cert`, a PEM file without a password."""
    token: Annotated[SecretStr, Wording("8 characters or more")] | None = None
    """The owner's token. Empty: the server makes one and shows it once."""
    persona_path: Path | None = None
    """The persona file. Empty: `persona.yaml` in `data_dir` if it is there, else the one that comes with the server."""
    world: Identifier = "home"
    """Memory space to open: one folder in `<data_dir>/worlds/`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""
    log_format: Literal["text", "json"] = "text"
    """Log lines for people, or one JSON object a line for programs."""
    log_private_text: bool = False
    """Also log what was said and answered. Off: the log holds no words of anybody."""

    vad: VadSettings = VadSettings()
    listening: ListeningSettings = ListeningSettings()
    live: LiveSettings = LiveSettings()
    asr: AsrSettings = AsrSettings()
    llm: LlmSettings = LlmSettings()
    tts: TtsSettings = TtsSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    rerank: RerankSettings = RerankSettings()
    memory: MemorySettings = MemorySettings()
    session: SessionSettings = SessionSettings()
    limits: LimitSettings = LimitSettings()
    speech: SpeechSettings = SpeechSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The stock sources read os.environ and pass over unknown names; load_settings does neither.
        return (init_settings,)

    @property
    def toml_path(self) -> Path:
        """Where the settings file is, or would be."""
        return self.data_dir / TOML_NAME

    _no_booleans = field_validator("host", "port", mode="before")(refuse_booleans)

    @field_validator("data_dir", "model_dir", "persona_path", "tls_cert", "tls_key")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else _absolute(path)

    @field_validator("token")
    @classmethod
    def _token_fits_a_header(cls, token: SecretStr | None) -> SecretStr | None:
        if token is None:
            return None
        text = token.get_secret_value()
        if len(text) < 8 or not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("ASCII letters, digits and signs, without spaces")
        return token

    @model_validator(mode="after")
    def _certificate_has_a_key(self) -> Settings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: set both, or none")
        return self

    @model_validator(mode="after")
    def _index_server_has_an_address(self) -> Settings:
        if self.memory.index_kind == "server" and self.memory.index_url is None:
            raise ValueError("memory.index_kind server needs memory.index_url, the address of a Qdrant server")
        return self

    @model_validator(mode="after")
    def _prompt_fits_the_window(self) -> Settings:
        wanted, window = self.session.context_tokens + self.llm.max_answer_tokens, self.llm.context_tokens
        if wanted >= window:
            raise ValueError(
                f"session.context_tokens ({self.session.context_tokens}) + llm.max_answer_tokens "
                f"({self.llm.max_answer_tokens}) must be smaller than llm.context_tokens ({window})"
            )
        return self


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as documentation shows it."""

    name: str
    """Dotted, as in the file: `vad.threshold`."""
    env: str
    """Its environment variable: `STACKCHAN_VAD__THRESHOLD`."""
    type: str
    default: str
    """As one would write it; empty when there is none."""
    allowed: str
    doc: str


def describe_settings() -> tuple[SettingRow, ...]:
    """Every setting there is, in order, read off the model itself."""
    return tuple(
        SettingRow(
            name=name,
            env=_env_name(name),
            type=type_name(field),
            default=_default_text(field),
            allowed=allowed_values(field),
            doc=" ".join((field.description or "").split()),
        )
        for name, field in _fields()
    )


def load_settings(env: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read file and environment and return the frozen settings.

    `env`: None reads the process's own. `overrides`: top-level names, `section__key`, or `section={...}`; None means
    "not given". Empty environment values count as unset. Raises `ConfigError`: `config_unknown_key`, naming the nearest
    known name, or `config_invalid`, naming the file and line (or the variable), what was found and what is allowed.
    """
    environment = os.environ if env is None else env
    from_env = _environment_values(environment)
    given = _override_values(overrides)
    data_dir = _absolute(Path(given.get("data_dir") or from_env.get("data_dir") or DATA_DIR))
    toml = read_toml(data_dir / TOML_NAME)
    from_file = _file_values(toml)

    flat = from_file | from_env | given | {"data_dir": data_dir}
    for name in _PATHS:
        path = flat.get(name)
        if isinstance(path, str) and name not in from_env | given:
            # A relative path in a file is relative to that file.
            flat[name] = data_dir / Path(path).expanduser()
    try:
        return Settings(**_nested(flat))
    except PydanticValidationError as error:
        origins = {name: toml.place(name) for name in from_file}
        origins |= {name: _env_name(name) for name in from_env}
        origins |= dict.fromkeys(given, "given on start")
        raise invalid_error(error, origins, flat, dict(_fields())) from None


def _fields() -> Iterator[tuple[str, FieldInfo]]:
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for key, inner in section.model_fields.items():
                yield f"{name}.{key}", inner
        else:
            yield name, field


def _sections() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.partition(".")[0] for name, _ in _fields() if "." in name))


def _env_name(name: str) -> str:
    return ENV_PREFIX + name.upper().replace(".", "__")


def _environment_values(environment: Mapping[str, str]) -> dict[str, Any]:
    names = {_env_name(name): name for name, _ in _fields()}
    sections = {_env_name(section) for section in _sections()}
    values: dict[str, Any] = {}
    unknown = []
    for variable, text in environment.items():
        if not variable.startswith(ENV_PREFIX):
            continue
        if variable not in names:
            unknown.append((variable, variable, f"{variable}__..." if variable in sections else None))
        elif text.strip():
            values[names[variable]] = text
    if unknown:
        raise unknown_keys_error(unknown, tuple(names))
    return values


def _override_values(overrides: Mapping[str, Any]) -> dict[str, Any]:
    known = dict(_fields())
    values: dict[str, Any] = {}
    for name, value in overrides.items():
        pairs = (
            {f"{name}.{key}": inner for key, inner in value.items()}
            if isinstance(value, Mapping)
            else {name.replace("__", ".", 1): value}
        )
        values |= {key: inner for key, inner in pairs.items() if inner is not None}
    unknown = [(f"override {key}", key, None) for key in values if key not in known]
    if unknown:
        raise unknown_keys_error(unknown, tuple(known))
    return values


def _file_values(toml: TomlFile) -> dict[str, Any]:
    known = dict(_fields())
    sections = _sections()
    values: dict[str, Any] = {}
    unknown = []
    for key, value in toml.values.items():
        if key in sections:
            if not isinstance(value, dict):
                raise ConfigError(f"{toml.place(key)}: {key}: found {value!r}; allowed: a section, written [{key}].")
            inner = {f"{key}.{name}": item for name, item in value.items()}
        else:
            inner = {key: value}
        for name, item in inner.items():
            if name not in known:
                top = name.rpartition(".")[2]
                moved = f"{top} at the top of the file, before the first [section]" if top in known else None
                unknown.append((f"{toml.place(name)}: {name}", name, moved))
            elif name == "data_dir":
                raise ConfigError(
                    f"{toml.place(name)}: data_dir: cannot be set in the file that lies in that folder.",
                    hint=f"Set {_env_name(name)} instead.",
                )
            else:
                values[name] = item
    if unknown:
        raise unknown_keys_error(unknown, (*known, *sections))
    return values


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        section, dot, key = name.partition(".")
        if dot:
            nested.setdefault(section, {})[key] = value
        else:
            nested[name] = value
    return nested


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))


def _default_text(field: FieldInfo) -> str:
    default = field.default
    if default is None or default is PydanticUndefined:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)
