"""The visitors of embedded pages that sessions and files belong to. Earlier ones belong to those without a secret."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012_visitors"
down_revision = "0011_names_of_sessions"

_TABLES = ("sessions", "files")


def upgrade() -> None:
    """Make the columns. A session that a page has used stays open to the page's visitors without a secret."""
    for table in _TABLES:
        op.add_column(table, sa.Column("visitor", sa.String(32), nullable=False, server_default=""))
    op.execute("UPDATE files SET visitor = page_key")
    op.execute(
        "UPDATE sessions SET visitor = COALESCE((SELECT MAX(runs.page_key) FROM runs"
        " WHERE runs.tenant = sessions.tenant AND runs.session_id = sessions.id), '')"
    )


def downgrade() -> None:
    """Drop them."""
    for table in _TABLES:
        op.drop_column(table, "visitor")
