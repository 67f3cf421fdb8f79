"""Turns keep a digest of what their idempotency key was first sent with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "session_0002"
down_revision = "session_0001"
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    op.add_column("turns", sa.Column("request_digest", sa.Text(), nullable=True))
