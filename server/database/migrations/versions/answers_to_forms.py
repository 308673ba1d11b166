"""Which messages show the values of forms, which links leave out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "answers_to_forms"
down_revision = "files_of_messages"


def upgrade() -> None:
    """Make the columns. Of older messages it is not known."""
    for table in ("runs", "messages"):
        op.add_column(table, sa.Column("is_form", sa.Boolean()))
