"""Files that a command writes: whole or not at all, readable by their owner only, never over another one unasked.

Knows what is written only as bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.commands.failures import UsageFailure
from server.errors import StackChanError


def require_free(target: Path, *, force: bool) -> None:
    """Refuse, before any work, a place that cannot be written or holds a file already. Raises `UsageFailure`."""
    if target.is_dir():
        raise UsageFailure(f"{target} is a folder.", hint="Give the name of a file.")
    if not target.absolute().parent.is_dir():
        raise UsageFailure(f"There is no folder {target.absolute().parent}.", hint="Make it first.")
    if not force and os.path.lexists(target):
        raise UsageFailure(
            f"{target} is there already.", code="file_exists", hint="Choose another name, or replace it with --force."
        )


def save(target: Path, pieces: Iterable[bytes], *, force: bool, on_bytes: Callable[[int], None]) -> int:
    """Write `pieces` beside `target` and give the whole its name; its size. `on_bytes` hears how many there are so far.

    When `pieces` breaks off, nothing is left. Raises `UsageFailure`, `StackChanError` (`out_unwritable`).
    """
    require_free(target, force=force)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    size = 0
    try:
        with _failures_of(target):
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            # What fails while the pieces are made is not the file's fault, and keeps its own words.
            for piece in pieces:
                with _failures_of(target):
                    file.write(piece)
                size += len(piece)
                on_bytes(size)
            with _failures_of(target):
                file.flush()
                os.fsync(file.fileno())
        # Somebody may have taken the name meanwhile.
        require_free(target, force=force)
        with _failures_of(target):
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return size


@contextmanager
def _failures_of(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StackChanError(
            f"{target}: cannot be written ({reason}).",
            code="out_unwritable",
            hint="Make room, or choose another place.",
        ) from error
