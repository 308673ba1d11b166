"""The times at which forms stop to wait for an answer, and what agents say about it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010_pause_timeouts"
down_revision = "0009_schedules"


def upgrade() -> None:
    """Make the table and the columns."""
    op.create_table(
        "pause_timeouts",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(32), primary_key=True),
        sa.Column("agent_id", sa.String(32), nullable=False),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("expire_ms", sa.BigInteger(), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_pause_timeouts_due_ms", "pause_timeouts", ["due_ms"])
    op.add_column("agents", sa.Column("pause_timeout_s", sa.Integer(), nullable=True))
    op.add_column("agents", sa.Column("pause_answer", sa.String(16), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("agents", "pause_answer")
    op.drop_column("agents", "pause_timeout_s")
    op.drop_table("pause_timeouts")
