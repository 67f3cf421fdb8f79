"""Timers outlive a restart: a row each, until it was heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "server_0004"
down_revision = "server_0003"
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    op.create_table(
        "timers",
        sa.Column("timer_id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("duration_seconds", sa.Integer(), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("timer_id", name="pk_timers"),
        sa.CheckConstraint("duration_seconds > 0", name=op.f("ck_timers_some_time")),
        sa.ForeignKeyConstraint(["device_id"], ["devices.device_id"], name="fk_timers_device_id"),
    )
    op.create_index("ix_timers_device_id_due_at", "timers", ["device_id", "due_at"])
