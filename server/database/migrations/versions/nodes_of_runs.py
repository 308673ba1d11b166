"""How many nodes of a run have run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "nodes_of_runs"
down_revision = "answers_to_forms"


def upgrade() -> None:
    """Make the column. Of older runs it is not known."""
    op.add_column("runs", sa.Column("nodes", sa.Integer()))
