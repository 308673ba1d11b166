"""The index used to list an agent's runs."""

from __future__ import annotations

from alembic import op

revision = "0003_runs_of_agents"
down_revision = "0002_webhooks"


def upgrade() -> None:
    """Make the index."""
    op.create_index(op.f("ix_runs_tenant_agent_id_start_ms"), "runs", ["tenant", "agent_id", "start_ms"], unique=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_index(op.f("ix_runs_tenant_agent_id_start_ms"), table_name="runs")
