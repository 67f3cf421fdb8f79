"""Where a wrong setting is and how to right it: lines of the TOML file, nearest known names, allowed values.

Knows TOML text and pydantic's errors; does not know which settings exist (the caller passes their fields).
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from server.errors import ConfigError

_TYPE_NAMES = {
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "secret text",
    bool: "yes or no",
}


@dataclass(frozen=True, slots=True)
class Wording:
    """Metadata of a setting whose allowed values no type shows: what may be written, in words."""

    description: str


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A parsed settings file, still able to say where a key stands."""

    path: Path
    text: str
    values: dict[str, Any]

    def place(self, name: str) -> str:
        """`file:line` of the dotted key `name`; only the file when the key is not found."""
        line = _line_of(self.text, name.split("."))
        return f"{self.path}:{line}" if line else str(self.path)


_MAX_TOML_BYTES = 256 * 1024


def read_toml(path: Path) -> TomlFile:
    """Read and parse `path`; a missing file is an empty one. Raises `ConfigError` with line and column."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path}: is not a file.", hint="Move it away.")
        with path.open("rb") as file:
            raw = file.read(_MAX_TOML_BYTES + 1)
    except FileNotFoundError:
        return TomlFile(path, "", {})
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}).", hint="Check its permissions, or move it away."
        ) from error
    if len(raw) > _MAX_TOML_BYTES:
        raise ConfigError(f"{path}: is larger than {_MAX_TOML_BYTES} bytes.", hint="Settings are a page of text.")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8.", hint="Save the file as UTF-8.") from error
    try:
        return TomlFile(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        line, column = _syntax_place(str(error), text)
        reason = str(error).partition(" (at ")[0]
        raise ConfigError(f"{path}:{line}:{column}: is not valid TOML: {reason}.") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets without end
        raise ConfigError(f"{path}: is not valid TOML: {error}.") from error


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name most like `name`, whole or by its last part; None when nothing is alike."""
    whole = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if whole:
        return whole[0]
    tails = {full.rpartition(".")[2]: full for full in known}
    tail = difflib.get_close_matches(name.rpartition(".")[2], tuple(tails), n=1, cutoff=0.75)
    return tails[tail[0]] if tail else None


def unknown_keys_error(unknown: Sequence[tuple[str, str, str | None]], known: Sequence[str]) -> ConfigError:
    """The error for names that no setting has. `unknown`: (place as shown, the name, a better suggestion or None)."""
    lines = []
    for place, name, suggestion in unknown:
        best = suggestion or nearest(name, known)
        lines.append(f"{place}: there is no such setting." + (f" Did you mean {best}?" if best else ""))
    return ConfigError("\n".join(lines), code="config_unknown_key", hint="All settings: docs/configuration.md.")


def invalid_error(
    error: ValidationError, origins: Mapping[str, str], found: Mapping[str, Any], fields: Mapping[str, FieldInfo]
) -> ConfigError:
    """The error for values out of range: one line each with place, field, what was found and what is allowed.

    `origins`: dotted name -> where its value came from. Secrets are never repeated.
    """
    lines = []
    for problem in error.errors(include_url=False, include_context=False):
        name = ".".join(str(part) for part in problem["loc"])
        reason = problem["msg"].removeprefix("Value error, ")
        own_reason = problem["type"] == "value_error"
        field = fields.get(name)
        if field is None:
            lines.append(f"{name}: {reason}." if name else f"{reason}.")
            continue
        shown = "a value not shown here" if SecretStr in _members(field.annotation) else repr(found.get(name))
        allowed = ", ".join(filter(None, (type_name(field), allowed_values(field))))
        why = f" ({reason})" if own_reason else ""
        lines.append(f"{origins.get(name, 'default')}: {name}: found {shown}; allowed: {allowed}{why}.")
    return ConfigError("\n".join(lines), code="config_invalid", hint="All settings: docs/configuration.md.")


def type_name(field: FieldInfo) -> str:
    """The field's type in words."""
    member = _members(field.annotation)[0]
    if get_origin(member) is Literal:
        return "choice"
    return _TYPE_NAMES.get(member, getattr(member, "__name__", str(member)))


def allowed_values(field: FieldInfo) -> str:
    """What may be written, in words; empty when the type says it all."""
    member, *metadata = (*_members(field.annotation), *field.metadata)
    if member is bool:
        return "true or false"
    if get_origin(member) is Literal:
        return " or ".join(str(value) for value in get_args(member))
    bounds = {type(item): item for item in metadata}
    if Ge in bounds and Le in bounds:
        low, high = bounds[Ge].ge, bounds[Le].le
        return f"{low:g} to {high:g}" if member is float else f"{low} to {high}"
    return next((item.description for item in metadata if isinstance(item, Wording)), "")


def _members(annotation: Any) -> tuple[Any, ...]:
    """The type inside `Optional` and `Annotated`, then the metadata found on the way."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(member for member in get_args(annotation) if member is not NoneType)
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)


def _line_of(text: str, path: Sequence[str]) -> int | None:
    # tomllib tells no positions. But a file cut after a whole statement parses too, so the statement that defines a
    # key is the first whose prefix of the file has it; it starts after the last prefix that parsed.
    lines = text.splitlines(keepends=True)
    last_whole = 0
    for count in range(1, len(lines) + 1):
        try:
            values: Any = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        for part in path:
            values = values.get(part) if isinstance(values, dict) else None
        if values is not None:
            return last_whole + 1
        last_whole = count
    return None


def _syntax_place(message: str, text: str) -> tuple[int, int]:
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    if found:
        return int(found[1]), int(found[2])
    lines = text.split("\n")  # tomllib says "at end of document"
    return len(lines), len(lines[-1]) + 1
