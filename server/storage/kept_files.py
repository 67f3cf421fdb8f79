"""Sound in files that only their owner may read: written whole or not at all, and forgotten after a while.

Blocking, for a thread. Knows bytes and names; not what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

PARTIAL = ".partial"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, and its folder where there is none; what is left of a failed one is removed. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_suffix(PARTIAL)
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def purge_older(folder: Path, is_ours: Callable[[Path], bool], before: float) -> int:
    """Delete the files of a folder that are ours and were last changed before `before` (unix seconds); the count."""
    removed = 0
    if not folder.is_dir():
        return 0
    for path in folder.iterdir():
        if is_ours(path) and path.stat().st_mtime < before:
            path.unlink(missing_ok=True)
            removed += 1
    return removed
