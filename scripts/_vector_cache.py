"""Vectors of texts, computed once and kept in a folder, so that tuning a ranking embeds nothing twice.

A file a role (query or document) and model, named by both; knows nothing of what the texts are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from server.engines.base import EmbeddingEngine

_SAVE_EVERY = 512
_BATCH = 16

Vectors = npt.NDArray[np.float32]


class VectorCache:
    """Embeds what is new and keeps it under `folder` (None: in memory only)."""

    def __init__(self, engine: EmbeddingEngine, folder: Path | None) -> None:
        self._engine = engine
        self._folder = folder
        self._known: dict[str, dict[str, Vectors]] = {}
        self.computed = 0

    async def vectors(self, texts: Sequence[str], role: Literal["query", "document"]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dimensions)."""
        known = self._load(role)
        new = [text for text in dict.fromkeys(texts) if _key(text) not in known]
        embed = self._engine.embed_queries if role == "query" else self._engine.embed_documents
        bar: Any = tqdm(total=len(new), desc=f"embedding, {role}", unit="text", disable=not new)
        since = 0
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            for text, vector in zip(batch, await embed(batch), strict=True):
                known[_key(text)] = vector
            self.computed += len(batch)
            bar.update(len(batch))
            since += len(batch)
            if since >= _SAVE_EVERY:
                self._save(role)
                since = 0
        bar.close()
        if since:
            self._save(role)
        if not texts:
            return np.zeros((0, self._engine.fingerprint.dimensions), np.float32)
        return np.stack([known[_key(text)] for text in texts])

    def _load(self, role: str) -> dict[str, Vectors]:
        if role not in self._known:
            self._known[role] = {}
            path = self._path(role)
            if path is not None and path.exists():
                with np.load(path) as kept:
                    self._known[role] = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))
        return self._known[role]

    def _save(self, role: str) -> None:
        path, known = self._path(role), self._known[role]
        if path is None or not known:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new.npz")
        np.savez(beside, keys=np.array(list(known)), vectors=np.stack(list(known.values())))
        beside.replace(path)

    def _path(self, role: str) -> Path | None:
        if self._folder is None:
            return None
        model = self._engine.fingerprint
        return self._folder / f"{model.model}-{model.dimensions}-{role}.npz"


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def texts_of(items: Iterable[Any], name: str) -> list[str]:
    """One attribute of every item."""
    return [getattr(item, name) for item in items]
