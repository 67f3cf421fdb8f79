"""The first schema of session.sqlite. Written out, never derived from the models: it must not change with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = "session_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    op.create_table(
        "channels",
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("parent_channel_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("channel_id", name="pk_channels"),
        sa.CheckConstraint("kind IN ('stackchan', 'web', 'pool')", name=op.f("ck_channels_kind")),
        sa.ForeignKeyConstraint(["parent_channel_id"], ["channels.channel_id"], name="fk_channels_parent_channel_id"),
    )
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_active_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("close_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("session_id", name="pk_sessions"),
        sa.CheckConstraint("close_reason IN ('idle', 'requested', 'replaced')", name=op.f("ck_sessions_close_reason")),
        sa.CheckConstraint(
            "(close_reason IS NOT NULL) = (closed_at IS NOT NULL)", name=op.f("ck_sessions_closed_with_reason")
        ),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.channel_id"], name="fk_sessions_channel_id"),
    )
    op.create_index(
        "uq_sessions_open_channel",
        "sessions",
        ["channel_id"],
        unique=True,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_index("ix_sessions_channel_id_opened_at", "sessions", ["channel_id", "opened_at"])
    op.create_table(
        "turns",
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("input_kind", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("transcript", sa.Text(), nullable=True),
        sa.Column("language", sa.Text(), nullable=True),
        sa.Column("reply", sa.Text(), nullable=True),
        sa.Column("emotion", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("audio_duration_ms", sa.Integer(), nullable=True),
        sa.Column("speech_duration_ms", sa.Integer(), nullable=True),
        sa.Column("persona_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("latency", sa.JSON(), nullable=True),
        sa.Column("memory", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("turn_id", name="pk_turns"),
        sa.CheckConstraint("status IN ('queued', 'running', 'done', 'failed')", name=op.f("ck_turns_status")),
        sa.CheckConstraint("outcome IN ('ok', 'no_speech', 'failed', 'interrupted')", name=op.f("ck_turns_outcome")),
        sa.CheckConstraint("input_kind IN ('audio', 'text')", name=op.f("ck_turns_input_kind")),
        sa.CheckConstraint("(status IN ('done', 'failed')) = (ended_at IS NOT NULL)", name=op.f("ck_turns_ended")),
        sa.CheckConstraint("(outcome IS NOT NULL) = (ended_at IS NOT NULL)", name=op.f("ck_turns_outcome_when_ended")),
        sa.UniqueConstraint("channel_id", "idempotency_key", name="uq_turns_channel_id_idempotency_key"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_turns_session_id"),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.channel_id"], name="fk_turns_channel_id"),
    )
    op.create_index("ix_turns_status", "turns", ["status"])
    op.create_index("ix_turns_session_id_turn_id", "turns", ["session_id", "turn_id"])
    op.create_table(
        "source_turns",
        sa.Column("source_turn_id", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("speaker_id", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("visibility", sa.Text(), nullable=False),
        sa.Column("said_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("audio_duration_ms", sa.Integer(), nullable=True),
        sa.Column("interrupted", sa.Boolean(), nullable=False),
        sa.Column("tool_calls", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("source_turn_id", name="pk_source_turns"),
        sa.CheckConstraint("role IN ('user', 'robot')", name=op.f("ck_source_turns_role")),
        sa.CheckConstraint("visibility IN ('house', 'private')", name=op.f("ck_source_turns_visibility")),
        sa.UniqueConstraint("turn_id", "role", name="uq_source_turns_turn_id_role"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.turn_id"], name="fk_source_turns_turn_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_source_turns_session_id"),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.channel_id"], name="fk_source_turns_channel_id"),
    )
    op.create_index("ix_source_turns_session_id_source_turn_id", "source_turns", ["session_id", "source_turn_id"])
    op.create_table(
        "turn_traces",
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("trace", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name="pk_turn_traces"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.turn_id"], name="fk_turn_traces_turn_id"),
    )
