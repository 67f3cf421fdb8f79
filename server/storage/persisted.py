"""Everything the server keeps, in one list: a test fails when a table or folder exists that is not in it.

Whoever adds one decides there whether a backup holds it. Plain data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Persisted:
    """One kept thing. `scope`: `server` is never rewound, `world` belongs to one memory space."""

    scope: Literal["server", "world"]
    kind: Literal["table", "file", "folder"]
    name: str
    """A table's name, or a path relative to the data folder (`server`) or the world's folder (`world`)."""


def _tables(scope: Literal["server", "world"], *names: str) -> tuple[Persisted, ...]:
    return tuple(Persisted(scope, "table", name) for name in names)


TRANSIENT = ("run.json", "server.lock", "speech", "tls")
"""What else lies in the data folder and may be lost: it describes a running server, can no longer be asked for, or is
made anew."""

PERSISTED: tuple[Persisted, ...] = (
    Persisted("server", "file", "stackchan.toml"),
    Persisted("server", "file", "persona.yaml"),
    Persisted("server", "file", "server.sqlite"),
    Persisted("server", "folder", "worlds"),
    *_tables(
        "server", "alembic_version", "devices", "tokens", "speakers", "id_counters", "tombstones", "house", "timers"
    ),
    Persisted("world", "file", "session.sqlite"),
    *_tables("world", "alembic_version", "channels", "sessions", "turns", "source_turns", "turn_traces"),
    *_tables("world", "recall_items", "recall_sources", "recall_entities", "recall_speakers"),
    *_tables("world", "recall_words", "source_words", "jobs", "segments", "segment_turns"),
)
