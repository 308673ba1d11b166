"""Names of sessions of any length: they begin with the user's question, and are longer when they are encrypted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011_names_of_sessions"
down_revision = "0010_pause_timeouts"

LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
LINE = sa.String(255)


def upgrade() -> None:
    """Change the column's type."""
    with op.batch_alter_table("sessions") as sessions:
        sessions.alter_column("name", existing_type=LINE, type_=LARGE, existing_nullable=False)


def downgrade() -> None:
    """Restore it. This fails while encrypted names are too long for it."""
    with op.batch_alter_table("sessions") as sessions:
        sessions.alter_column("name", existing_type=LARGE, type_=LINE, existing_nullable=False)
