"""Runs the revisions of one tree on the connection the server hands over. Both trees' `env.py` call it."""

from __future__ import annotations

from alembic import context
from sqlalchemy import MetaData


def run(metadata: MetaData) -> None:
    """Run what Alembic was asked for. `metadata`: the tables as the code knows them, for comparing."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        # SQLite can change little of a table in place; a batch copies it.
        render_as_batch=True,
        transactional_ddl=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()
