"""The calls of webhooks that are accepted only once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_webhook_deliveries"
down_revision = "0012_visitors"

_TABLE = "webhook_deliveries"
_INDEXED = ["tenant", "agent_id", "expire_ms"]


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        _TABLE,
        sa.Column("tenant", sa.String(length=64), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("expire_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "digest"),
    )
    op.create_index(op.f("ix_webhook_deliveries_tenant_agent_id_expire_ms"), _TABLE, _INDEXED, unique=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_table(_TABLE)
