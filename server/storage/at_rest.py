"""What can be read of a world's file without opening the database: for a look from outside, beside a running server.

Changes nothing and upgrades nothing; a file of another version tells nothing.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def count_memories(session_file: Path) -> int | None:
    """Memories that can be searched; None when there is no such file, or it cannot be read as one."""
    if not session_file.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{session_file.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
            (count,) = db.execute("SELECT count(*) FROM recall_items WHERE status <> 'forgotten'").fetchone()
    except sqlite3.Error:
        return None
    return int(count)
