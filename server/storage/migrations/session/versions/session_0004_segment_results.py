"""Segments have no result `failed`: nothing ever wrote it. What could not be taken in stays open, its job parked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "session_0004"
down_revision = "session_0003"
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    failed = "SELECT segment_id FROM segments WHERE result = 'failed'"
    op.execute(f"DELETE FROM segment_turns WHERE segment_id IN ({failed})")
    # SQLite changes no CHECK of a table that is there.
    op.create_table(
        "segments_anew",
        sa.Column("segment_id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("segment_id", name="pk_segments"),
        sa.CheckConstraint("result IN ('memories', 'filler', 'forgotten')", name=op.f("ck_segments_result")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_segments_session_id"),
    )
    columns = "segment_id, session_id, result, closed_at"
    op.execute(f"INSERT INTO segments_anew ({columns}) SELECT {columns} FROM segments WHERE result <> 'failed'")
    op.drop_table("segments")
    op.rename_table("segments_anew", "segments")
    op.create_index("ix_segments_session_id", "segments", ["session_id"])
