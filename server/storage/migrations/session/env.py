"""Alembic's entry into the revisions of the session tree."""

from __future__ import annotations

from server.storage.migrations.environment import run
from server.storage.session_tables import SessionTable

run(SessionTable.metadata)
