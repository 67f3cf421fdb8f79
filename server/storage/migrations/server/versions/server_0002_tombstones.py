"""What was forgotten is written down, so that no restore brings it back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "server_0002"
down_revision = "server_0001"
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    op.create_table(
        "tombstones",
        sa.Column("tombstone_id", sa.Integer(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=True),
        sa.Column("source_turn_id", sa.Integer(), nullable=True),
        sa.Column("blanked", sa.Boolean(), nullable=False),
        sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tombstone_id", name="pk_tombstones"),
        sa.CheckConstraint("(memory_id IS NULL) <> (source_turn_id IS NULL)", name=op.f("ck_tombstones_one_id")),
        sa.UniqueConstraint("memory_id", name="uq_tombstones_memory_id"),
        sa.UniqueConstraint("source_turn_id", name="uq_tombstones_source_turn_id"),
    )
