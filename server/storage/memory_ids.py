"""What the id of a memory looks like. Imports nothing, so that a command that only checks one starts quickly."""

from __future__ import annotations

MEMORY_ID = r"mem_[0-9A-HJKMNP-TV-Z]{26}"
"""A pattern: `mem_` and a ULID in Crockford's alphabet."""
