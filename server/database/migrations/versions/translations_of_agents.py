"""Titles and descriptions of agents in other languages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "translations_of_agents"
down_revision = "nodes_of_runs"


def upgrade() -> None:
    """Make the column."""
    op.add_column("agents", sa.Column("translations", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")))
