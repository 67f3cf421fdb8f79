"""The first schema of server.sqlite. Written out, never derived from the models: it must not change with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "server_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    op.create_table(
        "speakers",
        sa.Column("speaker_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("speaker_id", name="pk_speakers"),
    )
    op.create_table(
        "devices",
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("owner_speaker_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("device_id", name="pk_devices"),
        sa.CheckConstraint("kind IN ('robot', 'web', 'cli', 'unknown')", name=op.f("ck_devices_kind")),
        sa.ForeignKeyConstraint(["owner_speaker_id"], ["speakers.speaker_id"], name="fk_devices_owner_speaker_id"),
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("token_id", name="pk_tokens"),
        sa.CheckConstraint("kind IN ('owner', 'device')", name=op.f("ck_tokens_kind")),
        sa.UniqueConstraint("token_hash", name="uq_tokens_token_hash"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.device_id"], name="fk_tokens_device_id"),
    )
    op.create_index("ix_tokens_device_id", "tokens", ["device_id"])
    counters = op.create_table(
        "id_counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("next_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_id_counters"),
    )
    op.bulk_insert(counters, [{"name": "turn", "next_id": 1}, {"name": "source_turn", "next_id": 1}])
