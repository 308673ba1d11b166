"""Which sessions their owner wants above the others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "pins_of_sessions"
down_revision = "add_tenant_settings"


def upgrade() -> None:
    """Make the column and its index."""
    op.add_column("sessions", sa.Column("is_pinned", sa.Boolean(), nullable=False, server_default=sa.false()))
    columns = ["tenant", "agent_id", "is_pinned", "update_ms"]
    op.create_index("ix_sessions_tenant_agent_id_is_pinned_update_ms", "sessions", columns)
