"""YAML read with positions, so that every complaint names the file, the line and the field.

Works on the node graph, never on constructed objects: tags cannot run anything, and `no`, `12` or `2024-01-01` are
seen as what they were written as. Does not know what a persona consists of.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from server.config_errors import nearest
from server.errors import ConfigError

MAX_FILE_BYTES = 64 * 1024

_TAG = "tag:yaml.org,2002:"
_KINDS = {
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "timestamp": "a date",
    "map": "a mapping",
    "seq": "a list",
}

Node = Any
"""A ruamel node; the library types its graph loosely."""


@dataclass(frozen=True, slots=True)
class YamlFile:
    """One parsed file: checked access to its nodes. All methods raise `ConfigError` (`persona_invalid`)."""

    path: Path
    root: Node

    def fail(self, node: Node, field: str, problem: str) -> ConfigError:
        """The error for `field` at `node`."""
        return _error(f"{self.path}:{node.start_mark.line + 1}: {field or 'the file'}: {problem}")

    def mapping(self, node: Node, field: str, *, known: Collection[str] | None = None) -> dict[str, tuple[Node, Node]]:
        """The mapping's `key -> (key node, value node)`, without duplicates; `known`: the only keys allowed."""
        if not isinstance(node, MappingNode):
            raise self.fail(node, field, f"found {_shown(node)}; allowed: `name: value` lines.")
        entries: dict[str, tuple[Node, Node]] = {}
        for key_node, value_node in node.value:
            key = self.text(key_node, f"{field} (a name in it)" if field else "(a name)", max_characters=100)
            dotted = f"{field}.{key}" if field else key
            if key in entries:
                first = entries[key][0].start_mark.line + 1
                raise self.fail(key_node, dotted, f"is written twice; the first is in line {first}.")
            if known is not None and key not in known:
                best = nearest(key, tuple(known))
                suggestion = f"Did you mean {best}?" if best else f"Allowed: {', '.join(known)}."
                raise self.fail(key_node, dotted, f"is not known here. {suggestion}")
            if isinstance(value_node, ScalarNode) and not value_node.value and is_null(value_node):
                value_node.start_mark = key_node.start_mark  # ruamel puts an absent value where the next key starts
            entries[key] = (key_node, value_node)
        return entries

    def sequence(self, node: Node, field: str) -> list[Node]:
        """The list's items."""
        if not isinstance(node, SequenceNode):
            raise self.fail(node, field, f"found {_shown(node)}; allowed: a list, written [a, b].")
        return list(node.value)

    def text(self, node: Node, field: str, *, max_characters: int, multiline: bool = False) -> str:
        """A text, trimmed and NFC: not empty, not over-long, no control characters (`multiline`: but line breaks)."""
        if not isinstance(node, ScalarNode) or node.tag != f"{_TAG}str":
            quote = ' If it is meant as text, put it in quotes: "...".' if isinstance(node, ScalarNode) else ""
            raise self.fail(node, field, f"found {_shown(node)}; allowed: text.{quote}")
        text = unicodedata.normalize("NFC", node.value).strip()
        if not text:
            raise self.fail(node, field, "is empty.")
        if len(text) > max_characters:
            raise self.fail(node, field, f"has {len(text)} characters; allowed: at most {max_characters}.")
        for character in text:
            # Cs: a lone surrogate from an escape such as "\ud800" cannot be written as UTF-8 anywhere.
            if unicodedata.category(character) in ("Cc", "Cs") and not (multiline and character == "\n"):
                raise self.fail(node, field, f"holds the control character U+{ord(character):04X}.")
        return text


def is_null(node: Node) -> bool:
    """Was the value left out (`key:`) or written as null?"""
    return isinstance(node, ScalarNode) and node.tag == f"{_TAG}null"


def read_yaml(path: Path) -> YamlFile:
    """Read and parse one YAML document. Raises `ConfigError` with line and column for a syntax error."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise _error(f"{path}: is not a file.", "Set persona_path to a YAML file, or unset it.")
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _error(f"{path}: there is no such file.", "Set persona_path to an existing file, or unset it.") from None
    except OSError as error:
        raise _error(f"{path}: cannot be read ({error.strerror}).", "Check its permissions.") from error
    if len(raw) > MAX_FILE_BYTES:
        raise _error(f"{path}: is larger than {MAX_FILE_BYTES // 1024} KiB.", "Is it really a persona file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _error(f"{path}:{line}: is not UTF-8.", "Save the file as UTF-8.") from error
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise _error(f"{place}: is not valid YAML: {error.problem or error.context}.") from error
    except YAMLError as error:
        # The reader refuses control characters with a position in the text instead of a mark.
        position = getattr(error, "position", 0)
        line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
        raise _error(f"{path}:{line}:{column}: is not valid YAML: a control character is not allowed.") from error
    except RecursionError as error:
        raise _error(f"{path}: is not valid YAML: nested too deeply.") from error
    if root is None:
        raise _error(f"{path}: is empty.", "Copy the persona.yaml that comes with the server and change it.")
    return YamlFile(path, root)


def _error(message: str, hint: str | None = None) -> ConfigError:
    return ConfigError(message, code="persona_invalid", hint=hint)


def _shown(node: Node) -> str:
    kind = str(node.tag).removeprefix(_TAG)
    described = _KINDS.get(kind, f"the tag {node.tag}")
    return (
        f"{described} ({node.value})" if isinstance(node, ScalarNode) and node.value and kind in _KINDS else described
    )
