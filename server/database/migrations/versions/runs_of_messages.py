"""Which messages show a run."""

from __future__ import annotations

from alembic import op

revision = "runs_of_messages"
down_revision = "translations_of_agents"


def upgrade() -> None:
    """Make the index."""
    op.create_index("ix_messages_tenant_run_id", "messages", ["tenant", "run_id"])
