"""Language models inside this process, made as the settings say: which model, where its files lie, how it is asked.

Knows settings and files; imports no model library. What to do with a model is the engines' matter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from server.config import Settings
from server.engines import downloads
from server.engines.catalogue import load_catalogue
from server.engines.hub_gguf import HubGguf, find_gguf, hub_gguf, parts_of
from server.engines.hub_models import hub_folder
from server.errors import ConfigError, ModelError
from server.persona import Persona

DEFAULT_GGUF = "qwen2.5-coder-0.5b-instruct-q4_k_m"
DEFAULT_TRANSFORMERS = "Qwen/Qwen3-4B-Instruct-2507"
LARGE_BYTES = 1_900_000_000
"""From here on a GGUF model is told what to do instead of being shown it: 3 billion parameters at four bits. Not
measured: of the smaller ones that were, the examples made the difference."""


def xllama(settings: Settings, persona: Persona) -> Any:
    """Raises `ModelError` when the model is not here, `ConfigError` for one in another form."""
    from server.engines.llm.xllama import TOOL_BIASES, XllamaLlm

    model = settings.llm.model or DEFAULT_GGUF
    path = gguf_file(settings)
    size = settings.llm.size
    if size == "auto":
        size = "large" if sum(part.stat().st_size for part in parts_of(path)) >= LARGE_BYTES else "small"
    return XllamaLlm(
        path,
        context_tokens=settings.llm.context_tokens,
        threads=settings.llm.threads or None,
        conversations=settings.llm.conversations or (2 if size == "small" else 1),
        prefix_dir=settings.model_dir / "prompt-cache",
        tool_bias=TOOL_BIASES.get(model, 0.0),
        small=size == "small",
        system_anywhere=model in {entry.id for entry in load_catalogue()},
    )


def transformers(settings: Settings, persona: Persona) -> Any:
    """Raises `ModelError` when the model is not here."""
    from server.engines.llm.transformers_chat import TransformersLlm

    llm = settings.llm
    return TransformersLlm(
        hub_folder(settings, transformers_model(settings)),
        context_tokens=llm.context_tokens,
        device=llm.device,
        dtype=llm.dtype,
        threads=llm.threads or None,
        native_tools=llm.tools == "native",
    )


def transformers_model(settings: Settings) -> str:
    """Hub id or folder."""
    return settings.llm.model or DEFAULT_TRANSFORMERS


def gguf_file(settings: Settings) -> Path:
    """The GGUF file that `llm.model` names: by path, catalogue id or hub id. Raises `ModelError`, `ConfigError`."""
    model = settings.llm.model or DEFAULT_GGUF
    path = Path(model).expanduser()
    if path.is_file():
        return path
    if (named := hub_gguf(model)) is not None:
        return find_gguf(settings.model_dir, named)
    if "/" in model or "\\" in model or model.endswith(".gguf"):
        raise ModelError(
            f"There is no model file {model}.",
            code="model_missing",
            hint="Correct the path, or give a hub id: owner/name, owner/name:Q4_K_M or owner/name/file.gguf.",
        )
    folder = downloads.require(settings.model_dir, model)
    files = sorted(folder.glob("*.gguf"))
    if not files:
        raise ConfigError(f"{model} is not a language model in GGUF form.", hint="See `stackchan models list`.")
    return files[0]


def gguf_of_hub(settings: Settings) -> HubGguf | None:
    """The hub's GGUF model that these settings name for this process; None: there is none, or it is another's."""
    return hub_gguf(settings.llm.model) if settings.llm.model else None
