"""The table of what tenants have added to the settings on the page."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "add_tenant_settings"
down_revision = "first_tables"


def upgrade() -> None:
    """Make the table."""
    large = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    op.create_table(
        "tenant_settings",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("settings", large, nullable=False),
        sa.PrimaryKeyConstraint("tenant"),
    )
