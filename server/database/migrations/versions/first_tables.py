"""The tables of the first version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Make the tables."""
    _agents()
    _sessions()
    _keys()


def downgrade() -> None:
    """Drop them."""
    for table in ("files", "api_keys", "runs", "messages", "sessions", "versions", "agents"):
        op.drop_table(table)


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("title", sa.String(length=255), nullable=False),
        sa.Column("title_key", sa.String(length=255), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("description", LARGE, nullable=False),
        sa.Column("avatar", LARGE, nullable=False),
        sa.Column("canvas_type", sa.String(length=64), nullable=False),
        sa.Column("canvas_category", sa.String(length=32), nullable=False),
        sa.Column("permission", sa.String(length=16), nullable=False),
        sa.Column("tags", sa.String(length=512), nullable=False),
        sa.Column("create_ms", sa.BigInteger(), nullable=False),
        sa.Column("update_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint(
            "tenant", "canvas_category", "title_key", name=op.f("uq_agents_tenant_canvas_category_title_key")
        ),
    )
    op.create_table(
        "versions",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("title", LARGE, nullable=False),
        sa.Column("description", LARGE, nullable=False),
        sa.Column("dsl", LARGE, nullable=False),
        sa.Column("is_released", sa.Boolean(), nullable=False),
        sa.Column("create_ms", sa.BigInteger(), nullable=False),
        sa.Column("update_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        op.f("ix_versions_tenant_agent_id_create_ms"), "versions", ["tenant", "agent_id", "create_ms"], unique=False
    )


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("exp_user_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("errors", LARGE, nullable=False),
        sa.Column("create_ms", sa.BigInteger(), nullable=False),
        sa.Column("update_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        op.f("ix_sessions_tenant_agent_id_update_ms"), "sessions", ["tenant", "agent_id", "update_ms"], unique=False
    )
    op.create_table(
        "messages",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("content", LARGE, nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("reference", LARGE, nullable=False),
        sa.Column("create_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "number"),
    )
    op.create_table(
        "runs",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error", LARGE, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        op.f("ix_runs_tenant_session_id_start_ms"), "runs", ["tenant", "session_id", "start_ms"], unique=False
    )


def _keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("prefix", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("compat", sa.String(length=16), nullable=False),
        sa.Column("create_ms", sa.BigInteger(), nullable=False),
        sa.Column("revoke_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )
    op.create_table(
        "files",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("mime_type", sa.String(length=255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("create_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_files_tenant_agent_id"), "files", ["tenant", "agent_id"], unique=False)
