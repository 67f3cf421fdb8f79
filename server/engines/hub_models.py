"""Whole models of the model hub, by id: where they lie on this machine, and how they are brought here.

`Qwen/Qwen3-ASR-0.6B-hf` lies in `<model_dir>/Qwen/Qwen3-ASR-0.6B-hf` when somebody put it there by hand, else in the
hub's own cache, which other programs share. Looking never touches the network: a start must not begin with gigabytes
nobody asked for. Unlike the catalogue's files these are not pinned: the hub's client proves them by its own hashes.
Knows no model library; `HF_ENDPOINT`, `HF_HOME` and `HF_HUB_OFFLINE` are the hub client's, and no token is sent.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Sequence
from pathlib import Path

from server.config import Settings
from server.engines.hub import is_offline
from server.errors import ModelError

WHOLE_MODEL = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
"""What transformers reads of a model; not the same weights in other forms."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_INDEX = "model.safetensors.index.json"


def is_hub_id(model: str) -> bool:
    """Whether this names a model of the hub, `owner/name`; a folder of that name here comes first."""
    return _HUB_ID.fullmatch(model) is not None and not Path(model).expanduser().exists()


def hub_folder(settings: Settings, model: str, *, patterns: Sequence[str] = WHOLE_MODEL) -> Path:
    """The folder of a whole model on this machine, by hub id or path.

    `patterns`: the files that make it whole, each of `WHOLE_MODEL` only if the model has such. Raises `ModelError`
    `model_missing` when it is not here or a part of it is not, `model_unknown` for what can be neither.
    """
    path = Path(model).expanduser()
    if model and path.is_dir():
        return _whole(path, model, patterns, f"Put them into {path}, or give another folder.")
    if not is_hub_id(model):
        if "/" in model or "\\" in model:
            raise ModelError(
                f"There is no model folder {model}.", hint="Correct the path, or give a hub id, owner/name."
            )
        hint = "Give its id on the model hub (owner/name), or the path of its folder."
        raise ModelError(f"There is no model called {model!r}.", code="model_unknown", hint=hint)
    own = settings.model_dir / model
    if own.is_dir():
        return _whole(
            own, model, patterns, f"Put them into {own}, or remove that folder and run: stackchan models pull."
        )
    cached = _in_cache(model, patterns)
    if cached is None:
        raise ModelError(f"The model {model} is not on this machine.", hint=_how_to_get(settings, model))
    return _whole(cached, model, patterns, _how_to_get(settings, model))


def pull_hub_model(model: str, *, patterns: Sequence[str] = WHOLE_MODEL) -> Path:
    """Bring a model of the hub into the hub's cache, and return its folder; what is there already is not fetched again.

    Shows the hub client's own bars on standard error. Raises `ModelError`: `model_download_failed`, `model_unknown`,
    `model_disk_full`.
    """
    import httpx2
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    if is_offline():
        raise ModelError(
            f"The model {model} cannot be fetched: HF_HUB_OFFLINE is set.",
            code="model_download_failed",
            hint="Unset HF_HUB_OFFLINE, or put the model's folder on this machine and set its path.",
        )
    try:
        return Path(snapshot_download(model, allow_patterns=list(patterns), token=False))
    except RepositoryNotFoundError as error:
        hint = "Check the spelling of owner/name; a model that needs a login is fetched by hand."
        raise ModelError(f"The model hub has no open model {model}.", code="model_unknown", hint=hint) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, httpx2.HTTPError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            f"The model {model} could not be fetched: {reason}",
            code="model_download_failed",
            hint="Try again: what has come stays. HF_ENDPOINT names another hub, a path in place of the id a folder.",
        ) from error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise ModelError(
                f"The model {model} could not be written: {error}", code="model_download_failed"
            ) from error
        raise ModelError(f"The disk is full; the model {model} is not here yet.", code="model_disk_full") from error


def missing_files(folder: Path, patterns: Sequence[str] = WHOLE_MODEL) -> list[str]:
    """What a model's folder lacks to be loaded: names, or patterns of which nothing is there."""
    if "*.safetensors" not in patterns:
        return [pattern for pattern in patterns if not any(folder.glob(pattern))]
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    if not (folder / _INDEX).is_file():
        return missing if any(folder.glob("*.safetensors")) else [*missing, "model.safetensors"]
    try:
        shards = set(json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError):
        return [*missing, _INDEX]
    return missing + sorted(name for name in map(str, shards) if not (folder / name).is_file())


def _in_cache(model: str, patterns: Sequence[str]) -> Path | None:
    # Imported here: it takes a while, and the embedded profile never asks.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, allow_patterns=list(patterns), local_files_only=True, token=False))
    except LocalEntryNotFoundError:
        return None


def _whole(folder: Path, model: str, patterns: Sequence[str], hint: str) -> Path:
    missing = missing_files(folder, patterns)
    if missing:
        raise ModelError(f"The model {model} in {folder} lacks {', '.join(missing[:4])}.", hint=hint)
    return folder


def _how_to_get(settings: Settings, model: str) -> str:
    pull = "Run: stackchan models pull"
    if is_offline():
        pull += " (with HF_HUB_OFFLINE unset)"
    return f"{pull}; or put its files into {settings.model_dir / model}."
