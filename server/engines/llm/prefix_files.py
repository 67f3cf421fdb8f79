"""Where a prompt that was read once is kept for the next start: names of the files, and how many stay.

Several servers share the folder. Knows no model library but its version, and not what a prompt says.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_MOST = 6


def prefix_name(model: Path, facts: Sequence[Any], messages: Sequence[Mapping[str, Any]]) -> str:
    """16 hexadecimal digits that change with the library, the model file, `facts` and the prompt."""
    import xllamacpp

    file = model.stat()
    parts = [xllamacpp.__version__, model.name, file.st_size, file.st_mtime_ns, *facts, messages]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def can_write(folder: Path) -> bool:
    """Whether prompts can be kept; a read-only model folder costs time at each start, nothing else."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.warning("the prompt cache is not kept: %s", error)
        return False
    return os.access(folder, os.W_OK)


def keep_newest(folder: Path) -> None:
    """Each persona, model and window leaves a file of tens of megabytes; the last few are enough."""
    files = sorted(folder.glob("*.kv"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_MOST:]:
        file.unlink(missing_ok=True)
