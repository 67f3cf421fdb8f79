"""The folder of an index on this machine: whose it is, who has it, what it was made with, and where damage goes.

    index/                      the folder given; in it
        stackchan-index.json    our mark: backend, embedding fingerprint, points at the last clean end
        data/                   what the library writes
    index.lock, index.pid       beside it: held while it is open, and by which process
    index.damaged-<time>/       beside it: what could not be read, kept for whoever wants to look

A library opens only a folder that bears our mark: what lies in a foreign one may be pickles, which run when read.
Knows no library.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from server.engines.base import EmbeddingFingerprint
from server.errors import IndexDamaged, IndexLocked, IndexMismatch, MemoryIndexError

MARK = "stackchan-index.json"
_PARTIAL = f"{MARK}.partial"
_FORMAT = 1


def remove_moved_aside(path: Path) -> int:
    """Remove what damage or a kill left beside the index folder `path`; how many. Blocks. Raises `OSError`."""
    left = [*path.parent.glob(f"{path.name}.damaged-*"), *path.parent.glob(f"{path.name}.dropped")]
    for folder in left:
        with suppress(FileNotFoundError):  # the index tidies up beside us
            shutil.rmtree(folder)
    return len(left)


def remove_unused(path: Path) -> bool:
    """Remove the index folder `path` if it is ours and nobody has it open; whether it was. Blocks. Raises `OSError`."""
    if path.is_symlink() or not (path / MARK).is_file():
        return False
    try:
        with FileLock(path.with_name(f"{path.name}.lock"), timeout=0, mode=0o600, thread_local=False):
            dropped = path.with_name(f"{path.name}.dropped")
            shutil.rmtree(dropped, ignore_errors=True)
            path.rename(dropped)
            shutil.rmtree(dropped)
    except Timeout:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Mark:
    """`points`: how many there were when it was closed; None while open or after a crash. `made`: False while the
    library still makes its files."""

    backend: str
    fingerprint: EmbeddingFingerprint
    points: int | None = None
    made: bool = True


class IndexFolder:
    """One index folder. Every method blocks; one thread calls them in turn."""

    def __init__(self, path: Path, backend: str, fingerprint: EmbeddingFingerprint) -> None:
        self.path = path
        self.data = path / "data"
        self.building = path / "data.building"
        self._backend = backend
        self._fingerprint = fingerprint
        self._pid_file = path.with_name(f"{path.name}.pid")
        self._opened_data: tuple[int, int] | None = None
        self._old_data = path / "data.old"
        self._dropped = path.with_name(f"{path.name}.dropped")
        # Not thread-local: it is taken on the index's thread and may be given back on another one.
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), mode=0o600, thread_local=False)

    def hold(self) -> None:
        """Take the folder for this process. Raises `IndexLocked`, which names who has it."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            # The system frees the lock of a process that dies, so a pid left by one is simply written over.
            self._pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
            shutil.rmtree(self._dropped, ignore_errors=True)
        except Timeout:
            pid = self._holder()
            who = f"process {pid}" if pid else "another process"
            raise IndexLocked(
                f"The memory index {self.path} is in use by {who}.",
                pid=pid,
                hint="Ask the running server, or stop that process first.",
            ) from None
        except OSError as error:
            self.release()
            raise self.failed(error) from None

    def release(self) -> None:
        """Give it back. Safe to call when it is not held."""
        if self._lock.is_locked:
            self._pid_file.unlink(missing_ok=True)
            self._lock.release()

    def inspect(self) -> Mark | None:
        """Our mark, or None for a folder that is missing or empty.

        Raises `index_foreign` for a folder that is not ours, `IndexDamaged` for a mark that cannot be read,
        `IndexMismatch` for another model's vectors.
        """
        try:
            if not os.path.lexists(self.path):
                return None
            # A process killed while it made the folder leaves it empty, or with half a mark.
            if self.path.is_dir() and {entry.name for entry in self.path.iterdir()} <= {_PARTIAL}:
                return None
            ours = self.path.is_dir() and not self.path.is_symlink() and (self.path / MARK).is_file()
            if not ours or self._belongs_to_another():
                raise MemoryIndexError(
                    f"{self.path} was not made by this program; it was not opened.",
                    code="index_foreign",
                    hint="Move it away, or set another folder; then rebuild the index from the memories.",
                )
            return self._read_mark()
        except OSError as error:
            raise self.failed(error) from None

    def check(self, mark: Mark) -> None:
        """Raises `IndexMismatch` unless `mark` is of this backend and this embedding model."""
        if mark.fingerprint != self._fingerprint:
            raise mismatch(str(self.path), mark.fingerprint, self._fingerprint)
        if mark.backend != self._backend:
            raise IndexMismatch(
                f"{self.path} was written by the backend {mark.backend}, not {self._backend}.",
                hint="Rebuild the index to move it; until then words are searched.",
            )

    def remember(self) -> None:
        """The library has opened `data` as it is now."""
        self._opened_data = _identity(self.data)

    def is_here(self) -> bool:
        """Whether `data` is still the folder that the library has open: nobody has taken it away or replaced it."""
        return self._opened_data is not None and _identity(self.data) == self._opened_data

    def write_mark(self, points: int | None, *, made: bool = True) -> None:
        """Write the mark whole or not at all. `points`: None while the index is open."""
        content = {"format": _FORMAT, **asdict(Mark(self._backend, self._fingerprint, points, made))}
        partial = self.path / _PARTIAL
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            with partial.open("w", encoding="utf-8") as file:
                json.dump(content, file, ensure_ascii=False, indent=2)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path / MARK)
        except OSError as error:
            raise self.failed(error) from None

    def begin(self) -> None:
        """An empty folder with our mark, in which the library can begin; what of ours was there is gone."""
        try:
            # Renamed first: a folder half removed would have lost its mark and be taken for a foreign one.
            if self.path.exists():
                shutil.rmtree(self._dropped, ignore_errors=True)
                self.path.rename(self._dropped)
            self.write_mark(None, made=False)
            self.data.mkdir(mode=0o700)
            shutil.rmtree(self._dropped, ignore_errors=True)
        except OSError as error:
            raise self.failed(error) from None

    def exchange(self, new: Path) -> None:
        """Put another folder in the place of `data`; whoever has files of the old one open has closed them."""
        try:
            self.data.rename(self._old_data)
            new.rename(self.data)
            shutil.rmtree(self._old_data, ignore_errors=True)
        except OSError as error:
            raise self.failed(error) from None

    def finish_exchange(self) -> None:
        """After a kill in the middle of `exchange`: the old data come back, or go."""
        if self._old_data.exists() and not self.data.exists():
            self._old_data.rename(self.data)
        for left in (self._old_data, self.building):
            shutil.rmtree(left, ignore_errors=True)

    def move_aside(self) -> Path:
        """Rename a damaged folder of ours; returns where it is now."""
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        names = (f"{self.path.name}.damaged-{stamp}{f'-{n}' if n else ''}" for n in range(1_000))
        try:
            target = next(path for name in names if not (path := self.path.with_name(name)).exists())
            self.path.rename(target)
        except (OSError, StopIteration) as error:
            raise self.failed(error) from None
        return target

    def failed(self, error: BaseException) -> MemoryIndexError:
        """What went wrong with the disk or the library, for people."""
        return MemoryIndexError(
            f"The memory index {self.path} failed: {type(error).__name__}: {error}",
            hint="Check the disk and the permissions of the data folder; words are still searched.",
        )

    def _read_mark(self) -> Mark:
        try:
            content = json.loads((self.path / MARK).read_text(encoding="utf-8"))
            points = content["points"]
            if content["format"] != _FORMAT or not (points is None or isinstance(points, int)):
                raise ValueError(f"format {content['format']}")
            fingerprint = EmbeddingFingerprint(**content["fingerprint"])
            return Mark(str(content["backend"]), fingerprint, points, bool(content["made"]))
        except (ValueError, TypeError, KeyError) as error:
            raise IndexDamaged(f"{MARK} cannot be read ({type(error).__name__}: {error})") from None

    def _belongs_to_another(self) -> bool:
        """Whether another user owns it, or could have put files in: they would be trusted when they are read."""
        if not hasattr(os, "getuid"):
            return False
        status = self.path.stat()
        return status.st_uid not in (os.getuid(), 0) or bool(status.st_mode & 0o002)

    def _holder(self) -> int | None:
        with suppress(OSError, ValueError):
            return int(self._pid_file.read_text(encoding="ascii"))
        return None


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def mismatch(where: str, found: EmbeddingFingerprint, wanted: EmbeddingFingerprint) -> IndexMismatch:
    """The error for vectors of another model, with both models in it."""
    return IndexMismatch(
        f"The vectors in {where} are from {_model(found)}; the server now uses {_model(wanted)}.",
        hint="Run: stackchan memory rebuild. Until then memories are found by words only.",
    )


def _model(fingerprint: EmbeddingFingerprint) -> str:
    instruction = f", instruction “{fingerprint.instruction}”" if fingerprint.instruction else ""
    return f"{fingerprint.model} ({fingerprint.dimensions} dimensions{instruction})"
