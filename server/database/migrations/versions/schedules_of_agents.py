"""The table of schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0009_schedules"
down_revision = "0008_expiry_of_files"

LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "schedules",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("agent_id", sa.String(32), nullable=False),
        sa.Column("cron", sa.String(128), nullable=False),
        sa.Column("time_zone", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("request", LARGE, nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("last_run_id", sa.String(32), nullable=False),
        sa.Column("error", LARGE, nullable=False),
        sa.Column("create_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_schedules_due_ms", "schedules", ["due_ms"])
    op.create_index("ix_schedules_tenant_agent_id_create_ms", "schedules", ["tenant", "agent_id", "create_ms"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("schedules")
