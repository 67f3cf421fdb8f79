"""Long-term memory: memories, their sources and word indexes, jobs, segments. Words said earlier are indexed too."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from alembic.operations import Operations

from server.storage.words import tokens

revision = "session_0003"
down_revision = "session_0002"
branch_labels = None
depends_on = None

_PAGE = 500


def upgrade(op: Operations) -> None:
    _create_memories(op)
    _create_work(op)
    for name in ("recall_words", "source_words"):
        op.execute(f"CREATE VIRTUAL TABLE {name} USING fts5(body, tokenize = \"ascii tokenchars '.'\")")
    _index_words_said(op)
    _queue_sessions(op)


def _create_memories(op: Operations) -> None:
    op.create_table(
        "recall_items",
        sa.Column("item_id", sa.Integer(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("entities", sa.JSON(), nullable=False),
        sa.Column("memory_type", sa.Text(), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("speakers", sa.JSON(), nullable=False),
        sa.Column("confidence", sa.Text(), nullable=False),
        sa.Column("importance", sa.Integer(), nullable=False),
        sa.Column("persona_id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("visibility", sa.Text(), nullable=False),
        sa.Column("index_state", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("item_id", name="pk_recall_items"),
        sa.UniqueConstraint("memory_id", name="uq_recall_items_memory_id"),
        sa.CheckConstraint(
            "memory_type IN ('episode', 'preference', 'decision', 'fact')", name=op.f("ck_recall_items_memory_type")
        ),
        sa.CheckConstraint("status IN ('active', 'superseded', 'forgotten')", name=op.f("ck_recall_items_status")),
        sa.CheckConstraint("confidence IN ('said', 'inferred')", name=op.f("ck_recall_items_confidence")),
        sa.CheckConstraint("visibility IN ('house', 'private')", name=op.f("ck_recall_items_visibility")),
        sa.CheckConstraint("index_state IN ('pending', 'indexed', 'failed')", name=op.f("ck_recall_items_index_state")),
        sa.CheckConstraint("importance BETWEEN 1 AND 5", name=op.f("ck_recall_items_importance")),
        sa.ForeignKeyConstraint(["superseded_by"], ["recall_items.memory_id"], name="fk_recall_items_superseded_by"),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.channel_id"], name="fk_recall_items_channel_id"),
    )
    narrowed_by = ["persona_id", "status", "occurred_at", "memory_type", "visibility", "channel_id", "memory_id"]
    op.create_index("ix_recall_items_narrow", "recall_items", narrowed_by)
    op.create_index(
        "ix_recall_items_unindexed",
        "recall_items",
        ["memory_id"],
        sqlite_where=sa.text("index_state <> 'indexed'"),
        postgresql_where=sa.text("index_state <> 'indexed'"),
    )
    op.create_index("ix_recall_items_superseded_by", "recall_items", ["superseded_by"])
    op.create_table(
        "recall_sources",
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("source_turn_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("memory_id", "source_turn_id", name="pk_recall_sources"),
        sa.ForeignKeyConstraint(["memory_id"], ["recall_items.memory_id"], name="fk_recall_sources_memory_id"),
        sa.ForeignKeyConstraint(
            ["source_turn_id"], ["source_turns.source_turn_id"], name="fk_recall_sources_source_turn_id"
        ),
    )
    op.create_index("ix_recall_sources_source_turn_id", "recall_sources", ["source_turn_id"])
    for table, column in (("recall_entities", "entity_key"), ("recall_speakers", "speaker_id")):
        op.create_table(
            table,
            sa.Column("memory_id", sa.Text(), nullable=False),
            sa.Column(column, sa.Text(), nullable=False),
            sa.PrimaryKeyConstraint("memory_id", column, name=f"pk_{table}"),
            sa.ForeignKeyConstraint(["memory_id"], ["recall_items.memory_id"], name=f"fk_{table}_memory_id"),
        )
        op.create_index(f"ix_{table}_{column}_memory_id", table, [column, "memory_id"])


def _create_work(op: Operations) -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs"),
        sa.UniqueConstraint("kind", "subject", name="uq_jobs_kind_subject"),
        sa.CheckConstraint("kind IN ('ingest', 'index', 'unindex', 'scrub')", name=op.f("ck_jobs_kind")),
        sa.CheckConstraint("state IN ('queued', 'running', 'parked')", name=op.f("ck_jobs_state")),
        sa.CheckConstraint("(state = 'running') = (lease_owner IS NOT NULL)", name=op.f("ck_jobs_leased")),
        sa.CheckConstraint("(lease_until IS NOT NULL) = (lease_owner IS NOT NULL)", name=op.f("ck_jobs_leased_until")),
    )
    op.create_index("ix_jobs_state_not_before", "jobs", ["state", "not_before"])
    op.create_index(
        "ix_jobs_lease_owner",
        "jobs",
        ["lease_owner"],
        sqlite_where=sa.text("lease_owner IS NOT NULL"),
        postgresql_where=sa.text("lease_owner IS NOT NULL"),
    )
    op.create_table(
        "segments",
        sa.Column("segment_id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("segment_id", name="pk_segments"),
        sa.CheckConstraint("result IN ('memories', 'filler', 'failed', 'forgotten')", name=op.f("ck_segments_result")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_segments_session_id"),
    )
    op.create_index("ix_segments_session_id", "segments", ["session_id"])
    op.create_table(
        "segment_turns",
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("segment_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name="pk_segment_turns"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.turn_id"], name="fk_segment_turns_turn_id"),
        sa.ForeignKeyConstraint(["segment_id"], ["segments.segment_id"], name="fk_segment_turns_segment_id"),
    )
    op.create_index("ix_segment_turns_segment_id", "segment_turns", ["segment_id"])


def _index_words_said(op: Operations) -> None:
    connection = op.get_bind()
    insert = sa.text("INSERT INTO source_words (rowid, body) VALUES (:id, :body)")
    for page in _source_turns(connection):
        connection.execute(insert, [{"id": row.source_turn_id, "body": " ".join(tokens(row.text))} for row in page])


def _source_turns(connection: sa.Connection) -> Iterator[list[sa.Row[tuple[int, str]]]]:
    wanted = sa.text(
        "SELECT source_turn_id, text FROM source_turns WHERE source_turn_id > :after"
        " ORDER BY source_turn_id LIMIT :page"
    )
    after = -1
    while page := list(connection.execute(wanted, {"after": after, "page": _PAGE})):
        yield page
        after = page[-1].source_turn_id


def _queue_sessions(op: Operations) -> None:
    # Conversations held before there was a memory are taken in as well.
    op.execute(
        "INSERT INTO jobs (kind, subject, state, requests, attempts, not_before, created_at)"
        " SELECT 'ingest', session_id, 'queued', 1, 0, last_active_at, last_active_at FROM sessions"
        " WHERE EXISTS (SELECT 1 FROM source_turns WHERE source_turns.session_id = sessions.session_id"
        " AND role = 'user') ORDER BY opened_at, session_id"
    )
