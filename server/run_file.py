"""How the command line finds a running server: `<data>/run.json`, written by the server, readable by its owner only.

It holds the process id, the address and an admin token that lives as long as the process. A file left by a process
that is gone is noticed and ignored. Beside it lies the lock that keeps a second server away from the same data. Knows
no HTTP: whether the server answers is the caller's question.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from server.errors import StorageError

FILE_NAME = "run.json"
_LOCK_NAME = "server.lock"


@dataclass(frozen=True, slots=True)
class RunFile:
    """`boot_id` tells this process from a later one with the same pid."""

    pid: int
    url: str
    token: str
    boot_id: str
    certificate: str = ""
    """File of the certificate that it shows; empty: it speaks plain HTTP."""


def write_run_file(data_dir: Path, run: RunFile) -> Path:
    """Write it whole or not at all, with mode 0600. Raises `StorageError`."""
    path = data_dir / FILE_NAME
    try:
        _write_private(path, run)
    except OSError as error:
        code = "storage_full" if error.errno == errno.ENOSPC else "storage_failed"
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}.", code=code, hint="Make room, or move it away."
        ) from None
    return path


def _write_private(path: Path, run: RunFile) -> None:
    partial = path.with_suffix(f".{run.pid}.partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(run), file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_run_file(data_dir: Path) -> RunFile | None:
    """The server that runs on this data folder; None when there is none (also when the file is stale or damaged)."""
    try:
        run = RunFile(**json.loads((data_dir / FILE_NAME).read_text(encoding="utf-8")))
        alive = isinstance(run.pid, int) and _is_alive(run.pid)
    except (OSError, ValueError, TypeError):
        return None
    return run if alive else None


def remove_run_file(data_dir: Path, boot_id: str) -> None:
    """Remove the file if it is still this boot's."""
    run = read_run_file(data_dir)
    if run is not None and run.boot_id == boot_id:
        (data_dir / FILE_NAME).unlink(missing_ok=True)


@contextmanager
def hold_data_dir(data_dir: Path) -> Iterator[None]:
    """Own the data folder until the end; make it if need be. Raises `StorageError`: `data_in_use`, `storage_failed`."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(data_dir / _LOCK_NAME, timeout=0, mode=0o600)
        lock.acquire()
    except Timeout:
        run = read_run_file(data_dir)
        who = f"process {run.pid} at {run.url}" if run else "another server"
        raise StorageError(
            f"The data folder {data_dir} is in use by {who}.",
            code="data_in_use",
            hint="Stop that server first, or set STACKCHAN_DATA_DIR to another folder.",
        ) from None
    except OSError as error:
        raise StorageError(
            f"The data folder {data_dir} cannot be used: {error.strerror or error}.",
            hint="Check its permissions, or set STACKCHAN_DATA_DIR to another folder.",
        ) from None
    try:
        yield
    finally:
        lock.release()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
