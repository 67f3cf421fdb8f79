"""Alembic revisions: `server/` for `server.sqlite`, `session/` for each world's `session.sqlite`."""
