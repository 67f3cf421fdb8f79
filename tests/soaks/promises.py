"""What a soak test says at its end: promises, each kept or broken, with the figures that show it.

Every soak module has `soak(count, seed, folder, on_progress) -> list[Promise]`: `folder` is empty and its own,
`on_progress(done, total)` may be called as often as it likes. Knows nothing of servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that must hold. `text` says it as a sentence; `figures`: JSON-able."""

    name: str
    text: str
    kept: bool
    figures: Mapping[str, Any] = field(default_factory=dict)


class Soak(Protocol):
    def __call__(self, count: int, seed: int, folder: Path, on_progress: Progress) -> list[Promise]: ...


def no_progress(done: int, total: int) -> None:
    """For those who do not watch."""
