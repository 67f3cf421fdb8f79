"""A data folder says whose it is, so that no backup of another house is put in its place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "server_0003"
down_revision = "server_0002"
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    op.create_table(
        "house",
        sa.Column("house_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("house_id", name="pk_house"),
    )
    op.execute("INSERT INTO house (house_id) VALUES (lower(hex(randomblob(16))))")
