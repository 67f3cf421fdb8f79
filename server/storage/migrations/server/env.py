"""Alembic's entry into the revisions of the server tree."""

from __future__ import annotations

from server.storage.migrations.environment import run
from server.storage.server_tables import ServerTable

run(ServerTable.metadata)
