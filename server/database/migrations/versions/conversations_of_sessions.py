"""The conversation of a chat program that a session belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006_conversations_of_sessions"
down_revision = "0005_lease_of_runs"

INDEX = "ix_sessions_tenant_conversation"


def upgrade() -> None:
    """Make the column and its index."""
    op.add_column("sessions", sa.Column("conversation", sa.String(length=64), nullable=False, server_default=""))
    op.create_index(INDEX, "sessions", ["tenant", "conversation"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index(INDEX, "sessions")
    op.drop_column("sessions", "conversation")
