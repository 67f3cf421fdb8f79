"""A timer may be set for a time of the clock; it keeps the zone of that clock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "server_0005"
down_revision = "server_0004"
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    op.add_column("timers", sa.Column("zone", sa.Text(), nullable=True))
