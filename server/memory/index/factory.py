"""Which backend an index gets. Only the chosen one's library is ever imported, and only when it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from server.engines.base import EmbeddingFingerprint
from server.errors import ConfigError, MemoryIndexError
from server.memory.index.base import MemoryIndex

IndexKind = Literal["local", "edge", "server"]


def open_index(
    kind: IndexKind,
    folder: Path,
    dimensions: int,
    fingerprint: EmbeddingFingerprint,
    url: str | None = None,
    api_key: str | None = None,
    *,
    collection: str | None = None,
    timeout_seconds: float = 5.0,
) -> MemoryIndex:
    """A closed index; `await index.open()` opens it. `folder`: the world's `index/`, for `local` and `edge`.

    `collection`: of `server`; by itself it is called after the world, whose folder holds `folder`. Raises
    `ConfigError` for an unknown kind or a server without its URL.
    """
    if dimensions != fingerprint.dimensions:
        raise MemoryIndexError(
            f"The embedding model {fingerprint.model} makes {fingerprint.dimensions} dimensions, not {dimensions}.",
            code="index_invalid",
        )
    match kind:
        case "local":
            from server.memory.index.local import local_index

            return local_index(folder, fingerprint)
        case "edge":
            from server.memory.index.edge import edge_index

            return edge_index(folder, fingerprint)
        case "server":
            if not url:
                raise ConfigError(
                    "The index backend server needs the address of a Qdrant server.",
                    hint="Set memory.index_url, for example http://127.0.0.1:6333.",
                )
            from server.memory.index.server import ServerIndex

            name = collection or f"stackchan-{folder.parent.name}"
            return ServerIndex(url, fingerprint, collection=name, api_key=api_key, timeout_seconds=timeout_seconds)
    raise ConfigError(f"There is no index backend {kind!r}.", hint=f"Choose one of {', '.join(get_args(IndexKind))}.")
