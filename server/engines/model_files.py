"""Model files on this machine's disk: are they there, are they the right bytes, is there room for more.

Hashing 640 MB takes seconds, so a proven file is remembered by size and modification time in a small marker beside
it. This module never touches the network and does not know where files come from (`downloads.py` does).
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from server.engines.catalogue import Catalogue, ModelEntry, ModelFile, load_catalogue, model_file
from server.errors import ModelError

log = logging.getLogger(__name__)

FileStatus = Literal["ok", "missing", "wrong", "unverified"]
"""`unverified`: the right size, not hashed since it last changed."""

MARKER_NAME = ".verified.json"
_CHUNK_BYTES = 1 << 20


class ProgressListener(Protocol):
    """Whoever shows the work to a person. Calls come from the thread that does the work."""

    def started(self, label: str, total_bytes: int) -> None: ...

    def advanced(self, label: str, n: int) -> None:
        """`n` more bytes are done; negative when a server could not resume and a part begins again."""

    def finished(self, label: str) -> None: ...

    def message(self, text: str) -> None:
        """One line for people."""


class SilentProgress:
    """Shows nothing."""

    def started(self, label: str, total_bytes: int) -> None:
        pass

    def advanced(self, label: str, n: int) -> None:
        pass

    def finished(self, label: str) -> None:
        pass

    def message(self, text: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class FileState:
    """One model file as found on the disk."""

    model_id: str
    name: str
    path: Path
    state: FileStatus
    size_bytes: int
    """The size it should have."""


def status(
    model_dir: Path, model_ids: Iterable[str] | None = None, *, catalogue: Catalogue | None = None
) -> list[FileState]:
    """The state of each file of the models (all of them by default), without hashing: sizes and the marker only."""
    return [
        FileState(entry.id, file.name, *_look(model_dir, entry, file), file.size_bytes)
        for entry in _entries(model_ids, catalogue)
        for file in entry.files
    ]


def verify(
    model_dir: Path,
    model_ids: Iterable[str] | None = None,
    progress: ProgressListener | None = None,
    *,
    catalogue: Catalogue | None = None,
) -> list[FileState]:
    """Hash every file of the models again (all of them by default) and remember the good ones.

    Each state is `ok`, `missing` or `wrong`; nothing is deleted.
    """
    listener = progress or SilentProgress()
    states: list[FileState] = []
    for entry in _entries(model_ids, catalogue):
        for file in entry.files:
            path = model_file(model_dir, entry.id, file.name)
            state = check_file(path, file, listener, label=f"{entry.id}/{file.name}")
            states.append(FileState(entry.id, file.name, path, state, file.size_bytes))
    return states


def require(model_dir: Path, model_id: str, *, catalogue: Catalogue | None = None) -> Path:
    """The folder of a model all of whose files are the right bytes. Blocking: it hashes files not proven before.

    Raises `ModelError`: `model_unknown`, `model_missing`, `model_hash_mismatch`.
    """
    entry = (catalogue or load_catalogue()).get(model_id)
    # An optional model is pulled only when it is named.
    hint = f"Run `stackchan models pull{'' if entry.profiles else f' {model_id}'}`."
    for file in entry.files:
        path, state = _look(model_dir, entry, file)
        if state == "unverified":
            state = check_file(path, file, SilentProgress(), label=file.name)
        if state == "missing":
            raise ModelError(f"The model {model_id} is not complete: {path} is missing.", hint=hint)
        if state == "wrong":
            raise ModelError(
                f"{path} is not the file that {model_id} needs (its size or SHA-256 differs).",
                code="model_hash_mismatch",
                hint=f"{hint} It replaces the file.",
            )
    return model_dir / model_id


def check_file(path: Path, file: ModelFile, progress: ProgressListener, *, label: str) -> FileStatus:
    """Hash one file and remember it when it is right: `ok`, `missing` or `wrong`."""
    try:
        before = path.stat()
        if before.st_size != file.size_bytes:
            return "wrong"
        progress.started(label, file.size_bytes)
        digest = sha256_of(path, lambda n: progress.advanced(label, n))
        progress.finished(label)
        # A file replaced while it was read must not be remembered with the new one's time.
        unchanged = path.stat().st_mtime_ns == before.st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        raise _unreadable(path, error) from error
    if digest != file.sha256:
        return "wrong"
    if unchanged:
        remember(path, file)
    return "ok"


def remember(path: Path, file: ModelFile) -> None:
    """Write into the marker that `path` was proven to be `file`."""
    marker = path.parent / MARKER_NAME
    known = _read_marker(marker)
    found = path.stat()
    known[file.name] = {"sha256": file.sha256, "size_bytes": found.st_size, "mtime_ns": found.st_mtime_ns}
    fresh = marker.with_name(f"{MARKER_NAME}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
        os.replace(fresh, marker)
    except OSError as error:
        # A read-only cache is fine: the file is only hashed again next time.
        log.info("cannot write %s: %s", marker, error)
        fresh.unlink(missing_ok=True)


def sha256_of(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """The SHA-256 of a file in lower-case hex; `on_bytes` hears how many bytes each step read."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
            if on_bytes:
                on_bytes(len(chunk))
    return digest.hexdigest()


def publish(part: Path, target: Path) -> None:
    """Give a finished, proven part its real name in one step that survives a power cut."""
    _sync(part)
    os.replace(part, target)
    _sync(target.parent)


def free_bytes(folder: Path) -> int:
    """Bytes free for this user where `folder` is, or will be."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    return shutil.disk_usage(existing).free


def disk_full(folder: Path, needed_bytes: int, available_bytes: int) -> ModelError:
    """The error that says how much is missing."""
    return ModelError(
        f"Not enough disk space for {folder}: {human_size(needed_bytes)} needed, {human_size(available_bytes)} free.",
        code="model_disk_full",
        hint="Free some space, or set another model folder; running the same command again continues.",
    )


def write_failed(error: OSError, folder: Path, needed_bytes: int, available_bytes: int) -> ModelError:
    """What a failed write under `folder` means: a full disk, a quota, a size limit, or no permission."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return disk_full(folder, needed_bytes, available_bytes)
    return ModelError(
        f"Cannot write model files in {folder}: {error.strerror or error}.",
        code="model_download_failed",
        hint="Check the folder's owner and permissions, or set another model folder.",
    )


def human_size(size_bytes: int) -> str:
    """`491.4 MB`, decimal units as download sizes are given."""
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    for unit, factor in (("kB", 1e3), ("MB", 1e6)):
        if size_bytes < factor * 1000:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes / 1e9:.1f} GB"


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(
        f"Cannot read {path}: {error.strerror or error}.",
        hint="Check the owner and permissions of the model folder, and the disk.",
    )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entries(model_ids: Iterable[str] | None, catalogue: Catalogue | None) -> tuple[ModelEntry, ...]:
    known = catalogue or load_catalogue()
    return known.model if model_ids is None else tuple(known.get(model_id) for model_id in model_ids)


def _look(model_dir: Path, entry: ModelEntry, file: ModelFile) -> tuple[Path, FileStatus]:
    path = model_file(model_dir, entry.id, file.name)
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path, "missing"
    except OSError as error:
        raise _unreadable(path, error) from error
    if found.st_size != file.size_bytes:
        return path, "wrong"
    proven = _read_marker(path.parent / MARKER_NAME).get(file.name)
    expected = {"sha256": file.sha256, "size_bytes": found.st_size, "mtime_ns": found.st_mtime_ns}
    return path, "ok" if proven == expected else "unverified"


def _read_marker(marker: Path) -> dict[str, Any]:
    """What was proven before; a missing or damaged marker proves nothing."""
    try:
        known = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
