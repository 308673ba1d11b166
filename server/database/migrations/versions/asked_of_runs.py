"""The user's question for each run in progress, so that it is not lost if the process running it dies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004_asked_of_runs"
down_revision = "0003_runs_of_agents"

LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Make the column."""
    op.add_column("runs", sa.Column("asked", LARGE, nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("runs", "asked")
