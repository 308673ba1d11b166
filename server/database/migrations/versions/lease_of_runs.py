"""The lease under which each run ended, so that a process that has lost a run cannot end it again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_lease_of_runs"
down_revision = "0004_asked_of_runs"


def upgrade() -> None:
    """Make the column."""
    op.add_column("runs", sa.Column("lease_token", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("runs", "lease_token")
