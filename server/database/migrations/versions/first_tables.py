"""The tables of the first version."""

from __future__ import annotations

from typing import Any

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


def _texts(**lengths: int) -> list[sa.Column[str]]:
    """Return columns for short texts, by name with their length."""
    return [sa.Column(name, sa.String(length=length), nullable=False) for name, length in lengths.items()]


def _columns(kind: sa.types.TypeEngine[Any], *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _agents() -> None:
    op.create_table(
        "agents",
        *_texts(tenant=64, id=32, title=255, title_key=255, version_id=32),
        *_columns(LARGE, "description", "avatar"),
        *_texts(canvas_type=64, canvas_category=32, permission=16, tags=512),
        *_columns(sa.BigInteger(), "create_ms", "update_ms"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint(
            "tenant", "canvas_category", "title_key", name=op.f("uq_agents_tenant_canvas_category_title_key")
        ),
    )
    op.create_table(
        "versions",
        *_texts(tenant=64, id=32, agent_id=32),
        *_columns(LARGE, "title", "description", "dsl"),
        *_columns(sa.Boolean(), "is_released"),
        *_columns(sa.BigInteger(), "create_ms", "update_ms"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_versions_tenant_agent_id_create_ms"), "versions", ["tenant", "agent_id", "create_ms"])


def _sessions() -> None:
    op.create_table(
        "sessions",
        *_texts(tenant=64, id=32, agent_id=32, version_id=32, user_id=255, exp_user_id=255, name=255, source=16),
        *_columns(sa.BigInteger(), "tokens"),
        *_columns(sa.Integer(), "rounds"),
        *_columns(sa.Float(), "duration_s"),
        *_columns(LARGE, "errors"),
        *_columns(sa.BigInteger(), "create_ms", "update_ms"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_sessions_tenant_agent_id_update_ms"), "sessions", ["tenant", "agent_id", "update_ms"])
    op.create_table(
        "messages",
        *_texts(tenant=64, session_id=32),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        *_texts(role=16),
        *_columns(LARGE, "content"),
        *_texts(run_id=32),
        *_columns(LARGE, "reference"),
        *_columns(sa.BigInteger(), "create_ms"),
        sa.PrimaryKeyConstraint("session_id", "number"),
    )
    op.create_table(
        "runs",
        *_texts(tenant=64, id=32, agent_id=32, version_id=32, session_id=32, status=16),
        *_columns(LARGE, "error"),
        *_columns(sa.BigInteger(), "prompt_tokens", "completion_tokens", "start_ms", "end_ms"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_runs_tenant_session_id_start_ms"), "runs", ["tenant", "session_id", "start_ms"])


def _keys() -> None:
    op.create_table(
        "api_keys",
        *_texts(tenant=64, id=32, digest=64, prefix=32, name=255, kind=8, compat=16),
        *_columns(sa.BigInteger(), "create_ms", "revoke_ms"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )
    op.create_table(
        "files",
        *_texts(tenant=64, id=32, agent_id=32, name=255, mime_type=255),
        *_columns(sa.BigInteger(), "size_bytes", "create_ms"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_files_tenant_agent_id"), "files", ["tenant", "agent_id"])
