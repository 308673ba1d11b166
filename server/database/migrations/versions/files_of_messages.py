"""Which files questions had."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "files_of_messages"
down_revision = "feedback_and_links"


def upgrade() -> None:
    """Make the column."""
    op.add_column("messages", sa.Column("files", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")))
