"""The tables for webhooks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002_webhooks"
down_revision = "0001"

LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "webhook_buckets",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("micro_tokens", sa.BigInteger(), nullable=False),
        sa.Column("update_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id"),
    )
    op.create_table(
        "webhook_tests",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        op.f("ix_webhook_tests_tenant_agent_id_start_us"),
        "webhook_tests",
        ["tenant", "agent_id", "start_us"],
        unique=False,
    )
    op.create_table(
        "webhook_events",
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("test_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("event", LARGE, nullable=False),
        sa.PrimaryKeyConstraint("test_id", "number"),
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("webhook_events", "webhook_tests", "webhook_buckets"):
        op.drop_table(table)
