"""The tables of the first version. Before a second migration, write them out here: models change, this must not."""

from __future__ import annotations

from alembic import op

from ragflow_lg.server.database.tables import Row

revision = "first_tables"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    Row.metadata.create_all(op.get_bind(), checkfirst=False)
