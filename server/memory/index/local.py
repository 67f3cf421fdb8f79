"""The `local` backend: Qdrant's local mode keeps the points in SQLite, a matrix in memory ranks them.

Qdrant's own search and filters are not used: they are loops in Python. What is stored are pickles, so before the
library reads a file every pickle in it is read with nothing allowed but Qdrant's own point, which also fills the
matrix. Knows no SQL of ours: a search is given the ids it may find.
"""

from __future__ import annotations

import io
import pickle
import sqlite3
import warnings
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from server.engines.base import EmbeddingFingerprint
from server.errors import IndexDamaged, MemoryIndexError
from server.events import Samples
from server.memory.index.base import MEMORY_ID, IndexFilter, IndexHit, StoredPoint, closed, point_id, unit_vector
from server.memory.index.embedded import EmbeddedIndex
from server.memory.index.matrix import VectorMatrix

COLLECTION = "memories"
STORAGE = Path("collection") / COLLECTION / "storage.sqlite"
_DAMAGE = frozenset(
    # The last three: a file that was emptied, replaced or cut beneath an open connection.
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
)
_POINT = ("qdrant_client.http.models.models", "PointStruct")


def local_index(folder: Path, fingerprint: EmbeddingFingerprint) -> EmbeddedIndex:
    """A `MemoryIndex` in `folder`; takes no filters."""
    return EmbeddedIndex(folder, fingerprint, LocalStore(fingerprint.dimensions))


class LocalStore:
    """Implements `Store` over `QdrantClient(path=...)`."""

    backend = "local"
    takes_filters = False
    write_batch = 32

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._matrix = VectorMatrix(dimensions)
        self._client: Any = None
        self._connection: sqlite3.Connection | None = None

    def create(self, data: Path) -> None:
        self._open(data)
        from qdrant_client import models

        self._client.create_collection(
            COLLECTION,
            vectors_config=models.VectorParams(size=self._dimensions, distance=models.Distance.COSINE),
        )
        # Stays in the file: a commit then costs one flush of the log instead of several of both files.
        with closing(sqlite3.connect(data / STORAGE)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        self._hasten()

    def load(self, data: Path) -> None:
        self._matrix = _read_points(data / STORAGE, self._dimensions)
        self._open(data)
        if not self._client.collection_exists(COLLECTION):
            raise IndexDamaged(f"meta.json does not name the collection {COLLECTION}")
        size = self._client.get_collection(COLLECTION).config.params.vectors.size
        if size != self._dimensions:
            raise IndexDamaged(f"meta.json says {size} dimensions, not {self._dimensions}")
        if (counted := self._client.count(COLLECTION).count) != len(self._matrix):
            raise IndexDamaged(f"Qdrant reads {counted} points of {len(self._matrix)}")
        self._hasten()

    def close(self) -> None:
        client, self._client, self._connection = self._client, None, None
        self._matrix = VectorMatrix(self._dimensions)
        if client is not None:
            client.close()

    def write(self, points: Sequence[StoredPoint]) -> None:
        from qdrant_client import models

        structs = [
            models.PointStruct(id=point.point_id, vector=point.vector.tolist(), payload=point.payload)
            for point in points
        ]
        try:
            self._opened().upsert(COLLECTION, structs)
        except Exception:
            # The library commits point by point: those before the failure are there.
            kept = self._opened().retrieve(COLLECTION, [struct.id for struct in structs], with_vectors=True)
            for record in kept:
                self._matrix.put(record.payload[MEMORY_ID], unit_vector(record.vector, self._dimensions))
            raise
        for point in points:
            self._matrix.put(point.memory_id, point.vector)

    def remove(self, points: dict[str, str]) -> None:
        from qdrant_client import models

        self._opened().delete(COLLECTION, models.PointIdsList(points=list(points)))
        for memory_id in points.values():
            self._matrix.remove(memory_id)

    def settle(self) -> None:
        if self._connection is not None:
            # With synchronous NORMAL a power cut could take the last commits; a checkpoint brings them to the disk. It
            # also empties the log, in which what was deleted would still stand.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def is_broken_by(self, error: BaseException) -> bool:
        primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        return isinstance(error, sqlite3.Error) and primary in _DAMAGE

    def rank(self, vector: Samples, limit: int, only: Collection[str] | None, where: IndexFilter) -> list[IndexHit]:
        self._opened()
        return self._matrix.rank(vector, limit, only)

    def count(self) -> int:
        self._opened()
        return len(self._matrix)

    def ids(self) -> set[str]:
        self._opened()
        return self._matrix.ids()

    def vectors(self, points: dict[str, str]) -> dict[str, Samples]:
        self._opened()
        return self._matrix.get(points.values())

    def _opened(self) -> Any:
        if self._client is None:
            raise closed()
        return self._client

    def _open(self, data: Path) -> None:
        # Local mode warns above 20,000 points; the doctor and the log say it before, and say what to do.
        warnings.filterwarnings("ignore", message="Local mode is not recommended", category=UserWarning)
        from qdrant_client import QdrantClient

        self._client = QdrantClient(path=str(data))

    def _hasten(self) -> None:
        """Commit without waiting for the disk each time, 80 points a second become 1,700; overwrite what is deleted.

        The library commits every point by itself and offers no setting. Where it has moved its connection, writing is
        as slow as it was, and as safe.
        """
        collection = getattr(self._client, "_client", None)
        collection = getattr(collection, "collections", {}).get(COLLECTION)
        connection = getattr(getattr(collection, "storage", None), "storage", None)
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")
            self._connection = connection


class _StoredStruct:
    """Stands in for Qdrant's point while a file is looked at: takes any state, does nothing with it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.fields = state.get("__dict__", state)


class _PointsOnly(pickle.Unpickler):
    """Reads a stored point and refuses every other class or function, before it is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) != _POINT:
            raise MemoryIndexError(
                f"A stored point asks for {module}.{name}; the index was not opened.",
                code="index_foreign",
                hint="Someone else wrote to this folder. Move it away and rebuild the index from the memories.",
            )
        return _StoredStruct


def _read_points(storage: Path, dimensions: int) -> VectorMatrix:
    """Every point of the file as a matrix. Raises `IndexDamaged`, or `index_foreign` for a pickle that is no point."""
    if not storage.is_file() or storage.stat().st_size == 0:
        raise IndexDamaged(f"{STORAGE} is missing or empty")
    matrix = VectorMatrix(dimensions)
    try:
        with closing(sqlite3.connect(storage)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise IndexDamaged(f"{STORAGE}: {found}")
            for (blob,) in connection.execute("SELECT point FROM points ORDER BY rowid"):
                _put(matrix, blob, dimensions)
    except (sqlite3.Error, OSError) as error:
        raise IndexDamaged(f"{STORAGE}: {error}") from error
    return matrix


def _put(matrix: VectorMatrix, blob: bytes, dimensions: int) -> None:
    try:
        fields = _PointsOnly(io.BytesIO(blob)).load().fields
        memory_id = fields["payload"][MEMORY_ID]
        vector = unit_vector(fields["vector"], dimensions)
        if fields["id"] != point_id(memory_id):
            raise ValueError(f"point {fields['id']} is not the one of {memory_id}")
    except MemoryIndexError as error:
        if error.code == "index_foreign":
            raise
        raise IndexDamaged(f"a stored point cannot be used: {error.message}") from None
    except Exception as error:  # a cut pickle may raise nearly anything
        raise IndexDamaged(f"a stored point cannot be read ({type(error).__name__}: {error})") from None
    matrix.put(memory_id, vector)
